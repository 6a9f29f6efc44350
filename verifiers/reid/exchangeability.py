"""Whether a stored calibration holds for these images: a test on the scores of strangers.

A calibration describes the images that it was drawn from. Its error rates are quoted for other images only if
strangers among these score as strangers among those do, and patients with two images as well where there are
some: images of another device, of another region or of worse quality move both.
"""

from __future__ import annotations

from typing import Final

from medsanitize.verifiers.reid.calibration import Calibration

# Significance level of each test: a calibration of the same images is refused that often.
LEVEL: Final = 0.05
# Largest factor between the rates at which strangers reach a score.
FACTOR: Final = 2.0
# Fewer pairs of strangers could not show a difference.
FEWEST_STRANGERS: Final = 30
_FEWEST_GENUINE: Final = 5
_RATES: Final = (0.1, 0.01)
_FEWEST_EXPECTED: Final = 10


def difference(own: Calibration, stored: Calibration) -> str:
    """State why a stored calibration does not hold for the compared images; empty if it does.

    Parameters
    ----------
    own : Calibration
        Of the compared images; ``genuine`` may be empty.
    stored : Calibration
        Of other images, by the same models.
    """
    if own.pairs < FEWEST_STRANGERS:
        return (
            f"these images have {own.pairs:,} pairs of patients known apart, of which a comparison with it"
            f" needs {FEWEST_STRANGERS:,}"
        )
    if differ(own.disjoint, stored.disjoint):
        return "different patients score otherwise in these images than in its own"
    for rate in _RATES:
        point = stored.for_false_match(rate)
        wanted = max(point.false_match.share, 0.5 / stored.pairs)
        found = own.at(point.threshold).false_match.share
        if own.pairs * wanted >= _FEWEST_EXPECTED and not wanted / FACTOR <= found <= wanted * FACTOR:
            return (
                f"at its threshold for a false match rate of {wanted:.2g}, {found:.2g} of the pairs of"
                " different patients of these images match"
            )
    if len(own.genuine) >= _FEWEST_GENUINE <= len(stored.genuine) and differ(own.genuine, stored.genuine):
        return "images of one patient score otherwise in these images than in its own"
    return ""


def differ(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two samples differ by the test of Kolmogorov and Smirnov, at `LEVEL`."""
    from scipy.stats import ks_2samp  # type: ignore[import-untyped]

    return bool(ks_2samp(one, other).pvalue < LEVEL)
