"""Workers that fingerprint images for a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medsanitize.pipeline.engines.base import Engine, WorkerCrashed
from medsanitize.pipeline.runtime.calibrations import read_given_calibration
from medsanitize.progress import Progress
from medsanitize.verifiers.reid.calibration import Calibration
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.dataset import ImageFile
from medsanitize.verifiers.reid.overlap.fingerprint import ImageFingerprint, fingerprint_images
from medsanitize.verifiers.reid.overlap.models import ModelPaths, Models, open_models
from medsanitize.verifiers.reid.overlap.overlap import Overlap

# Trouble of an image whose decoder crashed its process twice.
DIED = "decoder-died"


@dataclass(frozen=True, slots=True)
class FingerprintWorkers:
    """Creates the worker of a process: the opened models."""

    paths: ModelPaths

    def worker(self) -> Models:
        """Open the models, once per process."""
        return open_models(self.paths)


def calibrations_of(path: Path | None, models: Models) -> dict[Modality, Calibration]:
    """Read a calibration that ``evaluate --output`` or a federation wrote.

    Parameters
    ----------
    path : Path or None
        The file, or None for no calibration.
    models : Models
        The models of the comparison.

    Returns
    -------
    dict
        The calibration by modality; empty without a file.

    Raises
    ------
    UsageError
        The file cannot be read, or was made with other models.
    IntegrityError
        The file is damaged.
    """
    if path is None:
        return {}
    given = read_given_calibration(path).file
    given.require_models(models.digest(given.modality))
    return {given.modality: given.calibration}


def unused_models(paths: ModelPaths, models: Models, found: Overlap) -> tuple[Modality, ...]:
    """List modalities with a given model but no images, if packaged models decided ``exclusive`` instead."""
    named = {*list(models.retrieval)[: len(paths.retrieval)], *models.verification}
    seen = {modality for side in found.datasets for modality in side.vectors}
    claimed = found.result == "exclusive" and seen - named
    return tuple(sorted(named - seen)) if claimed else ()


def fingerprint_in_workers(
    engine: Engine, progress: Progress, batches: Iterable[Sequence[ImageFile]]
) -> Iterator[Sequence[ImageFingerprint]]:
    """Fingerprint batches of images in separate processes: a crashing decoder affects no other image."""
    for result in engine.map(fingerprint_batch, batches, isolate=True):
        fingerprints = [ImageFingerprint(problem=DIED)] if isinstance(result, WorkerCrashed) else result
        progress.advance(len(fingerprints))
        yield fingerprints


def fingerprint_batch(models: Models, batch: Sequence[ImageFile]) -> list[ImageFingerprint]:
    """Fingerprint images; an unexpected error affects only the image that causes it."""
    try:
        return fingerprint_images(batch, models)
    except Exception:  # noqa: BLE001  decoders raise anything; the image is reported as not compared
        # A batch that fails as a whole is split, so that only the image at fault is lost.
        if len(batch) == 1:
            return [ImageFingerprint(problem="decoder-failed")]
        return [fingerprint for image in batch for fingerprint in fingerprint_batch(models, [image])]
