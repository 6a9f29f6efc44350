"""Runs into a store that restart: the state of an earlier one does not prevent them."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.pipeline.reporting.exit_report import RETURN_FILE
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.storage import retry
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation, Cancelled
from medsanitize.release.layout import ROOT

from tests.helpers.hospital import prepare, write_ct
from tests.helpers.s3_server import Answer, Front
from tests.helpers.stores import Store

ONE = Options(workers=1)
MODES = {mode: f'{{name: chest-ct, version: "1.0", mode: {mode}}}' for mode in ("pseudonymous", "anonymous")}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PATIENCE", 0.2)


def into_store(store: Store, base: Path, mode: str, **sections: str) -> Policy:
    if not (base / "export").exists():
        write_ct(base / "export" / "one", 1)
    return prepare(base, output=f"s3://{store.bucket}/out", release=MODES[mode], **sections)


def failing_while_it_puts(front: Front, policy: Policy) -> EnvironmentFailure:
    front.spoil = lambda method, path, answer: (
        Answer(503, [], b"") if method == "PUT" and "/data/" in path else answer
    )
    with pytest.raises(EnvironmentFailure) as failure:
        run(policy, ONE)
    front.behave()
    return failure.value


def empty(store: Store) -> None:
    for key in store.keys("out/"):
        store.client.delete_object(Bucket=store.bucket, Key=key)


def told_in(policy: Policy) -> str:
    return str(json.loads((policy.state / RETURN_FILE).read_text())["error"]["message"])


def test_an_anonymous_run_with_a_failed_upload_reports_a_restart_and_restarts(
    store: Store, front: Front, tmp_path: Path
) -> None:
    policy = into_store(store, tmp_path, "anonymous")
    failure = failing_while_it_puts(front, policy)
    told = told_in(policy)
    with pytest.raises(UsageError, match="the prefix contains objects of something else"):
        run(policy, ONE)
    empty(store)
    assert run(policy, ONE).ending == "published"
    assert f"out/{ROOT}" in store.keys("out/")
    assert "it starts from scratch" in told
    assert "resumes where" not in told
    assert told == str(failure)


def test_an_anonymous_run_stopped_during_upload_reports_a_restart(
    store: Store, front: Front, tmp_path: Path
) -> None:
    policy, stop = into_store(store, tmp_path, "anonymous"), Cancellation()

    def ask(method: str, _path: str) -> None:
        if method == "PUT":
            stop.number = signal.SIGTERM

    front.before = ask
    with pytest.raises(Cancelled, match="it starts from scratch"):
        run(policy, ONE, cancellation=stop)
    assert "resumes" not in told_in(policy)


def test_a_pseudonymous_run_with_a_failed_upload_reports_a_resume(
    store: Store, front: Front, tmp_path: Path
) -> None:
    failure = failing_while_it_puts(front, into_store(store, tmp_path, "pseudonymous"))
    assert "it resumes where it stopped" in str(failure)


@pytest.mark.parametrize("mode", MODES)
def test_a_local_copy_of_a_killed_run_is_deleted_if_the_store_is_empty(
    store: Store, tmp_path: Path, mode: str
) -> None:
    policy = into_store(store, tmp_path, mode)
    left = workspace_of(policy).release
    (left / "data" / "p").mkdir(parents=True)
    for name in ("data/p/a.dcm", ROOT):
        (left / name).write_bytes(b"of a run that was killed")
    store.put("out/data/p/a.dcm", b"of a run that was killed")
    with pytest.raises(UsageError, match="the prefix contains objects of something else"):
        run(policy, ONE)
    kept = (left / ROOT).exists()
    empty(store)
    assert (kept, run(policy, ONE).ending) == (True, "published")
    assert "out/data/p/a.dcm" not in store.keys("out/")


def test_a_policy_changed_after_upload_began_restarts_the_run(
    store: Store, front: Front, tmp_path: Path
) -> None:
    failing_while_it_puts(front, into_store(store, tmp_path, "pseudonymous"))
    empty(store)
    changed = into_store(store, tmp_path, "pseudonymous", keys="{file: ./release.key, scope: project}")
    assert run(changed, ONE).ending == "published"


def test_a_release_changed_after_upload_began_is_built_again(
    store: Store, front: Front, tmp_path: Path
) -> None:
    policy = into_store(store, tmp_path, "pseudonymous")
    failing_while_it_puts(front, policy)
    (one,) = workspace_of(policy).release.rglob("*.dcm")
    one.chmod(0o600)
    one.write_bytes(b"changed")
    with pytest.raises(IntegrityError):
        run(policy, ONE)
    empty(store)
    assert run(policy, ONE).ending == "published"
