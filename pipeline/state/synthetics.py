"""Originals that synthetic images replace, sampled images that wait for the gate, and staged ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medsanitize.pipeline.state.database import PAGE, State
from medsanitize.pipeline.state.keys import open_paths
from medsanitize.pipeline.state.records import open_record
from medsanitize.sanitize.result import ObjectRecord

_SAMPLED = b"sampled image"


@dataclass(frozen=True, slots=True, repr=False)
class Original:
    """A released object that was found in the inputs."""

    id: int
    patient: str
    flagged: bool
    paths: tuple[bytes, ...]
    record: ObjectRecord

    def __repr__(self) -> str:
        return f"Original({self.id})"


@dataclass(frozen=True, slots=True, repr=False)
class SyntheticRow:
    """One staged synthetic image: its object, encrypted label and encrypted patient.

    ``names`` are the pseudonyms of patient, study, series and instance, and the suffix.
    """

    id: int
    size: int
    kind: str
    patient: bytes
    study: bytes
    sop: bytes
    names: tuple[str, str, str, str, str]
    parts: str
    sha256: bytes
    native: bool
    source: bytes
    payload: bytes
    label: bytes
    sealed_patient: bytes

    def __repr__(self) -> str:
        return f"SyntheticRow({self.id})"


def originals(state: State) -> Iterator[Original]:
    """Yield every object that would be released and is not synthetic, by row."""
    after = -1
    while page := state.db.execute(
        "SELECT id, p_patient, flags, source, payload FROM objects WHERE outcome = 'released' AND id > ?"
        " AND id NOT IN (SELECT id FROM synthetics) ORDER BY id LIMIT ?",
        (after, PAGE),
    ).fetchall():
        after = page[-1][0]
        for number, patient, flags, source, payload in page:
            record = open_record(state.seal, "released", (patient, "", "", ""), payload)
            yield Original(number, patient, bool(flags), open_paths(state.seal, source), record)


class SampledImages:
    """Sampled images by name, encrypted: until the gate has passed they may show a patient."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        """Return the image of a name, or None."""
        key = self._state.seal.name("sampled image", name)
        row = self._state.db.execute("SELECT value FROM sampled_images WHERE name = ?", (key,)).fetchone()
        return None if row is None else self._state.seal.open(row[0], _SAMPLED)

    def put(self, name: str, data: bytes) -> None:
        """Store an image; a kill loses at most the images of the last second."""
        key = self._state.seal.name("sampled image", name)
        sealed = self._state.seal.close(data, _SAMPLED)
        self._state.write("INSERT OR REPLACE INTO sampled_images VALUES (?, ?)", [(key, sealed)])
        # At most a second of samples per transaction: sampling one image may take seconds.
        self._state.count_written(1)


def add_synthetics(state: State, rows: Sequence[SyntheticRow]) -> None:
    """Add staged synthetic images within the open transaction."""
    state.db.executemany(
        "INSERT OR REPLACE INTO objects (id, size, stamp, kind, patient, study, sop, identified, outcome,"
        " staged, p_patient, p_study, p_series, p_instance, p_suffix, p_parts, bytes, sha256, native, source,"
        " payload) VALUES (?, ?, X'', ?, ?, ?, ?, 0, 'released', 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(row.id, row.size, row.kind, row.patient, row.study, row.sop, *row.names),
                *(row.parts, row.size, row.sha256, row.native, row.source, row.payload),
            )
            for row in rows
        ],
    )
    state.db.executemany(
        "INSERT OR REPLACE INTO synthetics VALUES (?, ?)", [(row.id, row.label) for row in rows]
    )
    state.db.executemany(
        "INSERT OR IGNORE INTO patients VALUES (?, X'', ?)",
        [(row.patient, row.sealed_patient) for row in rows],
    )
    # A decision of a review still holds: the image of a row is always the same.
    state.db.execute(
        "UPDATE objects SET outcome = 'quarantined', rule = 'review'"
        " WHERE id IN (SELECT id FROM synthetics)"
        " AND id IN (SELECT id FROM decisions WHERE verdict = 'quarantine')"
    )
