"""Result files of a comparison: JSON without names, and a table of pairs that contains PHI."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from medsanitize.release.atomic_io import storage_errors
from medsanitize.verifiers.reid.calibration import OperatingPoint
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.compare import Comparison, ImagePair
from medsanitize.verifiers.reid.overlap.overlap import Overlap
from medsanitize.verifiers.reid.overlap.thresholds import Thresholds

PAIRS: Final = "pairs.parquet"


def result_json(found: Overlap) -> dict[str, Any]:
    """Return the result as JSON types, without names of patients or files."""
    return {
        "verdict": found.result,
        "comparisons": [_comparison(one) for one in found.comparisons],
        "datasets": [
            {
                "title": dataset.title,
                "images": len(dataset.images) - dataset.non_images,
                "non_images": dataset.non_images,
                "patients": len(dataset.names),
                "unread": dict(dataset.unread),
            }
            for dataset in found.datasets
        ],
        "models": {modality.value: digest for modality, digest in sorted(found.models.items())},
        "groups": max((pair.group for pair in found.pairs), default=0),
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    seen, verdict = one.evidence, one.verdict
    return {
        "datasets": list(one.titles),
        "verdict": verdict.result,
        "sentence": verdict.sentence,
        "false_non_match_bound": verdict.miss,
        "max_shared_patients": verdict.max_shared_patients,
        "copies": dict(seen.copies),
        "ids": seen.ids,
        "matched_patient_pairs": {modality.value: count for modality, count in seen.matched.items()},
        "matched_within_datasets": {modality.value: one.within for modality, one in seen.permutation.items()},
        "permutation_p_value": {modality.value: one.p_value for modality, one in seen.permutation.items()},
        "excess": {
            modality.value: {"p_value": one.p_value, "pairs": len(one.pairs), "strangers": one.strangers}
            for modality, one in seen.excess.items()
        },
        "strict_patient_pairs": {modality.value: count for modality, count in seen.strict.items()},
        "compared_patient_pairs": {modality.value: count for modality, count in seen.compared.items()},
        "unread": dict(seen.unread),
        "thresholds": {modality.value: _limit(limit) for modality, limit in sorted(seen.thresholds.items())},
    }


def _limit(limit: Thresholds) -> dict[str, Any]:
    return {
        "permissive": _cost(limit.permissive),
        "strict": _cost(limit.strict)
        | {"distance": limit.strict_max_distance if math.isfinite(limit.strict_max_distance) else None},
        # JSON has no infinity.
        "max_distance": limit.within if math.isfinite(limit.within) else None,
        "search_miss_bound": limit.search_miss_bound,
        "calibrated_on": limit.source,
        "calibration_not_quoted": limit.unquoted,
        "strangers": limit.pairs,
        "strangers_of_both": limit.both_sides,
        "insufficient_data": limit.insufficient_data,
    }


def _cost(point: OperatingPoint) -> dict[str, Any]:
    rates = {"false_match": point.false_match, "false_non_match": point.false_non_match}
    return {"threshold": point.threshold} | {
        name: {"share": rate.share, "errors": rate.errors, "trials": rate.of, "upper": rate.upper}
        for name, rate in rates.items()
    }


def write_pairs(found: Overlap, path: Path) -> None:
    """Write the table of pairs, one row per pair, best evidence first.

    The file is readable by its owner only: it contains PHI.

    Parameters
    ----------
    found : Overlap
        Result of the comparison.
    path : Path
        The Parquet file; an existing one is replaced.

    Raises
    ------
    EnvironmentFailure
        If the disk is full or fails.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    limits = {one.numbers: one.evidence.thresholds for one in found.comparisons}
    rows = [_row(found, pair, limits[pair.datasets]) for pair in found.pairs]
    with storage_errors():
        path.unlink(missing_ok=True)
        # Exclusive and private from the start: never through a link that someone else placed there.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            table = pa.Table.from_pylist(rows, schema=_schema())
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def _schema() -> Any:
    import pyarrow as pa

    texts = (
        "dataset_a",
        "image_a",
        "patient_a",
        "dataset_b",
        "image_b",
        "patient_b",
        "basis",
        "decision",
        "modality",
    )
    numbers = ("distance", "score", "threshold", "threshold_distance", "false_match_rate")
    more = ("false_match_bound", "false_non_match_rate", "false_non_match_bound")
    return pa.schema(
        [(name, pa.string()) for name in texts]
        + [(name, pa.float64()) for name in (*numbers, *more)]
        + [("bits", pa.int32()), ("group", pa.int32())]
    )


def _row(found: Overlap, pair: ImagePair, limits: Mapping[Modality, Thresholds]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for letter, dataset, image, patient in zip("ab", pair.datasets, pair.images, pair.patients, strict=True):
        seen = found.datasets[dataset]
        row |= {f"dataset_{letter}": seen.title, f"image_{letter}": seen.images[image].name}
        row[f"patient_{letter}"] = seen.names[patient] or None
    row |= {"basis": pair.basis, "decision": pair.decision, "bits": pair.bits, "group": pair.group}
    row |= {"modality": pair.modality, "distance": pair.distance, "score": pair.score}
    limit = limits.get(pair.modality) if pair.modality is not None else None
    if limit is not None:
        strict = pair.basis == "score" and pair.decision == "same_patient"
        point = limit.strict if strict else limit.permissive
        row["threshold"] = point.threshold
        row["threshold_distance"] = (
            limit.strict_max_distance if strict and math.isfinite(limit.strict_max_distance) else None
        )
        row |= {"false_match_rate": point.false_match.share, "false_match_bound": point.false_match.upper}
        row["false_non_match_rate"] = point.false_non_match.share
        row["false_non_match_bound"] = point.false_non_match.upper
    return row
