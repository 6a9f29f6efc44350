"""Suspected double patients: export for a person to decide, and the decisions in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.private_csv import write_private_csv
from medsanitize.pipeline.preflight import locked
from medsanitize.pipeline.resume import open_for_reading
from medsanitize.pipeline.runtime.workspace import identity_ledger, workspace_of
from medsanitize.pipeline.stages.csv_list import read_csv_list
from medsanitize.pipeline.stages.double_patients import REASONS, Suspicion, suspicions
from medsanitize.pipeline.stages.resolve import identities_of, read_identities
from medsanitize.pipeline.state.database import translated_errors
from medsanitize.pipeline.state.identities import (
    VERDICTS,
    IdentityDecision,
    join_identities,
    read_ledger,
    write_ledger,
)
from medsanitize.policies.model import Policy

_IDS: Final = ("issuer_1", "patient_id_1", "issuer_2", "patient_id_2")
_SUSPECTED: Final = ("pair", "reason", *_IDS, "name_1", "name_2", "birth_1", "birth_2", "sex_1", "sex_2")
_DECIDED: Final = ("decision", "why")


@translated_errors()
def decide_identities(
    policy: Policy,
    *,
    suspects: Path | None = None,
    decisions: Path | None = None,
    export: Path | None = None,
) -> dict[str, int]:
    """Record decisions on suspected double patients, and export what is suspected and decided.

    Parameters
    ----------
    policy : Policy
        The policy of the release, after its run or inventory.
    suspects : Path or None
        New CSV file of the pairs that nobody decided on. It contains PHI.
    decisions : Path or None
        That file, with the column ``decision`` filled in (``same`` or ``different``) and a reason in ``why``.
    export : Path or None
        New CSV file of all decisions that the ledger keeps. It contains PHI.

    Returns
    -------
    dict
        Number of pairs ``recorded``, ``undecided`` (after that), and ``decided`` in all.

    Raises
    ------
    UsageError
        The release is anonymous, there was no run, a file exists already, or the decisions are not valid.
    """
    ledger = identity_ledger(policy)
    if ledger is None:
        raise UsageError(
            "An anonymous release keeps no decisions: its key is deleted",
            "State which patient IDs are one person in a table, and name it in identities",
        )
    if not workspace_of(policy).database.exists():
        raise UsageError("There is no state of this release", "Run the policy first")
    # Decisions of two processes at once would overwrite each other.
    with locked(workspace_of(policy)):
        state = open_for_reading(policy)
        try:
            made = read_ledger(ledger, state.seal)
            found = suspicions(state, identities_of(state, policy.identities, ledger))
            added = _read_decisions(decisions, found) if decisions is not None else ()
            if added:
                made = (*made, *added)
                join_identities(read_identities(policy.identities), made)  # refuses contradictions
                write_ledger(ledger, state.seal, made)
                found = suspicions(state, identities_of(state, policy.identities, ledger))
            if suspects is not None:
                _export(suspects, (*_SUSPECTED, *_DECIDED), map(_suspected_row, found))
            if export is not None:
                rows = ((*one.first, *one.second, one.verdict, one.reason) for one in made)
                _export(export, (*_IDS, *_DECIDED), rows)
        finally:
            state.close()
    return {"recorded": len(added), "undecided": len(found), "decided": len(made)}


def _suspected_row(one: Suspicion) -> tuple[str, ...]:
    first, second = one.stated
    return (
        *(one.pair, REASONS[one.reason], *one.first, *one.second, first.name, second.name),
        *(first.birth_date, second.birth_date, first.sex, second.sex, "", ""),
    )


def _read_decisions(path: Path, found: Sequence[Suspicion]) -> tuple[IdentityDecision, ...]:
    """Read the rows that were decided on; IDs are taken from the state, as spreadsheets may change them."""
    known = {one.pair: one for one in found}
    made: dict[str, IdentityDecision] = {}
    for number, row in enumerate(read_csv_list(path, "--decisions", ("pair", *_DECIDED)), start=2):
        pair, verdict, why = ((row[name] or "").strip() for name in ("pair", *_DECIDED))
        if not verdict:
            continue
        if verdict not in VERDICTS or not why or pair in made:
            raise UsageError(
                f"--decisions: row {number} has another decision than same and different, no reason, or a"
                " repeated pair",
                "Write same or different in the column decision, and the reason in the column why",
            )
        if pair not in known:
            raise UsageError(
                f"--decisions: the pair in row {number} is not suspected, or is decided",
                "Export the suspected pairs again, or state the IDs in the table that identities names",
            )
        made[pair] = IdentityDecision(known[pair].first, known[pair].second, verdict, why)
    return tuple(made.values())


def _export(target: Path, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    write_private_csv(target, head, ([_as_text(cell) for cell in row] for row in rows))


def _as_text(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell
