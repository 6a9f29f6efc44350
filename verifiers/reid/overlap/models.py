"""The models of a comparison: one that finds and, where there is one, one that decides, for each modality."""

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

_LOOK: Final = 1
"""Raised with every change of what is seen of an image: what was seen before is then not comparable."""


@dataclass(frozen=True, slots=True)
class ModelPaths:
    """Folders of models, as a command or a policy names them; the packaged model fills in."""

    retrieval: tuple[Path, ...] = ()
    verification: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Models:
    """Open models by modality, and the calibrations that came with them.

    ``distances`` are calibrations of the negated distance of the retrieval model, ``scores`` of the score of
    the verification model.
    """

    retrieval: Mapping[Modality, Retrieval]
    verification: Mapping[Modality, Verification] = field(default_factory=dict)
    distances: Mapping[Modality, Calibration] = field(default_factory=dict)
    scores: Mapping[Modality, Calibration] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """One digest for all of them: only what equal models saw can be compared."""
        lines = [f"look {_LOOK}", *(f"{one} {_digest(self.retrieval, one)}" for one in Modality)]
        lines += [f"verifier {one} {model.digest}" for one, model in sorted(self.verification.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def digest(self, modality: Modality) -> str:
        """Which models look at this modality: digests joined by a plus sign."""
        found = [self.retrieval[modality].digest]
        found += [self.verification[modality].digest] if modality in self.verification else []
        return "+".join(found)


def _digest(models: Mapping[Modality, Retrieval], modality: Modality) -> str:
    from medsanitize.verifiers.reid.models.pretrained import packaged_digest

    return models[modality].digest if modality in models else packaged_digest(modality)


class _WithPackaged(dict[Modality, Retrieval]):
    """Retrieval models by modality; the packaged one comes when it is first asked for."""

    def __missing__(self, modality: Modality) -> Retrieval:
        from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

        return self.setdefault(modality, packaged_retrieval(modality))


@lru_cache(maxsize=2)
def open_models(paths: ModelPaths) -> Models:
    """Open the models of a comparison once a process, every byte checked.

    Raises
    ------
    UsageError
        When a folder holds no such model, or two are for one modality.
    IntegrityError
        When something in one was changed.
    EnvironmentFailure
        When the packaged model is needed and not installed.
    """
    from medsanitize.verifiers.reid.models.load import open_retrieval, open_verification

    retrieval = {one.modality: one for one in map(open_retrieval, paths.retrieval)}
    verification = {one.modality: one for one in map(open_verification, paths.verification)}
    if len(retrieval) < len(paths.retrieval) or len(verification) < len(paths.verification):
        raise UsageError("Two models of one kind are for one modality", "Name one for each modality")
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
