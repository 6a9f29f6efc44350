"""Fingerprints of staged objects for the overlap stage, and the outcomes of its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medsanitize.pipeline.state.database import State


@dataclass(frozen=True, slots=True, repr=False)
class FingerprintRow:
    """One object's encrypted fingerprint; ``value`` is None if its worker crashed."""

    id: int
    problem: str
    modality: str | None
    value: bytes | None

    def __repr__(self) -> str:
        return f"FingerprintRow({self.id})"


def store_fingerprints(state: State, rows: Sequence[FingerprintRow]) -> None:
    """Store fingerprints within the open batch."""
    state.write(
        "INSERT OR REPLACE INTO fingerprints VALUES (?, ?, ?, ?)",
        [(row.id, row.problem, row.modality, row.value) for row in rows],
    )


def clear_fingerprints(state: State) -> None:
    """Delete every fingerprint, within the open transaction."""
    state.db.execute("DELETE FROM fingerprints")


def rule_out_patients(state: State, patients: Sequence[str], outcome: str, rule: str) -> int:
    """Give every released object of these pseudonyms another outcome; return how many."""
    done = state.db.executemany(
        "UPDATE objects SET outcome = ?, rule = ? WHERE outcome = 'released' AND p_patient = ?",
        [(outcome, rule, patient) for patient in patients],
    )
    return max(done.rowcount, 0)


def flag_patients(state: State, patients: Sequence[str]) -> int:
    """Flag every released object of these pseudonyms as overlapping; return how many."""
    done = state.db.executemany(
        "UPDATE objects SET flags = flags || 'overlap,' WHERE outcome = 'released' AND p_patient = ?",
        [(patient,) for patient in patients],
    )
    return max(done.rowcount, 0)
