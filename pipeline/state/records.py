"""Records of sanitized objects, encrypted in the state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.keys import open_paths
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.layout import all_paths, contested_path
from medsanitize.sanitize.result import CheckResult, FilePart, Finding, ObjectRecord, Outcome, SlideRecord


def seal_record(seal: Seal, record: ObjectRecord) -> bytes:
    """Encrypt the fields of a record that have no column."""
    # Positional: `open_record` reads the fields in this order.
    facts = [
        record.kind,
        [(finding.location, finding.rule) for finding in record.findings],
        dict(record.rules),
        record.modality,
        record.sop_class,
        record.transfer_syntax,
        record.rows,
        record.columns,
        record.frames,
        str(record.pixels),
        record.pixel_regions_cleaned,
        str(record.faces),
        None if record.slide is None else astuple(record.slide),
        [astuple(part) for part in record.parts],
        record.times,
        record.stated,
        dict(record.research),
    ]
    return seal.close(json.dumps(facts).encode(), b"record")


def open_record(seal: Seal, outcome: str, names: Sequence[str | None], payload: bytes) -> ObjectRecord:
    """Restore a record from its row; ``names`` are the pseudonyms of patient, study, series, instance."""
    facts: list[Any] = json.loads(seal.open(payload, b"record"))
    kind, findings, rules, modality, sop_class, syntax, rows, columns, frames, *facts = facts
    pixels, regions, faces, slide, parts, (before, after), (age, sex, part), research = facts
    patient, study, series, instance = (name or "" for name in names)
    return ObjectRecord(
        outcome=Outcome(outcome),
        kind=kind,
        findings=tuple(Finding(location, rule) for location, rule in findings),
        rules=rules,
        patient=patient,
        study=study,
        series=series,
        instance=instance,
        modality=modality,
        sop_class=sop_class,
        transfer_syntax=syntax,
        rows=rows,
        columns=columns,
        frames=frames,
        pixels=CheckResult(pixels),
        pixel_regions_cleaned=regions,
        faces=CheckResult(faces),
        slide=None if slide is None else SlideRecord(slide[0], tuple(map(tuple, slide[1])), *slide[2:]),
        parts=tuple(FilePart(*part) for part in parts),
        times=(before, after),
        stated=(age, sex, part),
        research=research,
    )


@dataclass(frozen=True, slots=True, repr=False)
class QuarantinedSource:
    """Path of a quarantined object's main file, and the location that its rule names."""

    path: bytes
    location: str

    def __repr__(self) -> str:
        return "QuarantinedSource(...)"


def quarantined_sources(state: State, rule: str, limit: int) -> Iterator[QuarantinedSource]:
    """Yield the quarantined objects of one rule, by row; at most ``limit``."""
    rows = state.db.execute(
        "SELECT source, payload FROM objects WHERE outcome = 'quarantined' AND rule = ? ORDER BY id LIMIT ?",
        (rule, limit),
    )
    for source, payload in rows:
        found = _findings(state, payload)
        location = next((location for location, by in found if by == rule), "file")
        yield QuarantinedSource(open_paths(state.seal, source)[0], location)


def quarantined_places(state: State) -> dict[str, int]:
    """Count the quarantined objects by location and rule."""
    counts: dict[str, int] = {}
    rows = state.db.execute("SELECT rule, payload FROM objects WHERE outcome = 'quarantined'")
    for rule, payload in rows:
        found = _findings(state, payload)
        location = found[0][0] if found and found[0][1] == rule else "file"
        counts[f"{location} {rule}"] = counts.get(f"{location} {rule}", 0) + 1
    return dict(sorted(counts.items()))


def _findings(state: State, payload: bytes | None) -> list[tuple[str, str]]:
    """Decrypt only location and rule of each finding of a record."""
    return json.loads(state.seal.open(payload, b"record"))[1] if payload else []


def remove_unreleased(state: State, staging: Path) -> None:
    """Delete the staged files of objects that are no longer to be released."""
    while True:
        rows = state.db.execute(
            "SELECT id, p_parts, p_patient, p_study, p_series, p_instance, p_suffix, staged FROM objects"
            " WHERE staged > 0 AND outcome <> 'released' LIMIT 500"
        ).fetchall()
        if not rows:
            break
        for number, parts, *names, staged in rows:
            for path in all_paths(names, parts):
                name = contested_path(path, number) if staged == 2 else path
                with storage_errors():
                    (staging / name).unlink(missing_ok=True)
        # After the files: a kill in between repeats the deletion.
        state.write("UPDATE objects SET staged = 0 WHERE id = ?", [(row[0],) for row in rows])
    state.commit()
