"""The linking attack on a whole dataset: whole images and central crops, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from medsanitize.release.summary import Guideline
from medsanitize.verifiers.reid.calibration import Rate
from medsanitize.verifiers.reid.linkage.attack import REPEATS, LinkageAttack

NO_IMAGE: Final = "not readable: no-pixels"


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """One side: how many images and patients, and what of it could not be compared, by reason."""

    images: int
    patients: int
    excluded: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Linkage:
    """What an attacker with the background links of the release; it names no image and no patient.

    Attributes
    ----------
    modality, model, model_digest
        By what the images were compared.
    release, background
        The two sides; of one dataset against itself the same.
    itself
        Whether the background is the release itself: then no image is its own mate.
    whole, crop
        Whole images, and their middle alone; None where nothing could be compared.
    without_crop
        Images of which the middle could not be compared.
    guidelines
        The checklist, where the policy was given.
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
        """The higher of the two rates."""
        rates = [one.rs for one in (self.whole, self.crop) if one is not None]
        return max(rates, key=lambda rate: rate.share)

    @property
    def excluded(self) -> int:
        """Images that could not be compared; objects that are no images do not count."""
        sides = (self.release,) if self.itself else (self.release, self.background)
        return sum(count for one in sides for reason, count in one.excluded.items() if reason != NO_IMAGE)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {**asdict(self), "repeats": REPEATS}
