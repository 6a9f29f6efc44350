"""Decisions of a review: validated strictly, bound to the page they were made on, stored in the state."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medsanitize.errors import UsageError
from medsanitize.pipeline.requeue import invalidate_decisions
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.decisions import (
    SCOPES,
    Targets,
    decisions_digest,
    store_decision,
    targets_of_finding,
    targets_of_item,
    targets_of_object,
    widened,
    withdraw_decision,
)
from medsanitize.pipeline.state.excerpts import store_chance, targets_of_excerpt
from medsanitize.pipeline.state.findings import finding_kinds
from medsanitize.pipeline.state.judgments import (
    LoggedDecision,
    log_decisions,
    remove_judgment,
    store_judgment,
)
from medsanitize.pipeline.state.reset import count_requeued, mark_requeued
from medsanitize.pipeline.state.result_types import Approvals
from medsanitize.pipeline.state.review_lists import staged_image
from medsanitize.pipeline.state.stage_results import APPROVALS, DECIDED, REVIEW, REVIEWED

FORMAT = 1
_MAX_FILE_BYTES = 16 * 2**20
_MEMBERS = {"version", "page", "approve", "decisions"}
_REASONS, _SCOPES = "reasons", "scopes"
_LONGEST_REASON = 500
_ITEM_NAME = re.compile(
    r"(?P<item>[0-9a-f]{32})|object-(?P<object>[0-9]{1,18})|finding-(?P<finding>[0-9a-f]{32})"
    r"|excerpt-(?P<excerpt>[0-9a-f]{32})|(?P<box>box-[0-9]{1,18}-[0-9]{1,9}(?:-[0-9]{1,9}){4})"
)
# Allowed decisions by kind of item.
VERDICTS = {
    "item": ("keep", "blank", "quarantine", "withdraw"),
    "object": ("release", "quarantine", "withdraw"),
    "finding": ("quarantine",),
    "excerpt": ("chance", "quarantine"),
    "box": ("keep", "blank", "withdraw"),
}
# Decisions by increasing severity; of two decisions on one location the more severe one holds.
_SEVERITY = ("withdraw", "release", "chance", "keep", "blank", "quarantine")


@dataclass(frozen=True, slots=True)
class RecordedDecisions:
    """Number of decisions in a file, number of objects to sanitize again, and whether one was an approval."""

    decisions: int
    objects: int
    approved: bool


def read_decisions(file: Path, scope: str | None = None) -> dict[str, Any]:
    """Read a file that the review page saved; see `checked_decisions`.

    Raises
    ------
    UsageError
        The file is not valid.
    """
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise _invalid_file()
        found = json.loads(file.read_bytes(), object_pairs_hook=_unique_members)
    except (OSError, ValueError, RecursionError):
        raise _invalid_file() from None
    return checked_decisions(found, scope)


def checked_decisions(found: Any, scope: str | None = None) -> dict[str, Any]:
    """Return decisions that are valid in themselves, each for ``scope`` where that has a meaning.

    Raises
    ------
    UsageError
        They are not valid.
    """
    # repr, because 1 == True == 1.0.
    if not isinstance(found, dict) or set(found) - {_REASONS, _SCOPES} != _MEMBERS:
        raise _invalid_file()
    if repr(found["version"]) != repr(FORMAT):
        raise _invalid_file()
    approve, decisions = found["approve"], found["decisions"]
    if not isinstance(found["page"], str) or not (approve is None or isinstance(approve, str)):
        raise _invalid_file()
    if not isinstance(decisions, dict):
        raise _invalid_file()
    for item, verdict in decisions.items():
        match = _ITEM_NAME.fullmatch(item)
        if match is None or match.lastgroup is None or verdict not in VERDICTS[match.lastgroup]:
            raise _invalid_file()
    _check_reasons(found.get(_REASONS, {}), decisions)
    _check_scopes(found.get(_SCOPES, {}), decisions)
    if scope is not None:
        wide = {item: scope for item, verdict in decisions.items() if is_scope_of(item, verdict, scope)}
        found = {**found, _SCOPES: {**wide, **found.get(_SCOPES, {})}}
    return dict(found)


def _check_scopes(scopes: Any, decisions: dict[str, str]) -> None:
    if not isinstance(scopes, dict):
        raise _invalid_file()
    for item, scope in scopes.items():
        if item not in decisions or not is_scope_of(item, decisions[item], scope):
            raise _invalid_file()


def is_scope_of(item: str, verdict: str, scope: Any) -> bool:
    """Report whether a decision may hold for more than its item.

    Those on review items may, and whole objects may be quarantined by series or device.
    """
    kind = item.rpartition("-")[0]
    return scope in SCOPES and (not kind or (kind, verdict) == ("object", "quarantine"))


def _check_reasons(reasons: Any, decisions: dict[str, str]) -> None:
    """Require a reason for every judgment that an excerpt is chance, and none for anything else."""
    judged = {item for item, verdict in decisions.items() if verdict == "chance"}
    if not isinstance(reasons, dict) or set(reasons) - judged:
        raise _invalid_file()
    for item in judged:
        reason = reasons.get(item)
        if not isinstance(reason, str) or len(reason) > _LONGEST_REASON:
            raise _invalid_file()
        if not reason.strip():
            raise UsageError("A finding is judged to be chance without a reason", "State why, on the page")


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _invalid_file() -> UsageError:
    return UsageError(
        "The file does not contain decisions of a review",
        "Pass the file that the review page saved, unchanged",
    )


@dataclass(slots=True)
class DecisionSession:
    """Many calls of `record_decisions` under one lock: what a first decision voids is void for all.

    `close_session` ends it. A killed process leaves its decisions, and a mark that no digest equals.
    """

    voided: bool = False


_OPEN = "open "


def close_session(state: State, session: DecisionSession) -> None:
    """Store the digest of all decisions, after the last one of a session."""
    if session.voided or (DECIDED.load(state) or "").startswith(_OPEN):
        with state.transaction():
            DECIDED.store(state, decisions_digest(state))


def record_decisions(
    state: State, found: dict[str, Any], reviewer: str = "", session: DecisionSession | None = None
) -> RecordedDecisions:
    """Store decisions in the state and requeue the objects concerned.

    Parameters
    ----------
    state : State
        The state of the run.
    found : dict
        The decisions, as ``read_decisions`` returns them.
    reviewer : str
        Name under which the person decides, for the log of the data controller.
    session : DecisionSession or None
        The session of which this is a part; None for decisions by themselves.

    Raises
    ------
    UsageError
        The decisions were made on another page, or refer to items that were not on it.
    """
    page = REVIEW.load(state)
    if page is None or found["page"] not in (page.page, *page.others):
        raise UsageError(
            "The decisions belong to a page of another run, or of an earlier state of this run",
            "Create a page with medsanitize review POLICY, and decide there",
        )
    if found["approve"] is not None and found["approve"] != page.approve:
        raise UsageError("The approval is not for the staged release", "Create a new page and approve on it")
    # The more severe decision is stored last and replaces the other.
    decisions = sorted(found["decisions"].items(), key=lambda item: (_SEVERITY.index(item[1]), item[0]))
    log = []
    with state.transaction():
        for item, verdict in decisions:
            scope = found.get(_SCOPES, {}).get(item, "")
            reason = found.get(_REASONS, {}).get(item, "")
            count = _record(state, item, verdict, _Terms(reviewer, scope, reason))
            log.append(LoggedDecision(reviewer, item, verdict, scope, count, page.digest))
        concerned = count_requeued(state)
        # These read the whole table, which is too slow for each of a thousand decisions.
        if session is None or not session.voided:
            if concerned:
                invalidate_decisions(state)
            REVIEWED.set(state)
            # Unlike any digest, and unlike the mark of another session.
            mark = _OPEN + os.urandom(8).hex()
            DECIDED.store(state, decisions_digest(state) if session is None else mark)
        if found["approve"] is not None:
            _approve(state, found["approve"], reviewer)
            log.append(LoggedDecision(reviewer, "release", "approve", "", 0, found["approve"]))
        log_decisions(state, log)
    if session is not None:
        session.voided = session.voided or concerned > 0
    return RecordedDecisions(len(decisions), concerned, found["approve"] is not None)


@dataclass(frozen=True, slots=True, repr=False)
class _Terms:
    """Who decides, for what beyond the item, and why."""

    reviewer: str
    scope: str
    reason: str


def _approve(state: State, digest: str, reviewer: str) -> None:
    """Add a person to those who approve this staged release."""
    before = APPROVALS.load(state)
    persons = before.reviewers if before is not None and before.digest == digest else ()
    APPROVALS.store(state, Approvals(digest, tuple(sorted({*persons, reviewer}))))


def _record(state: State, item: str, verdict: str, terms: _Terms) -> int:
    """Store one decision for every object it applies to, and requeue them if it changes anything."""
    kind, _, name = item.rpartition("-")
    concerned = _targets(state, item)
    if not concerned:
        raise UsageError(
            "A decision refers to an item that is not on the page", "Pass the file as it was saved"
        )
    if kind == "object" and verdict == "withdraw":
        remove_judgment(state, int(name), terms.reviewer)
    elif kind == "object":
        store_judgment(state, int(name), terms.reviewer, correct=verdict == "release")
    if terms.scope:
        item_name = None if kind else bytes.fromhex(name)
        concerned = widened(state, concerned, terms.scope, verdict, item_name)
    if kind == "excerpt" and verdict == "chance":
        store_chance(state, bytes.fromhex(name), terms.reason)
    elif verdict == "withdraw":
        withdraw_decision(state, concerned, terms.reviewer)
    else:
        store_decision(state, concerned, verdict, terms.reviewer)
    if verdict != "release":
        mark_requeued(state, [number for number, _ in concerned])
    return len({number for number, _ in concerned})


def _targets(state: State, item: str) -> Targets:
    """Return the objects of an item, and the location in each."""
    kind, _, name = item.rpartition("-")
    if item.startswith("box-"):
        return targets_of_box(state, item)
    if kind == "object":
        return targets_of_object(state, int(name))
    if kind == "finding":
        kinds = finding_kinds(state)
        location, rule = next((pair for pair in kinds if finding_name(state, *pair) == name), ("", ""))
        return targets_of_finding(state, location, rule)
    if kind == "excerpt":
        return targets_of_excerpt(state, bytes.fromhex(name))
    return targets_of_item(state, bytes.fromhex(name))


def targets_of_box(state: State, item: str) -> Targets:
    """Return the object and the location of a box that a person drew.

    Parameters
    ----------
    state : State
        The state of the run.
    item : str
        ``box-OBJECT-FRAME-LEFT-TOP-RIGHT-BOTTOM``, in pixels; frames count from 1.

    Raises
    ------
    UsageError
        The box is not in the image, or the policy does not let pixels of the object be changed.
    """
    number, frame, left, top, right, bottom = map(int, item.split("-")[1:])
    image = staged_image(state, number)
    if image is None:
        return []
    inside = left < right <= image.columns and top < bottom <= image.rows and 1 <= frame <= image.frames
    if not inside:
        raise UsageError("A box is not in its image", "Draw it again")
    # Where pixels are not read, the decision would have no effect.
    if not image.reads_pixels:
        raise UsageError(
            "The policy does not read the pixels of this object, so that nothing in them is blanked",
            "Turn dicom.options.clean_pixel_data on, or quarantine the object",
        )
    return [(number, f"pixels/frame {frame}/box {left},{top},{right},{bottom}")]


def finding_name(state: State, location: str, rule: str) -> str:
    """Return the name of an audit finding on the page."""
    # Keyed: the location of a finding must not be readable from a file of decisions.
    return state.seal.name("finding", location, rule).hex()
