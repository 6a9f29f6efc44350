"""What two parties agree on for questions about single images, and the messages of a classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from medsanitize.federation.ask.head import MOST_CLASSES, MOST_WIDTH
from medsanitize.federation.messages.sealed import Hex64
from medsanitize.federation.near.terms import MOST_IMAGES
from medsanitize.policies.partners import Ask
from pydantic import BaseModel, ConfigDict, Field, StringConstraints


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ClassTerms(_Payload):
    """What is asked, and what the asking party learns.

    Attributes
    ----------
    model
        Name of the classifier in both policies.
    features
        Digest of the packaged model that computes the features.
    confidence
        Least share of the best class of the probability of the two best.
    contract
        The contract, in the same words in both policies.
    """

    model: Annotated[str, StringConstraints(max_length=64)]
    features: Hex64
    confidence: Annotated[float, Field(ge=0.5, le=0.999, allow_inf_nan=False)]
    contract: Annotated[str, StringConstraints(max_length=200)]


ClassName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class AskHello(_Payload):
    """The asking party's terms, and its number of images."""

    terms: ClassTerms
    images: Annotated[int, Field(ge=1, le=MOST_IMAGES)]


class AskReply(_Payload):
    """The classes of the answering party's classifier, its digest and the length of its embeddings."""

    classes: Annotated[list[ClassName], Field(min_length=2, max_length=MOST_CLASSES)]
    model: Hex64
    width: Annotated[int, Field(ge=1, le=MOST_WIDTH)]


@dataclass(frozen=True, slots=True)
class AskLimits:
    """What this party's policy allows with a partner.

    Attributes
    ----------
    answers, days
        Most images per period, those of searches included.
    """

    answers: int
    days: int


def ask_limits(ask: Ask) -> AskLimits:
    """Return the limits of an agreement."""
    return AskLimits(ask.answers, ask.days)


def class_terms(ask: Ask, model: str, features: str, contract: str) -> ClassTerms:
    """Return the terms of questions to a classifier."""
    return ClassTerms(model=model, features=features, confidence=ask.confidence, contract=contract)
