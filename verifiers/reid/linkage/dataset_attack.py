"""Result of the linkage attack on a dataset: whole images, central crops and the guidelines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from medsanitize.release.summary import Guideline
from medsanitize.verifiers.reid.calibration import Rate
from medsanitize.verifiers.reid.linkage.attack import REPEATS, LinkageAttack

# The reason that `embed_files` gives for objects without pixel data.
NO_IMAGE: Final = "not readable: no-pixels"


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """One dataset of the attack: number of images and patients, and images left out, by reason."""

    images: int
    patients: int
    excluded: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Linkage:
    """Result of a linkage attack on a release; it names no image and no patient.

    Attributes
    ----------
    modality, model, model_digest
        Modality, name and digest of the model whose embeddings are compared.
    release, background
        The attacked dataset and that of the attacker; equal if a dataset is attacked with itself.
    itself
        Whether the background is the release itself: an image is then never its own mate.
    whole
        Attack with whole images.
    crop
        Attack with central crops; None where they cannot be compared.
    without_crop
        Number of images without a comparable central crop.
    guidelines
        The guidelines A1 to A7, if the policy was given.
    """

    modality: str
    model: str
    model_digest: str
    release: DatasetSummary
    background: DatasetSummary
    itself: bool
    whole: LinkageAttack
    crop: LinkageAttack | None
    without_crop: int
    guidelines: tuple[Guideline, ...] = ()

    @property
    def worst(self) -> Rate:
        """The higher of the two rates Rs."""
        rates = [one.rs for one in (self.whole, self.crop) if one is not None]
        return max(rates, key=lambda rate: rate.share)

    @property
    def excluded(self) -> int:
        """Number of images that could not be compared; objects without an image do not count."""
        datasets = (self.release,) if self.itself else (self.release, self.background)
        return sum(count for one in datasets for reason, count in one.excluded.items() if reason != NO_IMAGE)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {**asdict(self), "repeats": REPEATS}
