"""What a model with differential privacy promises, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def privacy_statement(facts: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Sentences of a report; none for a model without differential privacy.

    Parameters
    ----------
    facts
        From ``PrivacyPlan.facts``, as in the configuration of a generator.
    """
    if facts is None:
        return ()
    spent = facts["spent"]
    return (
        f"The generator was trained with differential privacy for each {facts['unit']}, all images together:"
        f" epsilon {spent['pld']:.2f} at delta {facts['delta']:.0e} (ceiling {facts['epsilon']:g}), by"
        f" privacy loss distributions; {spent['prv']:.2f} by privacy random variables, {spent['rdp']:.2f} by"
        f" Rényi divergences, which are looser. {facts['steps']:,} steps, each patient with probability"
        f" {facts['sampling_rate']:.4f}, gradients clipped to {facts['clip']:g}, noise multiplier"
        f" {facts['noise_multiplier']:.3f}.",
    )


def privacy_cost(facts: Mapping[str, Any]) -> str:
    """What the noise does to a training, in a sentence; it is learned from no patient."""
    share = facts["noise_multiplier"] / (facts["sampling_rate"] * facts["patients"])
    return (
        f"Its cost: in each step, the noise of a single weight is {share:.2%} of the largest gradient of all"
        " weights together. The images are much worse than without --epsilon (measured in"
        " docs/generators.md): look at samples.png."
    )
