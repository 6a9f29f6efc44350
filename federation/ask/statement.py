"""The statement of what each party learns from questions about single images."""

from __future__ import annotations

from collections.abc import Sequence

from medsanitize.federation.private_overlap.statement import ASSUMPTIONS
from medsanitize.policies.partners import Ask

UNSURE = "unsure"


def class_statement(partner: str, models: Sequence[str], confidence: float) -> str:
    """State what each party learns when a classifier of a partner is asked."""
    if confidence > 0.5:
        told = (
            f"the class if it has at least {confidence:.3g} of the probability of the two best, or {UNSURE}"
        )
    else:
        told = f"the most probable class, or {UNSURE} where two are equal"
    return (
        f"Of each image that it asks about, this party learns {told} by {partner}'s classifier"
        f" {' or '.join(models)}; of the classifier the names of its classes, its digest and the length of"
        f" its embeddings. {partner} learns the number of images and the classifier asked, and nothing about"
        " images or answers. Nobody learns features, weights or scores. Answers tell about the classifier"
        f" and, little by little, its training images: their number is limited. {ASSUMPTIONS}"
    )


def search_statement(partner: str) -> str:
    """State what each party learns from a search among the patients of a partner."""
    return (
        f"Of each image that it asks about, this party learns whether it matches a patient of {partner}, and"
        f" of {partner} the number of patients, the distance of a match and its error bounds; {partner}"
        " learns the number of images, and nothing about the result. Nobody learns embeddings or scores, or"
        f" which patient matches. A match tells that the patient was at {partner}. {ASSUMPTIONS}"
    )


def ask_statement(partner: str, ask: Ask) -> str:
    """State what an agreement on questions reveals."""
    parts = [class_statement(partner, ask.models, ask.confidence)] if ask.models else []
    parts += [search_statement(partner)] if ask.search else []
    return " ".join(parts)
