"""Sources in stores: listed like a disk, read completely or not at all, and never named in messages."""

from __future__ import annotations

import dataclasses
import logging
import mmap
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.storage import retry, spool
from medsanitize.pipeline.storage.filesystem import file_system
from medsanitize.pipeline.storage.open_store import reader_of
from medsanitize.pipeline.storage.protocol import LARGE, SourceEntry
from medsanitize.pipeline.storage.sources import SourceProblem, walk

from tests.helpers import slides
from tests.helpers.hospital import CANARIES
from tests.helpers.s3_server import Answer, Front, free_port, web_server
from tests.helpers.slide_exports import save
from tests.helpers.stores import NAME, Store, failing, list_store, read_entry, truncate


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PATIENCE", 0.8)
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.05)


def test_a_prefix_is_walked_in_the_order_of_a_folder(store: Store, tmp_path: Path) -> None:
    for name in ("b", "a/z", "a-b", "a/ä ö", "B/c/d", "a.b", "p+q%20r"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    address = store.fill(tmp_path, "in")
    local = [os.fsdecode(one.path).removeprefix(f"{tmp_path}/") for one in walk((tmp_path,))]
    assert list(list_store(address)) == local


def test_folder_markers_are_ignored_and_impossible_names_reported(store: Store) -> None:
    for key, content in (("in/folder/", b""), ("in/full/", b"x"), ("in/two//slashes", b"y"), ("in/a", b"z")):
        store.put(key, content)
    found = {name: one.sort for name, one in list_store(f"s3://{store.bucket}/in").items()}
    assert found == {"a": "file", "full/": "unlisted", "two/": "unlisted"}


def test_an_address_can_be_that_of_one_object(store: Store) -> None:
    store.put("in/one", b"1")
    assert [one.size for one in walk((f"s3://{store.bucket}/in/one",))] == [1]


@pytest.mark.parametrize("where", ["nothing-here", "no-such-bucket/x"])
def test_an_empty_address_is_rejected(store: Store, where: str) -> None:
    address = f"s3://{where}" if "/" in where else f"s3://{store.bucket}/{where}"
    with pytest.raises(UsageError, match="does not exist"):
        list(walk((address,)))


def test_small_objects_are_in_memory_and_large_ones_in_an_unnamed_file(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "_folder", tmp_path)
    large = os.urandom(LARGE) * 3
    for key, content in (("in/empty", b""), ("in/small", b"s" * LARGE), ("in/large", large)):
        store.put(key, content)
    kinds = {}
    for name, one in list_store(f"s3://{store.bucket}/in").items():
        with reader_of(one.path).opened(one.path) as given:
            kinds[name] = (type(given.content), bytes(given.content) == store.get(f"in/{name}"))
            assert not list(tmp_path.iterdir())
    assert kinds == {"empty": (bytes, True), "large": (mmap.mmap, True), "small": (bytes, True)}


def test_an_object_that_changed_since_the_walk_is_not_read(store: Store) -> None:
    store.put("in/a", b"before")
    found = list_store(f"s3://{store.bucket}/in")["a"]
    store.put("in/a", b"behind")
    with pytest.raises(SourceProblem, match="changed-since-inventory"):
        read_entry(found)


def test_a_deleted_object_is_not_read(store: Store) -> None:
    store.put("in/a", b"before")
    found = list_store(f"s3://{store.bucket}/in")["a"]
    store.client.delete_object(Bucket=store.bucket, Key="in/a")
    with pytest.raises(SourceProblem, match="changed-since-inventory"):
        read_entry(found)


def test_a_large_object_that_changes_during_reading_is_rejected(store: Store, front: Front) -> None:
    store.put("in/a", b"x" * (LARGE + 9))
    found = list_store(f"s3://{store.bucket}/in")["a"]
    ranges = []

    def change(method: str, path: str) -> None:
        if method == "GET" and path.endswith("/a"):
            ranges.append(path)
            if len(ranges) == 2:
                store.put("in/a", b"y" * (LARGE + 9))

    front.before = change
    with pytest.raises(SourceProblem, match="changed-since-inventory"):
        read_entry(found)


def grown(answer: Answer) -> Answer:
    headers = [(name, value) for name, value in answer.headers if name.lower() != "content-length"]
    return Answer(answer.status, headers, answer.body + b"more")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("spoil", [truncate, grown])
def test_a_body_of_another_length_than_stated_is_retried(
    store: Store, front: Front, spoil: Callable[[Answer], Answer]
) -> None:
    store.put("in/a", b"ten bytes.")
    found = list_store(f"s3://{store.bucket}/in")["a"]
    spoilt: list[str] = []

    def once(method: str, path: str, answer: Answer) -> Answer:
        if method == "GET" and not spoilt:
            spoilt.append(path)
            return spoil(answer)
        return answer

    front.spoil = once
    assert read_entry(found) == b"ten bytes."


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("spoil", [truncate, grown])
def test_an_object_with_a_permanently_wrong_size_costs_only_itself(
    store: Store, front: Front, spoil: Callable[[Answer], Answer]
) -> None:
    store.put("in/a", b"ten bytes.")
    found = list_store(f"s3://{store.bucket}/in")["a"]
    front.spoil = lambda method, _, answer: spoil(answer) if method == "GET" else answer
    with pytest.raises(SourceProblem, match="unreadable"):
        read_entry(found)


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, "TooMany")])
def test_a_throttling_or_failing_store_is_retried(store: Store, front: Front, status: int, code: str) -> None:
    store.put("in/a", b"content")
    found = list_store(f"s3://{store.bucket}/in")["a"]
    front.spoil = failing(status, code, 3)
    assert read_entry(found) == b"content"


@pytest.mark.usefixtures("impatient")
def test_an_unresponsive_store_ends_the_run_with_a_retryable_error(
    store: Store, aim: Callable[[int], None]
) -> None:
    store.put(f"in/{NAME}", b"content")
    found = list_store(f"s3://{store.bucket}/in")[NAME]
    aim(free_port())
    with pytest.raises(EnvironmentFailure, match="was unreachable") as failure:
        read_entry(found)
    assert failure.value.exit_code == 5


@pytest.mark.usefixtures("impatient")
def test_a_repeatedly_truncated_listing_is_a_store_error(store: Store, front: Front) -> None:
    store.put("in/a", b"content")
    front.spoil = lambda _, path, answer: truncate(answer) if "list-type" in path else answer
    with pytest.raises(EnvironmentFailure, match="was unreachable") as failure:
        list(walk((f"s3://{store.bucket}/in",)))
    assert failure.value.exit_code == 5


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ExpiredToken"),
        (403, "InvalidAccessKeyId"),
        (403, "AccessDenied"),
        (403, "SignatureDoesNotMatch"),
    ],
)
def test_denied_access_is_reported_immediately_without_names(
    store: Store, front: Front, status: int, code: str
) -> None:
    store.put(f"in/{NAME}", b"content")
    found = list_store(f"s3://{store.bucket}/in")[NAME]
    front.spoil = failing(status, code, -1)
    with pytest.raises(EnvironmentFailure, match="denies access") as failure:
        read_entry(found)
    told = str(failure.value) + repr(failure.value) + repr(failure.value.__cause__)
    assert not re.search(f"{NAME}|{store.bucket}|testing", told)


def test_missing_credentials_are_reported(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file_system.cache_clear()
    with pytest.raises(EnvironmentFailure, match="credentials are missing"):
        list(walk((f"s3://{store.bucket}/in",)))
    file_system.cache_clear()


@pytest.mark.usefixtures("impatient")
def test_no_object_name_is_logged_or_printed(
    store: Store,
    front: Front,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("S3FS_LOGGING_LEVEL", "DEBUG")
    file_system.cache_clear()
    caplog.set_level(logging.DEBUG)
    store.client.put_object(Bucket=store.bucket, Key=f"in/{NAME}", Body=b"content")
    capfd.readouterr()
    caplog.clear()
    front.spoil = lambda method, _, answer: (
        truncate(answer) if method == "GET" and "list-type" not in _ else answer
    )
    for one in walk((f"s3://{store.bucket}/in",)):
        with pytest.raises(SourceProblem):
            read_entry(one)
    assert NAME not in "".join((*capfd.readouterr(), caplog.text))


def test_a_slide_of_several_objects_is_one_object(store: Store, tmp_path: Path) -> None:
    for kind in ("mirax", "vms"):
        save(slides.MAKERS[kind](), tmp_path / kind, f"S26-{CANARIES[0]}")
    local = [(len(one.parts), one.size) for one in walk((tmp_path,))]
    remote = [(len(one.parts), one.size) for one in walk((store.fill(tmp_path, "slides"),))]
    assert remote == local
    assert sum(parts for parts, _ in remote) > 3


def test_a_picture_named_like_a_slide_is_distinguished_from_its_parts(store: Store) -> None:
    for key in ("in/one.svs", "in/one_label.jpg", "in/two.jpg"):
        store.put(key, b"x")
    near = {name: one.near_slide for name, one in list_store(f"s3://{store.bucket}/in").items()}
    assert (near["one_label.jpg"], near["two.jpg"]) == (True, False)


def test_a_missing_description_does_not_turn_slide_parts_into_pictures(store: Store, front: Front) -> None:
    for key in ("in/s.vms", "in/a.jpg", "in/p/b.jpg"):
        store.put(key, b"ImageFile=a.jpg")
    archived = Answer(403, [], b"<Error><Code>InvalidObjectState</Code></Error>")
    front.instead = lambda method, path, _: archived if method == "GET" and "s.vms" in path else None

    found = {name: (one.sort, one.near_slide) for name, one in list_store(f"s3://{store.bucket}/in").items()}

    assert found == {"s.vms": ("unlisted", False), "a.jpg": ("file", True), "p/b.jpg": ("file", False)}


def test_an_empty_description_references_nothing(store: Store) -> None:
    store.put("in/s.afi", b"")
    store.put("in/a.jpg", b"x")
    assert not list_store(f"s3://{store.bucket}/in")["a.jpg"].near_slide


# -- web servers --------------------------------------------------------------------------


def test_a_web_server_listing_is_walked_like_a_folder(tmp_path: Path) -> None:
    for name in ("b", "a/z", "a-b", "ä ö/x#y?z", "100%"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    server = web_server(tmp_path)
    try:
        remote = [read_entry(one) for one in walk((f"http://127.0.0.1:{server.port}/",))]
    finally:
        server.kill()
    assert remote == [Path(os.fsdecode(one.path)).read_bytes() for one in walk((tmp_path,))]


def test_one_file_of_a_web_server_is_read_and_its_changes_detected(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"x" * (LARGE + 1))
    os.utime(tmp_path / "a.bin", (1, 1))
    server = web_server(tmp_path)
    try:
        (found,) = walk((f"http://127.0.0.1:{server.port}/a.bin",))
        same = read_entry(found) == b"x" * (LARGE + 1)
        (tmp_path / "a.bin").write_bytes(b"y" * (LARGE + 1))
        with pytest.raises(SourceProblem, match="changed-since-inventory"):
            read_entry(found)
    finally:
        server.kill()
    assert same


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("spoil", [truncate, grown])
def test_a_web_server_file_with_a_wrong_size_costs_only_itself(
    tmp_path: Path, spoil: Callable[[Answer], Answer]
) -> None:
    (tmp_path / "a").write_bytes(b"ten bytes.")
    server = web_server(tmp_path)
    front = Front(server.port)
    try:
        (found,) = walk((f"http://127.0.0.1:{front.port}/a",))
        front.spoil = lambda method, _, answer: spoil(answer) if method == "GET" else answer
        with pytest.raises(SourceProblem, match="unreadable"):
            read_entry(found)
    finally:
        front.close()
        server.kill()


def test_reprs_of_found_entries_contain_no_names() -> None:
    found = SourceEntry(NAME.encode(), "file")
    assert NAME not in repr(found) + repr(dataclasses.replace(found, parts=(found,)))
