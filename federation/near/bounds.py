"""Error bounds of a party's own images, without its calibration leaving the party.

As in `medsanitize.verifiers.reid.overlap.thresholds`, strangers within a party's own release say how often
strangers match, and its patients with two images (or the calibration stored with the model, if these images
are like those) how often a patient is missed. Each party proposes the distance that it needs for a claim; the
smaller misses of both are kept by the larger distance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from medsanitize.errors import UsageError
from medsanitize.federation.near.embeddings import rounded_fingerprint, rounding
from medsanitize.verifiers.reid.calibration import Calibration, calibrate_strangers
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint
from medsanitize.verifiers.reid.overlap.overlap import TARGET_FALSE_MATCH
from medsanitize.verifiers.reid.overlap.own_pairs import pairs_within
from medsanitize.verifiers.reid.overlap.thresholds import (
    StoredCalibrations,
    choose_thresholds,
    with_misses,
)
from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=10**12)]


class NearBound(BaseModel):
    """What a party states about its own images at the distance of the comparison; it signs the message.

    Attributes
    ----------
    miss
        Upper bound of the probability that two images of a patient are farther apart.
    patients, source
        Patients behind it: of this release, or of the calibration stored with the model.
    strangers, matches
        Pairs of strangers within the release, and how many of them are as near.
    left_out
        Patients and images that were not compared.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    miss: Share
    patients: Count
    source: Literal["compared_images", "model"]
    strangers: Count
    matches: Count
    left_out: Count


@dataclass(frozen=True, slots=True, repr=False)
class OwnCalibration:
    """Calibration of a party's own images, which it keeps.

    Attributes
    ----------
    calibration
        Of the negated distance of rounded embeddings.
    source
        Origin of its false non-match rates.
    distance
        Largest distance of a match that this party proposes.
    """

    calibration: Calibration
    source: Literal["compared_images", "model"]
    distance: float

    def bound(self, distance: float, left_out: int) -> NearBound:
        """Return the statement at a distance."""
        point = self.calibration.at(-distance)
        return NearBound(
            miss=point.false_non_match.upper,
            patients=point.false_non_match.of,
            source=self.source,
            strangers=self.calibration.pairs,
            matches=round(point.false_match.share * self.calibration.pairs),
            left_out=left_out,
        )


def own_calibration(
    seen: DatasetFingerprint, kind: Modality, stored: Calibration | None, dimension: int
) -> OwnCalibration:
    """Calibrate on a party's own release.

    Parameters
    ----------
    seen : DatasetFingerprint
        The release.
    kind : Modality
        Kind of the images.
    stored : Calibration or None
        Calibration of the negated distance stored with the model.
    dimension : int
        Length of an embedding.

    Raises
    ------
    UsageError
        No two patients are known apart: nothing says how often strangers match.
    """
    own = pairs_within(rounded_fingerprint(seen, kind), kind, None)
    if own is None:
        raise UsageError(
            "The release has no two patients who are known apart, so that nothing bounds the errors",
            "Compare a release whose manifest names its patients",
        )
    strangers = calibrate_strangers(own.pairs.score, own.pairs.first, own.pairs.second)
    if stored is not None:
        # Stored distances are those of embeddings that were not rounded.
        farther = tuple(score - rounding(dimension) for score in stored.genuine)
        stored = replace(stored, genuine=farther)
    calibration, source, _ = with_misses(strangers, StoredCalibrations(model=stored))
    limits = choose_thresholds(calibration, None, verified=False, target=TARGET_FALSE_MATCH, source=source)
    # Where strangers have equal embeddings, no distance keeps them apart; the bounds then say so.
    distance = max(0.0, -limits.strict.threshold)
    return OwnCalibration(calibration, "model" if source == "model" else "compared_images", distance)
