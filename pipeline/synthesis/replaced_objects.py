"""The originals that a policy replaces; they are dropped even if no synthetic image is released."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.objects import rule_out
from medsanitize.pipeline.state.records import remove_unreleased
from medsanitize.pipeline.state.result_types import Replaced
from medsanitize.pipeline.state.stage_results import REPLACED
from medsanitize.pipeline.state.synthetics import originals
from medsanitize.pipeline.storage.containers.address import shown
from medsanitize.pipeline.synthesis.reference_images import ReferenceTable, rows_of
from medsanitize.policies.synthesize import Synthesize
from medsanitize.sanitize.result import CheckResult, ObjectRecord

RULE: Final = "synthesize:replaced"


def table_of(section: Synthesize) -> ReferenceTable:
    """Return the policy's table of reference images."""
    from medsanitize.verifiers.reid.labels import LabelColumns

    reference = section.reference
    columns = LabelColumns(file=reference.file, patient_id=reference.patient, split=reference.split)
    parts = (reference.training, reference.holdout, reference.calibration)
    return ReferenceTable(reference.images, reference.table, columns, reference.label, parts)


def labels_by_path(section: Synthesize) -> dict[bytes, str]:
    """Return the label of every image in the table, by its resolved path.

    Raises
    ------
    UsageError
        The table does not contain one of the labels to replace.
    """
    labels = rows_of(table_of(section), None)
    column = labels.extra.get(section.reference.label)
    missing = sorted(set(section.labels) - set(column or ()))
    if missing:
        raise UsageError(
            f"synthesize: {len(missing)} of the labels to replace are not in the table",
            "Correct synthesize.labels, or synthesize.reference.label, the column they are in",
        )
    if column is None:
        return {}
    # Resolved, because the inputs and the table may name one file by different paths.
    return {
        os.path.realpath(os.fsencode(path)): label for path, label in zip(labels.paths, column, strict=True)
    }


def replace_originals(state: State, section: Synthesize, staging: Path) -> Replaced:
    """Drop the originals that the policy replaces, as one transaction.

    Later calls return the stored result of the first call.

    Parameters
    ----------
    state : State
        The state of the run.
    section : Synthesize
        The section ``synthesize`` of the policy.
    staging : Path
        The staging folder, from which the files of dropped originals are removed.
    """
    if not REPLACED.is_stored(state):
        labels = labels_by_path(section)
        found, named, unlabeled = list[_Image](), 0, 0
        for one in _images(state):
            if _is_replaced(section, one, labels):
                found.append(one)
            if section.replace == "by-label":
                named += any(path in labels for path in one.paths)
                unlabeled += not _label(one, labels)
        counts = dict(sorted(Counter(label for one in found if (label := _label(one, labels))).items()))
        replaced = Replaced(len(found), len({one.patient for one in found}), counts, named, unlabeled)
        with state.transaction():
            rule_out(state, [one.id for one in found], "dropped", RULE)
            REPLACED.store(state, replaced)
    remove_unreleased(state, staging)
    return read_replaced(state)


def read_replaced(state: State) -> Replaced:
    """Return the stored counts of replaced originals."""
    return REPLACED.load(state) or Replaced()


@dataclass(frozen=True, slots=True, repr=False)
class _Image:
    id: int
    patient: str
    flagged: bool
    paths: tuple[bytes, ...]


def _images(state: State) -> Iterator[_Image]:
    """Yield every image that would be released, by row number."""
    for one in originals(state):
        if _has_image(one.record):
            flagged = one.flagged or CheckResult.FLAGGED in (one.record.pixels, one.record.faces)
            yield _Image(one.id, one.patient, flagged, tuple(map(shown, one.paths)))


def _has_image(record: ObjectRecord) -> bool:
    return record.kind in ("raster", "slide") or record.rows is not None


def _is_replaced(section: Synthesize, image: _Image, labels: Mapping[bytes, str]) -> bool:
    if section.replace == "all":
        return True
    if section.replace == "flagged":
        return image.flagged
    return any(labels.get(path) in section.labels for path in image.paths)


def _label(image: _Image, labels: Mapping[bytes, str]) -> str:
    return next((labels[path] for path in image.paths if labels.get(path)), "")
