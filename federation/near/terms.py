"""What two parties agree on for a near comparison, and the messages of its session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from medsanitize.federation.near.bounds import NearBound
from medsanitize.federation.near.embeddings import limit_of
from medsanitize.federation.near.process import NearPlan, Outcome
from medsanitize.policies.partners import Agreement, Ask
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

# Two embeddings of unit length are at most 2 apart.
_FARTHEST: Final = 2.001
# Most images of one question.
MOST_IMAGES: Final = 100


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NearTerms(_Payload):
    """What is compared, and what the asking party learns.

    Attributes
    ----------
    kind
        Kind of the images.
    model
        Digest of the retrieval model.
    reveal
        What the asking party learns.
    contract
        The contract, in the same words in both policies.
    """

    kind: Annotated[str, StringConstraints(max_length=40)]
    model: Annotated[str, StringConstraints(max_length=200)]
    reveal: Outcome
    contract: Annotated[str, StringConstraints(max_length=200)]


Distance = Annotated[float, Field(ge=0, le=_FARTHEST, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=1, le=10**6)]


class NearHello(_Payload):
    """The asking party's terms, its number of patients, and the distance that it proposes."""

    terms: NearTerms
    patients: Size
    distance: Distance


class NearReply(_Payload):
    """The answering party's number of patients and proposal, and its bounds at the larger distance."""

    patients: Size
    distance: Distance
    bound: NearBound


class NearStart(_Payload):
    """The asking party's bounds: both begin to compute."""

    bound: NearBound


@dataclass(frozen=True, slots=True)
class NearLimits:
    """What this party's policy allows with a partner.

    Attributes
    ----------
    smallest, largest
        Limits of either side's number of patients.
    runs, days
        Comparisons with this partner per period, exact ones included; answers per period in a search.
    images
        Most images of a search, which are patients to the protocol; 0 for a comparison of releases.
    """

    smallest: int
    largest: int
    runs: int
    days: int
    images: int = 0

    def check(self, asking: int, answering: int | None = None) -> str:
        """Return the reason to refuse sets of these sizes, or nothing."""
        most = self.images or self.largest
        if not self.images and asking < self.smallest:
            return "too-few-items"
        if answering is not None and answering < self.smallest:
            return "too-few-items"
        is_larger = asking > most or (answering is not None and answering > self.largest)
        return "too-many-items" if is_larger else ""


def near_limits(agreement: Agreement) -> NearLimits:
    """Return the limits of an agreement with a near comparison."""
    largest = agreement.near.largest if agreement.near is not None else 0
    return NearLimits(agreement.smallest, largest, agreement.runs, agreement.days)


def search_limits(agreement: Agreement, ask: Ask) -> NearLimits:
    """Return the limits of an agreement with a search."""
    images = min(ask.answers, MOST_IMAGES)
    return NearLimits(agreement.smallest, agreement.largest, ask.answers, ask.days, images)


def plan_of(
    session: str, terms: NearTerms, sizes: tuple[int, int], dimension: int, distance: float
) -> NearPlan:
    """Return what both parties compute at a distance."""
    return NearPlan(session, sizes, dimension, limit_of(distance), terms.reveal)


def agreed_distance(asking: float, answering: float) -> float:
    """The larger of both proposals: at it, neither party misses more than it allows."""
    return max(asking, answering)
