"""Comparison of two or more datasets: whether they are mutually exclusive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import Calibration
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.compare import Comparison, ImagePair, assign_groups, compare
from medsanitize.verifiers.reid.overlap.dataset import Dataset, ImageFile
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, fingerprint_dataset
from medsanitize.verifiers.reid.overlap.fingerprint import ImageFingerprint, fingerprint_images
from medsanitize.verifiers.reid.overlap.models import Models
from medsanitize.verifiers.reid.overlap.own_pairs import OwnPairs, pairs_within
from medsanitize.verifiers.reid.overlap.thresholds import StoredCalibrations, Thresholds, thresholds_of
from medsanitize.verifiers.reid.overlap.verdict import OverlapResult, worst_result

# Default false match rate of two patients for which the thresholds are chosen.
TARGET_FALSE_MATCH: Final = 1e-3
BATCH: Final = 16

Fingerprinter = Callable[[Iterable[Sequence[ImageFile]]], Iterator[Sequence[ImageFingerprint]]]
"""Fingerprints batches of images, in order; the pipeline's implementation runs in several processes."""


@dataclass(frozen=True, slots=True, repr=False)
class Overlap:
    """Result of comparing datasets.

    Attributes
    ----------
    result
        The worst verdict.
    datasets
        Fingerprints of the datasets.
    comparisons
        Comparison of every two datasets.
    pairs
        Pairs of images, best evidence first.
    models
        Digests of the models by modality.
    """

    result: OverlapResult
    datasets: tuple[DatasetFingerprint, ...]
    comparisons: tuple[Comparison, ...]
    pairs: tuple[ImagePair, ...]
    models: Mapping[Modality, str]


def compare_datasets(
    *datasets: Dataset | DatasetFingerprint,
    models: Models,
    calibrations: Mapping[Modality, Calibration] | None = None,
    target: float = TARGET_FALSE_MATCH,
    same_ids: bool = False,
    visit: Fingerprinter | None = None,
    scratch: Path | None = None,
) -> Overlap:
    """Compare datasets by bytes, pixels, perceptual hashes and models.

    Parameters
    ----------
    *datasets : Dataset or DatasetFingerprint
        Two or more; a `DatasetFingerprint` is used without reading its images.
    models : Models
        Models by modality. Their stored calibrations are used where there is no better one.
    calibrations : mapping of Modality to Calibration, optional
        Calibration of the deciding score: of the verification model, or of the negated distance without one.
        Its false non-match rates are quoted if strangers of the datasets score as its strangers do.
    target : float
        Requested false match rate of two patients, between 0 and 1.
    same_ids : bool
        Whether a patient ID means the same patient in all datasets.
    visit : callable, optional
        Fingerprints batches of images; runs in this process by default.
    scratch : Path, optional
        Folder for unnamed files of embeddings; the folder for temporary files by default.

    Raises
    ------
    UsageError
        If there are fewer than two datasets, one has no image, or ``target`` is not between 0 and 1.
    EnvironmentFailure
        If the disk is full or fails.
    """
    if len(datasets) < 2:
        raise UsageError("There is nothing to compare with", "Name at least two datasets")
    visit = visit or (lambda batches: (fingerprint_images(batch, models) for batch in batches))
    seen = tuple(
        dataset
        if isinstance(dataset, DatasetFingerprint)
        else fingerprint_dataset(dataset, iter_fingerprints(dataset, visit), scratch)
        for dataset in datasets
    )
    both = tuple(combinations(range(len(seen)), 2))
    return _concluded(seen, both, models, calibrations or {}, target, same_ids=same_ids)


def compare_with_each(
    ours: DatasetFingerprint,
    theirs: Sequence[DatasetFingerprint],
    *,
    models: Models,
    calibrations: Mapping[Modality, Calibration],
    target: float,
) -> Overlap:
    """Compare one dataset with each of several others, but not these with each other.

    Parameters are those of `compare_datasets`.
    """
    seen = (ours, *theirs)
    both = tuple((0, other) for other in range(1, len(seen)))
    return _concluded(seen, both, models, calibrations, target, same_ids=False)


def _concluded(
    seen: tuple[DatasetFingerprint, ...],
    both: Sequence[tuple[int, int]],
    models: Models,
    calibrations: Mapping[Modality, Calibration],
    target: float,
    *,
    same_ids: bool,
) -> Overlap:
    own = [_own_pairs(dataset, models) for dataset in seen]
    comparisons, pairs = [], list[ImagePair]()
    for one, other in both:
        limits = _thresholds((seen[one], seen[other]), (own[one], own[other]), models, calibrations, target)
        comparison, found = compare((seen[one], seen[other]), (one, other), models, limits, same_ids=same_ids)
        comparisons.append(comparison)
        pairs.extend(found)
    modalities = sorted({modality for dataset in seen for modality in dataset.vectors})
    return Overlap(
        result=worst_result([one.verdict.result for one in comparisons]),
        datasets=seen,
        comparisons=tuple(comparisons),
        pairs=assign_groups(tuple(pairs)),
        models={modality: models.digest(modality) for modality in modalities},
    )


def _own_pairs(dataset: DatasetFingerprint, models: Models) -> dict[Modality, OwnPairs | None]:
    return {
        modality: pairs_within(dataset, modality, models.verification.get(modality))
        for modality in dataset.vectors
    }


def _thresholds(
    sides: tuple[DatasetFingerprint, DatasetFingerprint],
    own: tuple[Mapping[Modality, OwnPairs | None], Mapping[Modality, OwnPairs | None]],
    models: Models,
    given: Mapping[Modality, Calibration],
    target: float,
) -> dict[Modality, Thresholds]:
    """Thresholds of every modality that both datasets have."""
    found: dict[Modality, Thresholds] = {}
    for modality in Modality:
        if all(modality in side.vectors for side in sides):
            verifier = models.verification.get(modality)
            model = (models.scores if verifier else models.distances).get(modality)
            stored = StoredCalibrations(given.get(modality), model, models.distances.get(modality))
            limit = thresholds_of(
                [side.vectors[modality] for side in sides],
                [part[modality] for part in own],
                verifier,
                stored,
                target,
            )
            if limit is not None:
                found[modality] = limit
    return found


def iter_fingerprints(dataset: Dataset, visit: Fingerprinter) -> Iterator[ImageFingerprint]:
    """Fingerprint the images of a dataset, in their order."""
    batches = (dataset.images[start : start + BATCH] for start in range(0, len(dataset.images), BATCH))
    for fingerprints in visit(batches):
        yield from fingerprints
