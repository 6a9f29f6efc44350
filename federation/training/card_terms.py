"""What a job for a joint dataset card must say."""

from __future__ import annotations

from typing import Final

from medsanitize.errors import UsageError
from medsanitize.policies.federation import Job

RECIPE: Final = "card/laplace"


def check_card(job: Job) -> None:
    """Raise UsageError where a job and its section card do not fit together."""
    if (job.model == "card") != (job.card is not None):
        raise UsageError("A job for a dataset card has the section card, and no other job does")
    if job.card is None:
        return
    if f"card/{job.recipe}" != RECIPE:
        raise UsageError("A joint dataset card has the recipe laplace", "Correct its recipe")
    if job.aggregation != "secure" or job.classes is not None:
        raise UsageError(
            "A joint dataset card has no classes, and needs secure aggregation: the noise of one site is not"
            " enough",
            "Leave out aggregation and classes",
        )
