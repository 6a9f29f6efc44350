"""Runs from store to store: the release of a local run despite server and process failures."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.plan import plan
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.storage import retry
from medsanitize.pipeline.storage.upload import PART, UploadTarget
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation
from medsanitize.release.layout import ROOT, SUMS
from medsanitize.release.registry import Registry
from medsanitize.release.verify import verify_release

from tests.helpers import slides
from tests.helpers.containers import tarred
from tests.helpers.hospital import CANARIES, prepare
from tests.helpers.s3_server import Answer, Front, environment, free_port, tcp_proxy, web_server
from tests.helpers.slide_exports import save
from tests.helpers.stores import Store

pytestmark = pytest.mark.stores

ONE = Options(workers=1)
DRIVER = """
import sys
from pathlib import Path
from medsanitize.errors import MedsanitizeError
from medsanitize.pipeline.engines.forkserver import start_forkserver
if __name__ == "__main__":
    start_forkserver()
    from medsanitize.pipeline.run import Options, run
    from medsanitize.policies.load import load
    try:
        code = run(load(Path(sys.argv[1])), Options(workers=int(sys.argv[2]))).exit_code
    except MedsanitizeError as error:
        code = error.exit_code
    sys.exit(code)
"""


@pytest.fixture(scope="session")
def expected(few: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digest of every file in the release of a local run."""
    policy = prepare(tmp_path_factory.mktemp("local"), inputs=f"[{few}]")
    run(policy, ONE)
    return digests_of(policy.output)


def digests_of(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def stored(store: Store, prefix: str = "out") -> dict[str, str]:
    """Digest of every object in the destination."""
    digest = {key: hashlib.sha256(store.get(key)).hexdigest() for key in store.keys(f"{prefix}/")}
    return {key.removeprefix(f"{prefix}/"): value for key, value in digest.items()}


def on_store(store: Store, base: Path, few: Path, **sections: str) -> Policy:
    address = store.fill(few, "in")
    return prepare(base, **{"inputs": f"[{address}]", "output": f"s3://{store.bucket}/out", **sections})


def started(policy: Policy, port: int, workers: int = 1) -> subprocess.Popen[bytes]:
    script = policy.state.parent / "driver.py"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), str(script.with_name("policy.yaml")), str(workers)]
    return subprocess.Popen(command, env={**os.environ, **environment(port)}, cwd=script.parent)


def left_behind(policy: Policy) -> set[str]:
    """Files in the state folder that a finished run does not keep."""
    kept = {"audit.json", "metrics.prom", "registry", "report.html", "return.json", "run.lock"}
    return {path.name for path in policy.state.iterdir()} - kept - {"chest-ct-1.0.sqlite"}


def test_a_run_from_store_to_store_equals_a_local_run(
    store: Store, few: Path, tmp_path: Path, expected: dict[str, str]
) -> None:
    policy = on_store(store, tmp_path, few)
    result = run(policy, ONE)
    assert (result.release, stored(store)) == (policy.output, expected)
    assert not left_behind(policy)


def test_several_processes_give_the_same_release_and_no_temporary_files(
    store: Store, few: Path, tmp_path: Path, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = on_store(store, tmp_path, few)
    with tempfile.TemporaryDirectory() as temporary:  # a short path, for sockets
        monkeypatch.setenv("TMPDIR", temporary)
        assert started(policy, store.port, workers=2).wait() == 1
        assert stored(store) == expected
        assert not [path for path in Path(temporary).rglob("*") if path.is_file()]


def test_a_release_fetched_from_a_store_is_intact_and_registered(
    store: Store, few: Path, tmp_path: Path
) -> None:
    policy = on_store(store, tmp_path, few)
    run(policy, ONE)
    for key in store.keys("out/"):
        path = tmp_path / "fetched" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(key))
    assert verify_release(tmp_path / "fetched" / "out", key=None).status == "intact"
    assert [entry.name for entry in Registry(policy.state / "registry").list()] == ["chest-ct"]


def test_the_root_is_uploaded_last_and_nothing_twice(
    store: Store, front: Front, few: Path, tmp_path: Path
) -> None:
    run(on_store(store, tmp_path, few), ONE)
    put = [path.rpartition("/out/")[2] for method, path in front.asked if method == "PUT"]
    assert (put[0], put[-1], max(Counter(put).values())) == (SUMS, ROOT, 1)


def test_a_rerun_reports_completion_and_another_run_is_rejected_before_reading(
    store: Store, front: Front, few: Path, tmp_path: Path
) -> None:
    policy = on_store(store, tmp_path / "one", few)
    run(policy, ONE)
    again = run(policy, ONE).ending
    other = on_store(store, tmp_path / "two", few)
    front.behave()
    with pytest.raises(UsageError, match="finished release"):
        run(other, ONE)
    assert again == "already_published"
    assert not [path for _, path in front.asked if "/in/" in path or "prefix=in" in path]


def test_a_non_empty_destination_is_rejected_before_reading(
    store: Store, front: Front, few: Path, tmp_path: Path
) -> None:
    store.put("out/data/other", b"x")
    policy = on_store(store, tmp_path, few)
    front.behave()
    with pytest.raises(UsageError, match="the prefix contains objects of something else"):
        run(policy, ONE)
    assert not [path for _, path in front.asked if "/in/" in path or "prefix=in" in path]


def test_a_missing_bucket_is_rejected(store: Store, few: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the bucket does not exist"):
        run(on_store(store, tmp_path, few, output="s3://no-such-bucket-here/out"), ONE)


def test_a_foreign_object_stored_meanwhile_prevents_publication(
    store: Store, front: Front, few: Path, tmp_path: Path
) -> None:
    policy = on_store(store, tmp_path, few)

    def meddle(method: str, path: str) -> None:
        if method == "PUT" and path.endswith(SUMS):
            store.put("out/zzz", b"not of it")

    front.before = meddle
    with pytest.raises(UsageError, match="exactly the files"):
        run(policy, ONE)
    assert ROOT not in stored(store)


def test_two_concurrent_uploads_give_one_release(
    store: Store, front: Front, few: Path, tmp_path: Path, expected: dict[str, str]
) -> None:
    first = on_store(store, tmp_path / "one", few)
    other = on_store(store, tmp_path / "two", few, release='{name: other, version: "1", mode: pseudonymous}')
    met = threading.Event()

    def overtake(method: str, path: str) -> None:
        if method == "PUT" and path.endswith("/out/" + SUMS) and not met.is_set():
            met.set()
            assert started(first, store.port).wait() == 1

    front.before = overtake
    with pytest.raises(UsageError, match="another release"):
        run(other, ONE)
    assert stored(store) == expected


@pytest.mark.parametrize("point", [4, -1])
def test_a_run_killed_during_upload_resumes(
    store: Store, front: Front, few: Path, tmp_path: Path, expected: dict[str, str], point: int
) -> None:
    policy = on_store(store, tmp_path, few)
    count, stop_at = [0], point if point > 0 else len(expected)
    running = started(policy, front.port)

    def kill(method: str, _path: str) -> None:
        if method == "PUT":
            count[0] += 1
            if count[0] == stop_at:
                running.send_signal(signal.SIGKILL)
                running.wait()

    front.before = kill
    assert running.wait() == -signal.SIGKILL
    time.sleep(0.2)
    front.behave()
    result = run(policy, ONE)
    again = Counter(path for method, path in front.asked if method == "PUT")
    assert (result.ending, stored(store)) == ("published", expected)
    assert not again or max(again.values()) == 1
    assert not left_behind(policy)


def outage(
    store: Store, front: Front, few: Path, base: Path, seconds: float, at: int
) -> tuple[int, Policy, int]:
    """Run over a connection that is cut at the ``at``-th request for some seconds; counts requests too."""
    port = free_port()
    policy = on_store(store, base, few)
    line = tcp_proxy(front.port, port)
    cut = threading.Event()

    def count(_method: str, _path: str) -> None:
        if len(front.asked) == at:
            line.kill()
            cut.set()

    front.behave()
    front.before = count
    running = started(policy, port, workers=2)
    if cut.wait(60 if at else 0):
        time.sleep(seconds)
        line = tcp_proxy(front.port, port)
    try:
        code = running.wait(180)
    finally:
        line.kill()
    assert cut.is_set() == (at > 0)
    return code, policy, len(front.asked)


@pytest.mark.parametrize("at", [12, 36])
def test_a_server_outage_of_seconds_is_bridged(
    store: Store, front: Front, few: Path, tmp_path: Path, expected: dict[str, str], at: int
) -> None:
    code, policy, _ = outage(store, front, few, tmp_path, 2.5, at)
    assert (code, stored(store)) == (1, expected)
    assert not left_behind(policy)


@pytest.mark.slow
def test_a_server_outage_of_twenty_seconds_is_bridged(
    store: Store, front: Front, few: Path, tmp_path: Path, expected: dict[str, str]
) -> None:
    *_, total = outage(store, front, few, tmp_path / "whole", 0, 0)
    for part in (0.02, 0.2, 0.4, 0.6, 0.8, 0.98):
        for key in store.keys("out/"):
            store.client.delete_object(Bucket=store.bucket, Key=key)
        code, policy, _ = outage(store, front, few, tmp_path / str(part), 20, max(1, int(total * part)))
        assert (code, stored(store)) == (1, expected), f"cut at {part} of {total} requests"
        assert not left_behind(policy)


def test_an_unreachable_server_exits_5_and_a_rerun_finishes(
    store: Store,
    front: Front,
    few: Path,
    tmp_path: Path,
    expected: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = on_store(store, tmp_path, few)
    monkeypatch.setattr(retry, "PATIENCE", 0.3)
    gone = [False]

    def fail(method: str, path: str, answer: Answer) -> Answer:
        gone[0] |= method == "PUT" and "/data/" in path
        return Answer(503, [], b"") if gone[0] else answer

    front.spoil = fail
    with pytest.raises(EnvironmentFailure) as failure:
        run(policy, ONE)
    front.behave()
    run(policy, ONE)
    assert (failure.value.exit_code, stored(store)) == (5, expected)


def test_an_object_with_a_wrong_size_is_quarantined_and_others_are_released(
    store: Store, front: Front, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)

    def lie(method: str, path: str, answer: Answer) -> Answer:
        if method != "GET" or not path.endswith("/i0002"):
            return answer
        stated = [*((n, v) for n, v in answer.headers if n.lower() != "content-length")]
        return Answer(answer.status, [*stated, ("Content-Length", str(len(answer.body)))], answer.body[:-9])

    front.spoil = lie
    result = run(on_store(store, tmp_path, few), ONE)
    assert (result.ending, result.quarantined.get("unreadable")) == ("published", 1)


def test_a_web_server_gives_the_same_release_as_its_folder(
    few: Path, tmp_path: Path, expected: dict[str, str]
) -> None:
    server = web_server(few)
    try:
        policy = prepare(tmp_path, inputs=f"['http://127.0.0.1:{server.port}/']")
        result = run(policy, ONE)
    finally:
        server.kill()
    assert (result.ending, digests_of(tmp_path / "release")) == ("published", expected)


def test_slides_in_a_store_give_the_same_release_as_in_a_folder(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "slides"
    for kind in ("aperio", "vms", "mirax"):
        save(slides.MAKERS[kind](), root / kind, f"S26-{CANARIES[0]}")
    local = prepare(tmp_path / "local", inputs=f"[{root}]")
    run(local, ONE)
    policy = on_store(store, tmp_path / "remote", root)
    # A separate process: workers audit slides and have the environment of the first run.
    assert started(policy, store.port).wait() == 0
    assert stored(store) == digests_of(tmp_path / "local" / "release")
    assert not left_behind(policy)


def test_a_plan_reads_a_store_and_writes_nothing(store: Store, few: Path, tmp_path: Path) -> None:
    policy = on_store(store, tmp_path, few)
    result = plan(policy, ONE)
    assert (result.outcomes["released"], store.keys("out/"), policy.state.exists()) == (8, [], False)


# -- large files --------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A release stand-in with a file that is uploaded in parts."""
    folder = tmp_path / "large"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.svs").write_bytes(os.urandom(1 << 20) * (2 * PART // (1 << 20) + 1))
    digest = hashlib.sha256((folder / "data" / "a.svs").read_bytes()).hexdigest()
    (folder / SUMS).write_text(f"{digest}  data/a.svs\n")
    (folder / ROOT).write_text("{}\n")
    return folder


def test_large_files_are_uploaded_in_parts_and_only_once(store: Store, front: Front, large: Path) -> None:
    target = UploadTarget(f"s3://{store.bucket}/out")
    target.put(large, Cancellation(), lambda _: None)
    parts = [path for method, path in front.asked if method == "PUT" and "partNumber" in path]
    front.behave()
    target.put(large, Cancellation(), lambda _: None)
    assert (len(parts), stored(store)) == (3, digests_of(large))
    assert not [path for method, path in front.asked if "partNumber" in path]


def test_parts_left_by_a_killed_run_are_aborted(store: Store, large: Path) -> None:
    store.put(f"out/{SUMS}", (large / SUMS).read_bytes())
    store.client.create_multipart_upload(Bucket=store.bucket, Key="out/data/a.svs")
    elsewhere = store.client.create_multipart_upload(Bucket=store.bucket, Key="elsewhere/x")
    UploadTarget(f"s3://{store.bucket}/out").put(large, Cancellation(), lambda _: None)
    left = store.client.list_multipart_uploads(Bucket=store.bucket)["Uploads"]
    assert [one["UploadId"] for one in left] == [elsewhere["UploadId"]]


def test_a_stored_file_with_other_bytes_is_never_accepted(store: Store, large: Path) -> None:
    store.put(f"out/{SUMS}", (large / SUMS).read_bytes())
    store.put("out/data/a.svs", b"x" * (large / "data" / "a.svs").stat().st_size)
    with pytest.raises(UsageError, match="another release"):
        UploadTarget(f"s3://{store.bucket}/out").put(large, Cancellation(), lambda _: None)


def test_a_container_in_a_store_is_opened_as_on_a_disk(
    store: Store, few: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    files = {str(path.relative_to(few)): path.read_bytes() for path in few.rglob("*") if path.is_file()}
    store.put("in/export.tar.gz", gzip.compress(tarred({"again": files.pop("again"), **files})))
    policy = prepare(tmp_path, inputs=f"[s3://{store.bucket}/in]")
    result = run(policy, ONE)
    assert result.dropped["container-opened"] == 1
    found = digests_of(policy.output)
    objects = {name for name in expected if name.startswith("data/")}
    assert {name: found.get(name) for name in objects} == {name: expected[name] for name in objects}
