"""What to do when images may not be released: sentences with the numbers of this data set."""

from __future__ import annotations

from collections.abc import Mapping

from medsanitize.generators.privacy_gate.confidence_bounds import (
    MatchBound,
    keeps,
    miss_rate,
    permitted_match_rate,
    residual_of,
)
from medsanitize.generators.privacy_gate.draw_plan import DrawPlan, images_for, patients_for
from medsanitize.generators.privacy_gate.parameters import (
    LARGEST_MATCH_RATE,
    MOST_JUDGED,
    NOTICEABLE,
    SMALLEST_IMAGES,
    GateParameters,
)
from medsanitize.verifiers.reid.calibration import clopper_pearson


def too_small(size: int) -> str:
    """Why images of this size cannot be judged; empty if they can."""
    if size >= SMALLEST_IMAGES:
        return ""
    return (
        f"images of at least {SMALLEST_IMAGES} x {SMALLEST_IMAGES} pixels (the generator's have {size} x"
        f" {size},"
        " at which crops, mirrors and halves of an image are no longer told apart from other patients):"
        f" train a generator of {SMALLEST_IMAGES} or more pixels"
    )


def too_few_patients(patients: int, plan: DrawPlan, sizes: Mapping[str, int], terms: GateParameters) -> str:
    """Why no number of images can establish the residual, and how many patients do; empty if one can."""
    if plan.possible:
        return ""
    least = clopper_pearson(0, MOST_JUDGED, terms.confidence)[1]
    needed = max(patients_for(least, terms.residual, terms.confidence), patients + 1)
    best = residual_of(least, miss_rate(patients, terms.confidence))
    allow = f"allow at best a residual of {best:.3%}" if patients else "allow no bound"
    return (
        f"{needed:,} calibration patients for a residual of {terms.residual:.3%} with at most {MOST_JUDGED:,}"
        f" images; the {patients:,} that there are {allow}: {_moved(needed - patients, sizes)}"
    )


def too_few_for_attack(name: str, smaller: int, noticed: int, terms: GateParameters) -> str:
    """Why an attack is inconclusive; empty if the policy accepts that."""
    if terms.inconclusive:
        return ""
    return (
        f"more patients in training and holdout for the {name} (the smaller has {smaller:,}, of whom it could"
        f" notice {noticed:,} and more, which is above {NOTICEABLE:.0%}), or accept inconclusive attacks"
    )


def next_steps(
    patients: int, found: MatchBound, sizes: Mapping[str, int], size: int, terms: GateParameters
) -> tuple[str, ...]:
    """What would establish the residual after images were judged; empty if they did.

    Parameters
    ----------
    patients
        Number of calibration patients.
    found
        Bounds of the judged images.
    sizes
        Number of images and patients by split.
    size
        Width of the images in pixels.
    terms
        Parameters of the verdict.
    """
    if keeps(found, terms) or not patients:
        return ()
    lines = []
    needed = patients_for(found.upper, terms.residual, terms.confidence)
    # More calibration patients lower what is left after removal, not what matches before.
    if needed > patients and found.upper <= LARGEST_MATCH_RATE:
        lines.append(
            f"With {needed:,} calibration patients instead of {patients:,}, the same"
            f" {_times(found.matches, 'match', 'matches')} among {found.images:,} images would keep the"
            f" residual"
            f" of {terms.residual:.3%}: {_moved(needed - patients, sizes)}."
        )
    largest = permitted_match_rate(terms.residual, miss_rate(patients, terms.confidence))
    more = _images_at(found.matches / found.images, largest, terms.confidence)
    if more:
        lines.append(f"Or judge {more:,} images: at the same share of matches, their number suffices.")
    else:
        lines.append(
            f"More images do not help: {found.matches / found.images:.2%} of them match, where at most"
            f" {largest:.2%} may {_allowed(largest, patients)}."
        )
    lines.append(
        f"Larger images match by chance less often: these have {size} x {size} pixels. A generator that was"
        " trained for fewer steps, or on more patients, copies less."
    )
    return tuple(lines)


def _allowed(largest: float, patients: int) -> str:
    if largest < LARGEST_MATCH_RATE:
        return f"with {patients:,} calibration patients"
    return "whatever the number of calibration patients"


def _images_at(share: float, largest: float, confidence: float) -> int:
    """Number of images that suffices at a share of matches; 0 if none up to the limit does."""
    matches = 0
    while share < largest:
        images = images_for(matches, largest, confidence)
        if images > MOST_JUDGED:
            return 0
        if share * images <= matches:
            return images
        matches += 1
    return 0


def _moved(more: int, sizes: Mapping[str, int]) -> str:
    training, holdout = sizes["training patients"], sizes["holdout patients"]
    return (
        f"add {more:,} patients to the calibration split, or move them there from the holdout ({holdout:,}"
        f" patients) or, before another training, from the training split ({training:,})"
    )


def _times(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
