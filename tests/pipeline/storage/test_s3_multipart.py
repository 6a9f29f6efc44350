"""Multipart uploads to S3: each part retried separately, lost uploads restarted, no parts left."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.storage import retry, upload
from medsanitize.pipeline.storage.upload import UploadTarget
from medsanitize.progress import Cancellation, Cancelled
from medsanitize.release.layout import ROOT, SUMS

from tests.helpers.s3_server import Answer, Front, Instead, Process, free_port, s3_server, s3_server_on_disk
from tests.helpers.stores import Store, client_of

pytestmark = pytest.mark.stores

PART = 64 << 10
# The smallest part that S3 accepts.
LEAST = 5 << 20
SLIDE = "data/a.svs"
OTHER = "data/b.dcm"
WHOLE = sorted([f"out/{name}" for name in (SLIDE, OTHER, SUMS, ROOT)])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PATIENCE", 0.3)
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(upload, "PART", PART)


def make_release(folder: Path, part: int = PART, count: int = 4) -> Path:
    """A release stand-in with a slide of a number of parts."""
    (folder / "data").mkdir(parents=True)
    (folder / SLIDE).write_bytes(os.urandom(part * (count - 1) + 100))
    (folder / OTHER).write_bytes(b"small")
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (SLIDE, OTHER)}
    (folder / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    (folder / ROOT).write_text("{}\n")
    return folder


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release stand-in with a slide of four parts."""
    return make_release(tmp_path / "release")


def put(store: Store, release: Path, stop: Cancellation | None = None) -> None:
    UploadTarget(f"s3://{store.bucket}/out").put(release, stop or Cancellation(), lambda _: None)


def parts_put(front: Front) -> list[int]:
    """Number of uploads of each part, by part number."""
    numbers = (re.search(r"partNumber=(\d+)", path) for method, path in front.asked if method == "PUT")
    counted = Counter(int(number[1]) for number in numbers if number)
    return [times for _, times in sorted(counted.items())]


def begun(front: Front) -> int:
    """Number of multipart uploads created."""
    return sum(method == "POST" and path.endswith("?uploads") for method, path in front.asked)


def left(store: Store) -> list[str]:
    """Names of pending uploads."""
    listed = store.client.list_multipart_uploads(Bucket=store.bucket)
    return sorted(one["Key"] for one in listed.get("Uploads", ()))


def refusal(status: int, code: str) -> Answer:
    return Answer(status, [], f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode())


def refusing(method: str, where: str, answer: Answer, times: int = -1) -> Instead:
    """Reject requests of a method to some paths, a number of times or always."""
    remaining = [times]

    def instead(asked: str, path: str, _headers: Mapping[str, str]) -> Answer | None:
        if asked != method or where not in path or remaining[0] == 0:
            return None
        remaining[0] -= 1
        return answer

    return instead


def once(method: str, where: str, do: Callable[[], None]) -> Callable[[str, str], None]:
    """Do something before the first request of a method to some path is forwarded."""
    met, lock = [False], threading.Lock()

    def before(asked: str, path: str) -> None:
        with lock:
            if asked != method or where not in path or met[0]:
                return
            met[0] = True
        do()

    return before


def as_s3_says(_method: str, path: str, answer: Answer) -> Answer:
    """The test server fails for an unknown upload; return the response of S3 instead."""
    return refusal(404, "NoSuchUpload") if answer.status == 500 and "uploadId" in path else answer


def abort_all(store: Store) -> None:
    for one in store.client.list_multipart_uploads(Bucket=store.bucket).get("Uploads", ()):
        store.client.abort_multipart_upload(Bucket=store.bucket, Key=one["Key"], UploadId=one["UploadId"])


# -- parts that fail ----------------------------------------------------------------------


def test_a_multipart_upload_stores_the_file_unchanged(store: Store, release: Path) -> None:
    put(store, release)
    assert store.get(f"out/{SLIDE}") == (release / SLIDE).read_bytes()


def test_only_a_failed_part_is_sent_again(store: Store, front: Front, release: Path) -> None:
    front.instead = refusing("PUT", "partNumber=2", refusal(503, "SlowDown"), times=1)
    put(store, release)
    assert (parts_put(front), begun(front), store.keys("out/")) == ([1, 2, 1, 1], 1, WHOLE)


def test_throttling_of_1_percent_repeats_only_those_requests(
    store: Store, front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "PART", 4096)
    count = itertools.count(1)
    throttled = refusal(503, "SlowDown")
    front.instead = lambda _method, _path, _headers: None if next(count) % 100 else throttled
    put(store, make_release(tmp_path / "release", 4096, 250))
    assert (sum(parts_put(front)), begun(front)) == (252, 1)


def test_few_parts_are_uploaded_at_a_time(store: Store, front: Front, tmp_path: Path) -> None:
    underway, most, lock = [0], [0], threading.Lock()

    def begins(_method: str, path: str) -> None:
        with lock:
            underway[0] += "partNumber" in path
            most[0] = max(most[0], underway[0])

    def ends(_method: str, path: str, answer: Answer) -> Answer:
        with lock:
            underway[0] -= "partNumber" in path
        return answer

    front.before, front.spoil = begins, ends
    put(store, make_release(tmp_path / "release", count=40))
    assert 1 < most[0] <= 4


def test_a_permanently_failing_store_ends_the_run_and_a_rerun_finishes(
    store: Store, front: Front, release: Path
) -> None:
    front.instead = refusing("PUT", "partNumber=3", refusal(503, "SlowDown"))
    with pytest.raises(EnvironmentFailure, match="unreachable or failing"):
        put(store, release)
    visible = store.keys("out/")
    front.behave()
    put(store, release)
    assert (f"out/{ROOT}" in visible, store.keys("out/"), left(store)) == (False, WHOLE, [])


def test_multipart_data_without_a_condition_is_allowed_on_stores_without_conditions(
    store: Store, front: Front, release: Path
) -> None:
    conditions: list[str | None] = []

    def instead(method: str, path: str, headers: Mapping[str, str]) -> Answer | None:
        if method != "POST" or "uploadId" not in path:
            return None
        conditions.append(headers.get("If-None-Match"))
        return refusal(501, "NotImplemented") if conditions[-1] else None

    front.instead = instead
    put(store, release)
    assert (conditions, store.keys("out/"), left(store)) == (["*", None], WHOLE, [])


# -- uploads that are lost ----------------------------------------------------------------


def test_a_lost_upload_is_restarted(store: Store, front: Front, release: Path) -> None:
    front.before, front.spoil = once("PUT", "partNumber=3", lambda: abort_all(store)), as_s3_says
    put(store, release)
    assert (begun(front), store.keys("out/"), left(store)) == (2, WHOLE, [])


@pytest.mark.parametrize(("status", "code"), [(409, "ConditionalRequestConflict"), (400, "InvalidPart")])
def test_an_upload_that_cannot_be_completed_is_restarted(
    store: Store, front: Front, release: Path, status: int, code: str
) -> None:
    front.instead = refusing("POST", "uploadId", refusal(status, code), times=1)
    put(store, release)
    assert (begun(front), store.keys("out/"), left(store)) == (2, WHOLE, [])


def test_a_store_that_loses_every_upload_is_reported(store: Store, front: Front, release: Path) -> None:
    front.instead = refusing("PUT", "partNumber=3", refusal(404, "NoSuchUpload"))
    with pytest.raises(EnvironmentFailure, match="lost an upload"):
        put(store, release)
    assert (begun(front), f"out/{ROOT}" in store.keys("out/")) == (3, False)


def test_an_upload_with_a_lost_completion_response_is_not_repeated(
    store: Store, front: Front, release: Path
) -> None:
    answers = iter([refusal(503, "SlowDown"), refusal(404, "NoSuchUpload")])
    front.spoil = lambda method, path, answer: (
        next(answers) if method == "POST" and "uploadId" in path else answer
    )
    put(store, release)
    assert (parts_put(front), store.keys("out/")) == ([1, 1, 1, 1], WHOLE)


# -- two runs -----------------------------------------------------------------------------


def test_a_failed_concurrent_run_keeps_the_parts_of_the_other(
    store: Store, front: Front, release: Path
) -> None:
    ended: list[bool] = []

    def second() -> None:
        stop = Cancellation()
        stop.number = signal.SIGTERM
        with pytest.raises(Cancelled):
            put(store, release, stop)
        ended.append(True)

    front.before, front.spoil = once("PUT", "partNumber=3", second), as_s3_says
    put(store, release)
    assert (ended, parts_put(front), store.keys("out/")) == ([True], [1, 1, 1, 1], WHOLE)


def test_two_runs_of_the_same_bytes_give_one_release_and_no_parts(
    store: Store, front: Front, release: Path
) -> None:
    front.before, front.spoil = once("PUT", "partNumber=3", lambda: put(store, release)), as_s3_says
    put(store, release)
    assert (store.keys("out/"), left(store)) == (WHOLE, [])


def test_a_different_file_stored_meanwhile_is_reported_and_not_overwritten(
    store: Store, front: Front, release: Path
) -> None:
    front.before = once("PUT", "partNumber=3", lambda: store.put(f"out/{SLIDE}", b"of another"))
    with pytest.raises(UsageError, match="another release"):
        put(store, release)
    assert (store.get(f"out/{SLIDE}"), left(store)) == (b"of another", [])


# -- what is left of uploads --------------------------------------------------------------


def test_an_upload_with_a_lost_creation_response_is_aborted(
    store: Store, front: Front, release: Path
) -> None:
    unheard = [True]

    def spoil(method: str, path: str, answer: Answer) -> Answer:
        if method == "POST" and path.endswith("?uploads") and unheard[0]:
            unheard[0] = False
            return refusal(503, "SlowDown")
        return answer

    front.spoil = spoil
    put(store, release)
    assert (begun(front), left(store)) == (2, [])


@pytest.mark.parametrize("prefix", ["out/", ""])
def test_only_uploads_of_release_files_are_aborted(store: Store, release: Path, prefix: str) -> None:
    for key in (f"{prefix}{SLIDE}", f"{prefix}{SUMS}", f"{prefix}data/of-another", f"x{prefix}{SLIDE}"):
        store.client.create_multipart_upload(Bucket=store.bucket, Key=key)
    UploadTarget(f"s3://{store.bucket}/{prefix}").put(release, Cancellation(), lambda _: None)
    assert left(store) == sorted([f"{prefix}data/of-another", f"x{prefix}{SLIDE}"])


def test_all_pages_of_the_upload_list_are_read(store: Store, front: Front, release: Path) -> None:
    key, ends = f"out/{SLIDE}", []
    for _ in range(3):
        begun = store.client.create_multipart_upload(Bucket=store.bucket, Key=key)
        ends.append(begun["UploadId"])

    def page(method: str, path: str, _headers: Mapping[str, str]) -> Answer | None:
        if method != "GET" or "uploads" not in path:
            return None
        after = re.search(r"upload-id-marker=([^&]+)", path)
        number = ends.index(after[1]) + 1 if after else 0
        told = (
            f"<IsTruncated>{str(number < 2).lower()}</IsTruncated>"
            f"<NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>{ends[number]}</NextUploadIdMarker>"
            f"<Upload><Key>{key}</Key><UploadId>{ends[number]}</UploadId></Upload>"
        )
        body = f"<ListMultipartUploadsResult>{told}</ListMultipartUploadsResult>"
        return Answer(200, [], body.encode())

    front.instead = page
    put(store, release)
    assert left(store) == []


@pytest.mark.parametrize(("method", "where"), [("GET", "uploads"), ("DELETE", "uploadId")])
def test_a_store_without_permission_to_abort_uploads_gets_the_release(
    store: Store, front: Front, release: Path, method: str, where: str
) -> None:
    store.client.create_multipart_upload(Bucket=store.bucket, Key=f"out/{SLIDE}")
    front.instead = refusing(method, where, refusal(403, "AccessDenied"))
    put(store, release)
    assert (store.keys("out/"), left(store)) == (WHOLE, [f"out/{SLIDE}"])


def test_a_failed_abort_does_not_hide_the_original_error(store: Store, front: Front, release: Path) -> None:
    aborting = refusing("DELETE", "uploadId", refusal(403, "AccessDenied"))
    sending = refusing("PUT", "partNumber=2", refusal(400, "EntityTooLarge"))
    front.instead = lambda *asked: aborting(*asked) or sending(*asked)
    with pytest.raises(EnvironmentFailure, match="unexpected response of the store"):
        put(store, release)


# -- servers that are killed --------------------------------------------------------------


@dataclass(frozen=True)
class Mortal:
    """A bucket of a server that can be killed and restarted, and its proxy."""

    store: Store
    front: Front
    kill: Callable[[], None]
    start: Callable[[], None]

    def start_again(self) -> None:
        self.kill()
        self.start()


@contextmanager
def mortal(start: Callable[[int], Process], aim: Callable[[int], None]) -> Iterator[Mortal]:
    port = free_port()
    running = [start(port)]
    try:
        with closing(Front(port)) as front:
            aim(front.port)
            client = client_of(port)
            client.create_bucket(Bucket="bucket")
            store = Store(port, client, "bucket")
            yield Mortal(store, front, lambda: running[-1].kill(), lambda: running.append(start(port)))
    finally:
        running[-1].kill()


@pytest.fixture
def on_disk(tmp_path: Path, aim: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mortal]:
    """A server that keeps everything in a folder, pending uploads included."""
    monkeypatch.setattr(retry, "PATIENCE", 60)
    with mortal(partial(s3_server_on_disk, tmp_path / "served"), aim) as one:
        yield one


@pytest.fixture
def in_memory(aim: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mortal]:
    """A server that loses everything when it is killed."""
    monkeypatch.setattr(retry, "PATIENCE", 60)
    with mortal(s3_server, aim) as one:
        yield one


def test_a_restarted_server_costs_only_pending_requests(
    on_disk: Mortal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "PART", LEAST)
    release = make_release(tmp_path / "release", LEAST, 12)
    on_disk.front.before = once("PUT", "partNumber=10", on_disk.start_again)
    put(on_disk.store, release)
    assert (begun(on_disk.front), parts_put(on_disk.front)[:4]) == (1, [1, 1, 1, 1])
    assert on_disk.store.get(f"out/{SLIDE}") == (release / SLIDE).read_bytes()


def test_uploads_lost_by_a_restarted_server_are_restarted(
    on_disk: Mortal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "PART", LEAST)

    def start_without() -> None:
        on_disk.kill()
        shutil.rmtree(tmp_path / "served" / ".localbucket-uploads")
        on_disk.start()

    on_disk.front.before = once("PUT", "partNumber=3", start_without)
    put(on_disk.store, make_release(tmp_path / "release", LEAST))
    assert (begun(on_disk.front), on_disk.store.keys("out/")) == (2, WHOLE)


def test_an_unreachable_server_has_no_release_until_a_rerun_finishes(
    on_disk: Mortal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "PART", LEAST)
    monkeypatch.setattr(retry, "PATIENCE", 0.3)
    release = make_release(tmp_path / "release", LEAST)
    on_disk.front.before = once("PUT", "partNumber=3", on_disk.kill)
    with pytest.raises(EnvironmentFailure, match="was unreachable"):
        put(on_disk.store, release)
    on_disk.start()
    visible = on_disk.store.keys("out/")
    put(on_disk.store, release)
    assert (f"out/{ROOT}" in visible, on_disk.store.keys("out/")) == (False, WHOLE)


def test_a_server_that_lost_all_data_has_no_release_until_a_rerun_finishes(
    in_memory: Mortal, release: Path
) -> None:
    def start_empty() -> None:
        in_memory.start_again()
        in_memory.store.client.create_bucket(Bucket="bucket")

    first, alone = once("PUT", "partNumber=3", start_empty), threading.Lock()

    def before(method: str, path: str) -> None:
        with alone:  # no request before the bucket exists again
            first(method, path)

    in_memory.front.before, in_memory.front.spoil = before, as_s3_says
    with pytest.raises(UsageError, match="exactly the files"):
        put(in_memory.store, release)
    visible = in_memory.store.keys("out/")
    put(in_memory.store, release)
    assert (f"out/{ROOT}" in visible, in_memory.store.keys("out/")) == (False, WHOLE)
