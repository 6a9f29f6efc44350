"""The verdict of a private comparison, and the statement of what each party learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from medsanitize.federation.private_overlap.ask import Learned
from medsanitize.federation.private_overlap.terms import Comparison, What

_ITEMS: Final[Mapping[What, str]] = {
    "pixels": "images with equal pixels",
    "files": "equal source files",
    "patients": "patient identifiers",
}
ASSUMPTIONS: Final = (
    "Both parties are assumed to follow the protocol, even if they are curious; this is no protection against"
    " a malicious partner. Not protected: invented or omitted items, what several comparisons tell together,"
    " set sizes, time and amount of traffic, and the fact of an overlap itself."
)


@dataclass(frozen=True, slots=True)
class PrivateVerdict:
    """The verdict of a private comparison.

    Attributes
    ----------
    result
        ``overlapping`` if an item is common. Without one it is ``inconclusive``: the parties may have other
        images of the same patient.
    sentence
        The verdict with its numbers.
    statement
        What each party learned, and what is assumed.
    bound
        Upper bound of the share of common patients that were overlooked; None where only equal items were
        compared, which bounds nothing about other images of the same patients.
    """

    result: Literal["overlapping", "inconclusive"]
    sentence: str
    statement: str
    bound: float | None = None


def conclude(
    partner: str,
    comparisons: Sequence[Comparison],
    learned: Learned,
    *,
    not_compared: int,
    near: bool = False,
) -> PrivateVerdict:
    """Conclude from the counts of a session.

    Parameters
    ----------
    partner : str
        Name of the partner.
    comparisons : sequence of Comparison
        What was compared.
    learned : Learned
        The counts.
    not_compared : int
        Images of this release without a digest of their pixels.
    near : bool
        Whether other images of the same patients are compared as well.
    """
    common = {what: count for what, count in learned.counts.items() if count}
    sizes = "; ".join(
        f"{_ITEMS[one.what]}: {learned.counts[one.what]:,} in common of {learned.sizes[one.what]:,} here and"
        f" {learned.answering_sizes[one.what]:,} there"
        for one in comparisons
    )
    if common:
        sentence = f"The release overlaps that of {partner}: {sizes}."
    else:
        sentence = f"No common item with {partner} ({sizes})."
        if not near:
            sentence += " Whether other images show the same patients was not compared."
    if not_compared:
        sentence += f" Not compared, for want of a digest of their pixels: {not_compared:,} images here."
    return PrivateVerdict(
        "overlapping" if common else "inconclusive", sentence, statement_of(partner, comparisons)
    )


def statement_of(partner: str, comparisons: Sequence[Comparison]) -> str:
    """State what each party learns from a comparison with a partner."""
    counted = [_ITEMS[one.what] for one in comparisons if one.reveal == "count"]
    listed = [_ITEMS[one.what] for one in comparisons if one.reveal == "items"]
    told = [f"the number of common {' and '.join(counted)}"] if counted else []
    told += [f"which of its own {' and '.join(listed)} are common"] if listed else []
    return (
        f"This party learns {' and '.join(told)}, and the number of {partner}'s items; {partner} learns the"
        f" number of this party's items, and nothing about the result. {ASSUMPTIONS}"
    )
