"""Models of a comparison: a retrieval model and an optional verification model for each modality."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import Calibration
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.protocols import Retrieval, Verification

# Increase with every change of what a fingerprint contains: older indexes are then refused.
_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class ModelPaths:
    """Model folders named by a command or a policy; modalities without one use the packaged model."""

    retrieval: tuple[Path, ...] = ()
    verification: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Models:
    """Open models by modality, with their stored calibrations.

    Attributes
    ----------
    retrieval, verification
        Models by modality.
    distances
        Calibrations of the negated distance of the retrieval model.
    scores
        Calibrations of the score of the verification model.
    """

    retrieval: Mapping[Modality, Retrieval]
    verification: Mapping[Modality, Verification] = field(default_factory=dict)
    distances: Mapping[Modality, Calibration] = field(default_factory=dict)
    scores: Mapping[Modality, Calibration] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Digest of all models: fingerprints are comparable only if it is equal."""
        lines = [
            f"fingerprint {_VERSION}",
            *(f"{one} {_digest(self.retrieval, one)}" for one in Modality),
        ]
        lines += [f"verifier {one} {model.digest}" for one, model in sorted(self.verification.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def digest(self, modality: Modality) -> str:
        """Return the digests of the models of a modality, joined by a plus sign."""
        found = [self.retrieval[modality].digest]
        found += [self.verification[modality].digest] if modality in self.verification else []
        return "+".join(found)


def _digest(models: Mapping[Modality, Retrieval], modality: Modality) -> str:
    from medsanitize.verifiers.reid.models.pretrained import packaged_digest

    return models[modality].digest if modality in models else packaged_digest(modality)


class _WithPackaged(dict[Modality, Retrieval]):
    """Retrieval models by modality; the packaged one is loaded on first access."""

    def __missing__(self, modality: Modality) -> Retrieval:
        from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

        # On demand: a comparison with own models works without the packaged one installed.
        return self.setdefault(modality, packaged_retrieval(modality))


@lru_cache(maxsize=2)
def open_models(paths: ModelPaths) -> Models:
    """Open and verify the models of a comparison, once per process.

    Parameters
    ----------
    paths : ModelPaths
        Model folders.

    Raises
    ------
    UsageError
        If a folder holds no such model, or two are for one modality.
    IntegrityError
        If a file of a model was changed.
    EnvironmentFailure
        If the packaged model is needed but not installed.
    """
    from medsanitize.verifiers.reid.models.load import open_retrieval, open_verification

    retrieval = {one.modality: one for one in map(open_retrieval, paths.retrieval)}
    verification = {one.modality: one for one in map(open_verification, paths.verification)}
    # A dict has one model per modality: fewer entries than folders mean two models for one.
    if len(retrieval) < len(paths.retrieval) or len(verification) < len(paths.verification):
        raise UsageError("Two models of one kind are for the same modality", "Pass one model per modality")
    distances = _calibrations(paths.retrieval, list(retrieval))
    scores = _calibrations(paths.verification, list(verification))
    return Models(_WithPackaged(retrieval), verification, distances, scores)


def _calibrations(folders: Sequence[Path], modalities: Sequence[Modality]) -> dict[Modality, Calibration]:
    from medsanitize.verifiers.reid.models.load import stored_calibration

    stored = [stored_calibration(folder) for folder in folders]
    return {
        modality: Calibration.from_json(text.decode("utf-8", "replace"))
        for modality, text in zip(modalities, stored, strict=True)
        if text is not None
    }
