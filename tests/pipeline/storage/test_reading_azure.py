"""Sources in Azure Blob Storage, through adlfs: every name below a folder is listed, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.storage import retry
from medsanitize.pipeline.storage.compare_listing import lists_exactly
from medsanitize.pipeline.storage.filesystem import file_system
from medsanitize.pipeline.storage.open_store import reader_of
from medsanitize.pipeline.storage.remote import RemoteReader
from medsanitize.pipeline.storage.retry import ObjectNotFound
from medsanitize.pipeline.storage.sources import SourceProblem, open_source_files, stamp_of, walk
from medsanitize.pipeline.storage.upload import UploadTarget
from medsanitize.release import layout
from medsanitize.sanitize.pseudonyms import derive_sub_keys

from tests.helpers.azure_server import Blobs, BlobServer
from tests.helpers.hospital import KEY, prepare, write_ct

pytestmark = pytest.mark.stores

SEAL = Seal(derive_sub_keys(KEY, scope="project"))


@pytest.fixture(scope="module")
def server() -> Iterator[BlobServer]:
    one = BlobServer()
    yield one
    one.close()


@pytest.fixture(autouse=True)
def azure(server: BlobServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlobServer]:
    """The server with an empty container, and the product's client connected to it."""
    for name in ("ACCOUNT_NAME", "ACCOUNT_KEY", "SAS_TOKEN", "CLIENT_ID"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", server.connection)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(retry, "PATIENCE", 0.3)
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.05)
    file_system.cache_clear()
    server.blobs = Blobs()
    yield server
    file_system.cache_clear()


def sorts(azure: BlobServer, objects: dict[str, bytes], folders: set[str] | None = None) -> dict[str, str]:
    """Walk ``abfs://c/in`` in a container with these objects; return the kind of each."""
    azure.blobs = Blobs(objects, folders or set())
    found = list(walk(("abfs://c/in",)))
    assert len({one.path for one in found}) == len(found)
    return {one.path.decode().removeprefix("abfs://c/in").removeprefix("/"): one.sort for one in found}


def test_a_folder_with_a_common_name_prefix_is_not_touched(azure: BlobServer) -> None:
    objects = {"in/a": b"x", "in/p/b": b"x", "in/p2/c": b"x", "in2/d": b"x", "in2/q/e": b"x", "in2//f": b"x"}
    assert sorts(azure, objects) == {"a": "file", "p/b": "file", "p2/c": "file"}
    assert azure.blobs.lists == ["in/", "in/p/", "in/p2/"]


@pytest.mark.parametrize("name", ["/c", "//c", "/c/d", "/"])
@pytest.mark.parametrize("mark", [{}, {"in/": b"", "in/p/": b""}], ids=["without marks", "with marks"])
def test_names_with_double_slashes_are_reported(azure: BlobServer, mark: dict[str, bytes], name: str) -> None:
    assert sorts(azure, {**mark, f"in/{name}": b"x", "in/a": b"x"}) == {"": "unlisted", "a": "file"}
    assert sorts(azure, {**mark, f"in/p/{name}": b"x", "in/p/a": b"x"}) == {"p/": "unlisted", "p/a": "file"}


def test_names_with_double_slashes_are_reported_at_the_container_root(azure: BlobServer) -> None:
    azure.blobs = Blobs({"/a": b"x", "b": b"x"})
    assert [(one.path, one.sort) for one in walk(("abfs://c",))] == [
        (b"abfs://c/", "unlisted"),
        (b"abfs://c/b", "file"),
    ]


def test_folder_markers_are_ignored(azure: BlobServer) -> None:
    objects = {"in/": b"", "in/a": b"x", "in/p/": b"", "in/p/b": b"x", "in/empty/": b""}
    assert sorts(azure, objects) == {"a": "file", "p/b": "file"}
    assert sorts(azure, objects, folders={"in/", "in/p/", "in/empty/"}) == {"a": "file", "p/b": "file"}


def test_a_non_empty_folder_marker_is_reported(azure: BlobServer) -> None:
    assert sorts(azure, {"in/": b"x", "in/a": b"x"}) == {"": "unlisted", "a": "file"}
    assert sorts(azure, {"in/p": b"x", "in/p/a": b"x"}, folders={"in/p"}) == {"p": "file", "p/a": "file"}


def test_directories_of_a_hierarchical_namespace_are_folders(azure: BlobServer) -> None:
    objects = {"in": b"", "in/p": b"", "in/p/a": b"x", "in/empty": b""}
    assert sorts(azure, objects, folders={"in", "in/p", "in/empty"}) == {"p/a": "file"}
    assert sorts(azure, {"in": b""}, folders={"in"}) == {}


def test_an_object_with_the_name_of_a_folder_hides_no_entries(azure: BlobServer) -> None:
    objects = {"in": b"x", "in/p": b"", "in/p/a": b"x", "in/q /b": b"x"}
    assert sorts(azure, objects) == {"p": "file", "p/a": "file", "q /b": "file"}


def test_a_paged_list_is_followed_to_its_end(azure: BlobServer) -> None:
    names = [f"{number}" for number in range(7)] + ["p/a", "p/b", "q/a"]
    azure.blobs = Blobs({f"in/{name}": b"x" for name in names}, page=2)
    assert [one.path.decode() for one in walk(("abfs://c/in",))] == [f"abfs://c/in/{one}" for one in names]


def test_an_address_can_be_that_of_one_object_or_missing(azure: BlobServer) -> None:
    assert sorts(azure, {"in": b"x", "in2": b"x"}) == {"": "file"}
    with pytest.raises(UsageError, match="does not exist"):
        sorts(azure, {"in2": b"x", "in2/a": b"x"})
    with pytest.raises(UsageError, match="does not exist"):
        list(walk(("abfs://none/in",)))


def test_a_list_denied_below_one_object_returns_the_object(azure: BlobServer) -> None:
    """Accounts with a hierarchical namespace deny listing below a file."""
    refusal = (400, "application/xml", "<Error><Code>InvalidInput</Code><Message>no</Message></Error>")
    azure.blobs = Blobs({"in": b"x"}, fail_after=0, failing=refusal)
    assert [one.sort for one in walk(("abfs://c/in",))] == ["file"]
    azure.blobs = Blobs({"in": b"", "in/a": b"x"}, {"in"}, fail_after=0, failing=refusal)
    with pytest.raises(EnvironmentFailure, match="cannot be listed"):
        list(walk(("abfs://c/in",)))
    azure.blobs = Blobs({"in/p/a": b"x", "in/b": b"x"}, fail_after=1, failing=refusal)
    assert [one.sort for one in walk(("abfs://c/in",))] == ["file", "unlisted"]


def test_a_name_is_read_as_listed(azure: BlobServer) -> None:
    names = ["a", "a#b", "p+q%20r", "x?y", "ä ö", "a&b<c", " a /b "]
    azure.blobs = Blobs({f"in/{name}": name.encode() for name in names})
    read = {}
    for found in walk(("abfs://c/in",)):
        with reader_of(found.path).opened(found.path) as given:
            assert (given.size, given.version) == (found.size, found.times)
            read[found.path.decode().removeprefix("abfs://c/in/")] = bytes(given.content)
    assert read == {name: name.encode() for name in names}


def test_a_name_that_adlfs_normalizes_is_not_read(azure: BlobServer) -> None:
    azure.blobs = Blobs({"in/a": b"x", "in/a?versionid=1": b"y", "in/b": b"x", "in/\tb": b"y"})
    read = {}
    for found in walk(("abfs://c/in",)):
        try:
            with open_source_files([found.path], SEAL, stamp_of(SEAL, found)) as contents:
                read[found.path] = bytes(contents[0])
        except SourceProblem as problem:
            read[found.path] = problem.rule.encode()
    assert read == {
        b"abfs://c/in/\tb": b"changed-since-inventory",
        b"abfs://c/in/a": b"x",
        b"abfs://c/in/a?versionid=1": b"changed-since-inventory",
        b"abfs://c/in/b": b"x",
    }


def test_an_archived_object_costs_only_itself(azure: BlobServer) -> None:
    azure.blobs = Blobs({"in/a": b"x", "in/b": b"y"}, archived={"in/a"})
    archived, other = walk(("abfs://c/in",))
    with pytest.raises(SourceProblem), open_source_files([archived.path], SEAL, stamp_of(SEAL, archived)):
        pass
    with open_source_files([other.path], SEAL, stamp_of(SEAL, other)) as contents:
        assert bytes(contents[0]) == b"y"


FAILURES = [
    (503, "application/xml", "<Error><Code>ServerBusy</Code><Message>in/secret</Message></Error>"),
    (200, "application/xml", "<EnumerationResults><Blobs>"),
    (200, "application/xml", "<page><Blobs></Blobs></page>"),
    (200, "application/xml", ""),
    (200, "text/html", "<html><body>Sign in</body></html>"),
    (403, "application/xml", "<Error><Code>AuthorizationFailure</Code><Message>in/secret</Message></Error>"),
]


@pytest.mark.parametrize("fail_after", [0, 1, 3])
@pytest.mark.parametrize("failing", FAILURES, ids=["busy", "cut", "no list", "empty", "page", "refused"])
def test_a_failed_list_ends_the_run(
    azure: BlobServer, fail_after: int, failing: tuple[int, str, str]
) -> None:
    """At the first page, at the second, and at the second page of a subfolder."""
    objects = {f"in/p/{number}": b"x" for number in range(3)} | {"in/q": b"x", "in/r": b"x", "in/s": b"x"}
    azure.blobs = Blobs(objects, page=2, fail_after=fail_after, failing=failing)
    with pytest.raises(EnvironmentFailure) as failure:
        list(walk(("abfs://c/in",)))
    assert failure.value.exit_code == 5
    assert "secret" not in str(failure.value) + repr(failure.value.__cause__)


def test_only_a_temporarily_failed_page_is_retried(
    azure: BlobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    azure.blobs = Blobs({f"in/{number}": b"x" for number in range(6)}, page=2, fail_after=1)
    monkeypatch.setattr("time.sleep", lambda _: setattr(azure.blobs, "fail_after", None))
    assert (len(list(walk(("abfs://c/in",)))), len(azure.blobs.lists)) == (6, 4)


def test_a_destination_is_empty_despite_a_sibling_with_the_same_prefix(azure: BlobServer) -> None:
    azure.blobs = Blobs({"out2/a": b"x", "out": b""}, folders={"out"})
    UploadTarget("abfs://c/out").require_empty()
    azure.blobs = Blobs({"out//a": b"x"})
    with pytest.raises(UsageError, match="the prefix contains objects of something else"):
        UploadTarget("abfs://c/out").require_empty()
    with pytest.raises(UsageError, match="the bucket does not exist"):
        UploadTarget("abfs://none/out").require_empty()


@pytest.mark.parametrize("more", ["out//x", "out/data//x", "out/data/x", "out/data/a/x", "out/a /x"])
def test_a_destination_with_foreign_objects_is_detected(azure: BlobServer, tmp_path: Path, more: str) -> None:
    (tmp_path / "data").mkdir()
    for name in ("data/a", "data/b", layout.SUMS, layout.ROOT):
        (tmp_path / name).write_bytes(name.encode())
    whole = {f"out/{name}": name.encode() for name in ("data/a", "data/b", layout.SUMS)}
    azure.blobs = Blobs({**whole, "out2/x": b"x", "out/data/": b"", "out/": b""}, page=2)
    assert lists_exactly("abfs://c/out", tmp_path, lambda: None)
    azure.blobs = Blobs({**whole, more: b"x"})
    assert not lists_exactly("abfs://c/out", tmp_path, lambda: None)


def test_an_object_below_a_missing_folder_is_absent() -> None:
    with pytest.raises(ObjectNotFound):
        list(RemoteReader("abfs").names_below("abfs://c/none", lambda: None))


def test_a_run_from_azure_to_azure_equals_a_local_run(azure: BlobServer, tmp_path: Path) -> None:
    export = [write_ct(tmp_path / "export" / name, number) for number, name in enumerate(("p/a", "p/b"))]
    local = prepare(tmp_path / "local", inputs=f"[{tmp_path / 'export'}]")
    run(local, Options(workers=1))
    sources = {f"in/p/{path.name}": path.read_bytes() for path in export}
    azure.blobs = Blobs({**sources, "in/": b"", "in2/c": b"x"}, page=1)
    run(prepare(tmp_path / "far", inputs="[abfs://c/in]", output="abfs://c/out"), Options(workers=1))
    files = {path for path in Path(local.output).rglob("*") if path.is_file()}
    assert {name: content for name, content in azure.blobs.objects.items() if name.startswith("out/")} == {
        f"out/{path.relative_to(Path(local.output))}": path.read_bytes() for path in files
    }
