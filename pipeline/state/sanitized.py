"""Results of sanitizing an object: outcome, pseudonyms, staged file, and links for the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.state.database import State

# Keyed name of the link, whether it is of a patient, encrypted link.
LinkRow = tuple[bytes, int, bytes]


@dataclass(frozen=True, slots=True, repr=False)
class SanitizedRow:
    """New values of an object's row.

    ``staged`` is 1 for files under their final names, 2 for temporary names until a contested UID is settled;
    ``names`` are the pseudonyms of patient, study, series and instance. A suffix or parts of None keep the
    stored value.
    """

    id: int
    outcome: str
    rule: str | None
    payload: bytes | None = None
    staged: int = 0
    names: tuple[str | None, str | None, str | None, str | None] = (None, None, None, None)
    suffix: str | None = None
    parts: str | None = None
    size: int | None = None
    sha256: bytes | None = None
    native: bool | None = None

    def __repr__(self) -> str:
        return f"SanitizedRow({self.id})"


def store_sanitized(state: State, rows: Sequence[SanitizedRow]) -> None:
    """Store outcomes within the open batch."""
    state.write(
        "UPDATE objects SET outcome = ?, rule = ?, staged = ?, p_patient = ?, p_study = ?, p_series = ?,"
        " p_instance = ?, p_suffix = coalesce(?, p_suffix), p_parts = coalesce(?, p_parts),"
        " bytes = ?, sha256 = ?, native = ?, payload = ? WHERE id = ?",
        [
            (
                *(row.outcome, row.rule, row.staged, *row.names, row.suffix, row.parts),
                *(row.size, row.sha256, row.native, row.payload, row.id),
            )
            for row in rows
        ],
    )


def link_row(seal: Seal, link: tuple[str, str], *, is_patient: bool) -> LinkRow:
    """Build the row of an original identifier and its pseudonym."""
    return seal.name("link", *link), int(is_patient), seal.close(json.dumps(link).encode(), b"link")


def add_links(state: State, rows: Sequence[LinkRow]) -> None:
    """Store links that the state does not have yet, within the open batch."""
    if rows:
        state.write("INSERT OR IGNORE INTO links VALUES (?, ?, ?)", rows)


def links(state: State, *, patients: bool) -> Iterator[tuple[str, str]]:
    """Yield original identifiers and their pseudonyms: those of patients, or all others."""
    for (value,) in state.db.execute("SELECT value FROM links WHERE patient = ?", (int(patients),)):
        old, new = json.loads(state.seal.open(value, b"link"))
        yield old, new
