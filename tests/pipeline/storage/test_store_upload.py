"""Upload of a release to a store: nothing is overwritten, and nothing else becomes a release."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.storage import compare_listing, retry
from medsanitize.pipeline.storage.upload import UploadTarget
from medsanitize.progress import Cancellation, Cancelled
from medsanitize.release.layout import ROOT, SUMS

from tests.helpers.s3_server import Answer, Front, Instead
from tests.helpers.stores import Store

pytestmark = pytest.mark.stores

DATA = ("data/p1/a.dcm", "data/p1/s/b.dcm", "data/p1-x/c.dcm", "data/p2/s/d.dcm")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PATIENCE", 0.3)
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.02)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release stand-in of four objects."""
    folder, sums = tmp_path / "release", []
    for name in DATA:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
        sums.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (folder / SUMS).write_text("".join(sums))
    (folder / ROOT).write_text("{}\n")
    return folder


def put(store: Store, release: Path, stop: Cancellation | None = None) -> None:
    UploadTarget(f"s3://{store.bucket}/out").put(release, stop or Cancellation(), lambda _: None)


def refusing(status: int, code: str, where: str, times: int, seen: list[str]) -> Instead:
    """Reject conditional puts; ``seen`` records the paths of those without a condition."""
    left = [times]

    def instead(method: str, path: str, headers: Mapping[str, str]) -> Answer | None:
        if method != "PUT":
            return None
        if headers.get("If-None-Match") is None:
            seen.append(path)
            return None
        if where not in path or left[0] == 0:
            return None
        left[0] -= 1
        return Answer(status, [], f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode())

    return instead


@pytest.mark.parametrize("code", ["IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"])
def test_a_corrupted_upload_is_repeated_without_overwriting(
    store: Store, front: Front, release: Path, code: str
) -> None:
    over: list[str] = []
    front.instead = refusing(400, code, "/data/", 2, over)
    put(store, release)
    assert (store.keys("out/"), over) == (sorted(f"out/{name}" for name in (*DATA, SUMS, ROOT)), [])


@pytest.mark.parametrize(
    ("code", "told"), [("BadDigest", "unreachable or failing"), ("EntityTooLarge", "unexpected response")]
)
def test_a_repeatedly_rejected_upload_is_not_sent_without_the_condition(
    store: Store, front: Front, release: Path, code: str, told: str
) -> None:
    over: list[str] = []
    front.instead = refusing(400, code, "/data/", -1, over)
    with pytest.raises(EnvironmentFailure, match=told):
        put(store, release)
    assert (store.keys("out/"), over) == ([f"out/{SUMS}"], [])


@pytest.mark.parametrize(
    ("status", "code"), [(501, "NotImplemented"), (400, "InvalidArgument"), (400, "InvalidRequest")]
)
@pytest.mark.parametrize("where", [SUMS, ROOT])
def test_a_store_without_conditions_gets_neither_claim_nor_root(
    store: Store, front: Front, release: Path, status: int, code: str, where: str
) -> None:
    over: list[str] = []
    front.instead = refusing(status, code, where, -1, over)
    with pytest.raises(UsageError, match="conditional writes"):
        put(store, release)
    assert (f"out/{where}" in store.keys("out/"), over) == (False, [])


def test_data_is_uploaded_without_a_condition_on_stores_without_conditions(
    store: Store, front: Front, release: Path
) -> None:
    over: list[str] = []
    front.instead = refusing(501, "NotImplemented", "/data/", -1, over)
    put(store, release)
    assert (len(store.keys("out/")), len(over)) == (len(DATA) + 2, len(DATA))


def test_the_destination_is_listed_flat_in_large_pages(store: Store, front: Front, release: Path) -> None:
    put(store, release)
    assert len([path for _, path in front.asked if "list-type" in path]) == 1


@pytest.fixture
def pages_of_two(front: Front, monkeypatch: pytest.MonkeyPatch) -> Front:
    """A store with two names per list request."""
    monkeypatch.setattr(compare_listing, "PAGE", 2)
    return front


@pytest.mark.usefixtures("pages_of_two")
def test_a_paged_list_is_read_completely(store: Store, front: Front, release: Path) -> None:
    put(store, release)
    pages = [path for _, path in front.asked if "list-type" in path]
    assert (len(pages), f"out/{ROOT}" in store.keys("out/")) == (3, True)


@pytest.mark.usefixtures("pages_of_two")
@pytest.mark.parametrize(
    "name", ["0", "data/p1/a.dcm/x", "data/p1//x", "data/p1/", "zzz", "data/p1-x/\u00e4"]
)
def test_a_foreign_object_in_the_destination_prevents_publication(
    store: Store, front: Front, release: Path, name: str
) -> None:
    front.before = lambda method, path: (
        store.put(f"out/{name}", b"x") if method == "PUT" and path.endswith("d.dcm") else None
    )
    with pytest.raises(UsageError, match="exactly the files"):
        put(store, release)
    assert f"out/{ROOT}" not in store.keys("out/")


@pytest.mark.parametrize("name", DATA)
def test_an_object_deleted_meanwhile_prevents_publication(
    store: Store, front: Front, release: Path, name: str
) -> None:
    def take(_method: str, path: str) -> None:
        if "list-type" in path:
            store.client.delete_object(Bucket=store.bucket, Key=f"out/{name}")

    front.before = take
    with pytest.raises(UsageError, match="exactly the files"):
        put(store, release)


def test_folder_markers_do_not_prevent_publication(store: Store, front: Front, release: Path) -> None:
    front.before = lambda method, path: (
        store.put("out/data/", b"") if method == "PUT" and path.endswith("d.dcm") else None
    )
    put(store, release)
    assert f"out/{ROOT}" in store.keys("out/")


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.usefixtures("pages_of_two")
def test_a_signal_during_listing_stops_the_run_before_the_root_is_uploaded(
    store: Store, front: Front, release: Path, after: int
) -> None:
    stop, pages = Cancellation(), []

    def ask(_method: str, path: str) -> None:
        if "list-type" in path:
            pages.append(path)
            if len(pages) == after:
                stop.number = signal.SIGTERM

    front.before = ask
    with pytest.raises(Cancelled):
        put(store, release, stop)
    assert (len(pages), f"out/{ROOT}" in store.keys("out/")) == (after, False)


def test_a_release_can_fill_a_whole_bucket(store: Store, release: Path) -> None:
    UploadTarget(f"s3://{store.bucket}").put(release, Cancellation(), lambda _: None)
    assert store.keys("") == sorted((*DATA, SUMS, ROOT))


def test_attempts_longer_than_the_timeout_do_not_exhaust_the_retries(
    store: Store, front: Front, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "SILENCE", 0.01)
    throttled = refusing(503, "SlowDown", "/data/p1/a.dcm", 2, [])

    def instead(method: str, path: str, headers: Mapping[str, str]) -> Answer | None:
        answer = throttled(method, path, headers)
        if answer is not None:
            time.sleep(0.4)
        return answer

    front.instead = instead
    put(store, release)
    assert f"out/{ROOT}" in store.keys("out/")


def test_endless_slow_attempts_exhaust_the_retries(
    store: Store, front: Front, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "SILENCE", 0.1)
    tried: list[str] = []

    def instead(method: str, path: str, _headers: Mapping[str, str]) -> Answer | None:
        if method != "PUT" or not path.endswith("a.dcm"):
            return None
        tried.append(path)
        time.sleep(0.2)
        return Answer(503, [], b"")

    front.instead = instead
    with pytest.raises(EnvironmentFailure, match="unreachable or failing"):
        put(store, release)
    assert len(tried) < 5
