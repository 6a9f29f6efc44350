"""Deleted staged files: the run reports it, and the next one makes them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, IntegrityError
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.stages import audit, deduplicate
from medsanitize.policies.model import Policy

from tests.helpers.hospital import tree

Workplace = Callable[..., Policy]
ONE = Options(workers=1)


def staged(policy: Policy) -> list[Path]:
    return sorted((policy.output / ".staging" / "data").rglob("*.dcm"))


def test_a_missing_staged_file_is_made_again_by_the_next_run(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a dropped duplicate of it: the duplicate in the export is decided again."""
    whole, policy = workplace("whole"), workplace("gone")
    run(whole, ONE)
    real = audit.audit_objects

    def removed(*arguments: object) -> object:
        for path in staged(policy)[::2]:
            path.unlink()
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(audit, "audit_objects", removed)
    with pytest.raises(EnvironmentFailure, match="are missing") as failure:
        run(policy, ONE)
    monkeypatch.undo()

    assert failure.value.exit_code == 5
    assert run(policy, ONE).ending == "published"
    assert tree(policy.output) == tree(whole.output)


def test_a_file_deleted_while_awaiting_approval_is_made_again(workplace: Workplace) -> None:
    release = '{name: chest-ct, version: "1.0", mode: pseudonymous, approve: required}'
    policy = workplace(release=release)
    digest = run(policy, ONE).digest
    staged(policy)[0].unlink()

    with pytest.raises(EnvironmentFailure, match="are missing"):
        run(policy, ONE)

    assert run(policy, Options(workers=1, approve=digest)).ending == "published"


def test_a_file_deleted_after_the_audit_is_detected_by_the_next_run(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = workplace()
    real = deduplicate.judge_duplicates

    def removed(*arguments: object) -> None:
        for path in staged(policy):
            path.unlink()
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(deduplicate, "judge_duplicates", removed)
    with pytest.raises((EnvironmentFailure, IntegrityError)):  # depends on the stage that needs them first
        run(policy, ONE)
    monkeypatch.undo()
    with pytest.raises(EnvironmentFailure, match="are missing"):
        run(policy, ONE)

    assert run(policy, ONE).ending == "published"
