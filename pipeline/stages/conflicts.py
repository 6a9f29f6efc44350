"""The stage conflicts: objects that state one SOP Instance UID.

Identical copies and the same image in another transfer syntax are one object, of which one copy is kept. Of
different objects of one patient, one keeps the UID, so that references still lead to an object that stated
it; each other is sanitized again with a UID derived from its content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from medsanitize.errors import IntegrityError
from medsanitize.pipeline.engines.partial_files import remove_partial_folder
from medsanitize.pipeline.stages.deduplicate import digest_pixels
from medsanitize.pipeline.stages.sanitize import SanitizeStage, sanitize_objects
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.state.contests import (
    Contender,
    contenders,
    contested_images,
    contested_uids,
    count_own_uids,
    give_own_uids,
    index_pseudonyms,
    quarantine_equal_pseudonyms,
    reopen_own_uids,
    unnamed_survivors,
)
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.objects import count_pending, rule_out
from medsanitize.pipeline.state.records import remove_unreleased
from medsanitize.pipeline.state.stage_results import CONTESTS_SETTLED, FAILED_BYTES, FAILED_PIXELS
from medsanitize.pipeline.state.staged_objects import Staged
from medsanitize.policies.model import Deduplicate
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.layout import all_paths, contested_path
from medsanitize.release.summary import GateSummary

RULE = "sop-instance-conflict"


@dataclass(frozen=True, slots=True)
class ConflictsStage(Stage):
    """Decide between sources that state one SOP Instance UID."""

    rules: Deduplicate
    sanitize: SanitizeStage

    name: ClassVar = "conflicts"
    phase: ClassVar[Phase] = "set"
    in_plan: ClassVar = True
    invalidated_by: ClassVar = frozenset({"sanitize"})

    def run(self, context: RunContext, advance: Advance) -> None:
        """Decide, sanitize again what gets another UID, and move the files of survivors to their names."""
        state, staging = context.state, context.staging
        if not CONTESTS_SETTLED.is_set(state):
            if staging is not None:
                digest_pixels(state, context.engine, _staged(state))
            settle_contests(state, self.rules)
            if staging is not None:
                # Files first: once an object is pending, no row names them.
                remove_unreleased(state, staging)
            reopen_own_uids(state)
            if count_pending(state):
                sanitize_objects(self.sanitize, state, context.engine, advance, staging=staging)
                if staging is not None:
                    remove_partial_folder(staging)
            finish_contests(state)
        if staging is not None:
            _name_survivors(state, staging)
            remove_unreleased(state, staging)

    @staticmethod
    def reset(state: State) -> None:
        """Remove the decisions; a UID of its own stays with its object."""
        CONTESTS_SETTLED.remove(state)
        FAILED_BYTES.remove(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Say how many objects have a UID of their own, if any."""
        count = count_own_uids(judged.state)
        if not count:
            return ()
        detail = (
            f"{count} objects shared their SOP Instance UID with a different object and have a new one."
            " References to the UID lead to the object that kept it."
        )
        return (GateSummary("one UID, several objects", "flagged", detail),)


def settle_contests(state: State, rules: Deduplicate) -> None:
    """Decide between sources with the same SOP Instance UID; some become pending (one transaction).

    Parameters
    ----------
    state : State
        The state of the run.
    rules : Deduplicate
        The section ``deduplicate`` of the policy.
    """
    with state.transaction():
        index_pseudonyms(state)
        for sop in contested_uids(state):
            _settle_contest(state, rules, contenders(state, sop))


def finish_contests(state: State) -> None:
    """Check that every released object has a name of its own, and mark the contests as settled."""
    with state.transaction():
        # Two sources mapped to one pseudonym would overwrite each other's file.
        quarantine_equal_pseudonyms(state)
        CONTESTS_SETTLED.set(state)


def _settle_contest(state: State, rules: Deduplicate, found: Sequence[Contender]) -> None:
    released = [one for one in found if one.outcome == "released"]
    different = _keep_one(state, released, "sha256", rules.bytes)
    # One image under two patients may be filed under the wrong one of them.
    several_patients = len({one.patient for one in different}) > 1
    if several_patients and _may_be_one(different):
        rule_out(state, _numbers(released), "quarantined", RULE)
        return
    different = _keep_one(state, different, "pixels", rules.pixels)
    cut_short = rules.one_uid == "quarantine" and len(released) < len(found)
    if len(different) < 2 and not cut_short:
        return
    if rules.one_uid == "quarantine" or any(one.kind != "dicom" for one in different):
        rule_out(state, _numbers(different), "quarantined", RULE)
    else:
        # By content: which object keeps the UID must not depend on names or order of the inputs.
        give_own_uids(state, _numbers(sorted(different, key=lambda one: one.sha256 or b"")[1:]))


def _may_be_one(different: Sequence[Contender]) -> bool:
    """Whether two of the objects may show the same: their pixels are equal, or were not compared."""
    pixels = [one.pixels for one in different]
    return None in pixels or len(set(pixels)) < len(pixels)


def _keep_one(state: State, found: Sequence[Contender], column: str, action: str) -> list[Contender]:
    """Apply the policy to equal objects, and return those that remain: one of each group.

    One UID can name one file only, so copies are dropped even if the policy keeps duplicates.
    """
    groups: dict[object, list[Contender]] = {}
    for one in found:
        groups.setdefault(getattr(one, column) or one.id, []).append(one)
    rule = f"duplicate-{'bytes' if column == 'sha256' else column}"
    for group in groups.values():
        if len(group) > 1 and action == "quarantine":
            rule_out(state, _numbers(group), "quarantined", rule)
        elif len(group) > 1:
            rule_out(state, _numbers(group[1:]), "dropped", rule)
            if action == "fail":
                (FAILED_BYTES if column == "sha256" else FAILED_PIXELS).set(state)
    return [group[0] for group in groups.values() if len(group) == 1 or action != "quarantine"]


def _numbers(found: Iterable[Contender]) -> list[int]:
    return [one.id for one in found]


def _staged(state: State) -> Iterator[Staged]:
    for one in contested_images(state):
        paths = (contested_path(path, one.id) for path in all_paths(one.names, one.parts))
        yield Staged(one.id, "dicom", tuple(paths))


def _name_survivors(state: State, staging: Path) -> None:
    for survivors in unnamed_survivors(state):
        for one in survivors:
            for path in all_paths(one.names, one.parts):
                _move_into_place(staging / contested_path(path, one.id), staging / path, one.names)


def _move_into_place(waiting: Path, target: Path, names: Sequence[str]) -> None:
    with storage_errors():
        # Already moved by an interrupted run.
        if not waiting.exists():
            return
        if target.exists():
            raise IntegrityError(
                f"Two objects would have one name: patient {names[0]}, object {names[3]}",
                "Remove the staging folder and run again; if it happens twice, report it as a defect",
            )
        waiting.replace(target)
