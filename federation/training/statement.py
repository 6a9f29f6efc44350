"""What each party of a federated training learns, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from medsanitize.federation.training.calibrated_models import GATE
from medsanitize.federation.training.invitation import Invitation

_GENERATOR: Final = (
    " Every site has the generator, which has passed no gate: it can be searched for training images."
)


def statement_of(invitation: Invitation) -> str:
    """State what the server and the sites of a job learn."""
    sites = len(invitation.sites)
    threshold = invitation.aggregation(0).threshold
    if invitation.terms["aggregation"] == "plain":
        return (
            f"Without secure aggregation, the server sees the statistics of each of the {sites} sites. Images"
            " and embeddings stay at the sites."
        )
    few = "two" if threshold == 3 else str(threshold - 1)
    protection = _protection(invitation.terms)
    return (
        f"The server and the {sites} sites see sums of statistics over at least {threshold} sites, never"
        " those of one site; images, embeddings and patient identifiers stay at the sites. With"
        f" {threshold} sites, one colluder sees the sum of {few}. Sums over few patients still tell"
        " something about them: secure aggregation hides the site, not what all sites show together,"
        f" {protection}. The server is trusted to send the same state to all; a site that"
        " invents its images can spoil the model."
        + (_GENERATOR if invitation.terms["recipe"] == GATE else "")
    )


def _protection(terms: Mapping[str, Any]) -> str:
    if terms["card"] is not None:
        return (
            f"for which there is differential privacy, epsilon {terms['card']['epsilon']:g} at delta 0 for"
            " each patient of a site"
        )
    promised = terms["privacy"]
    if promised is None:
        return "and gives no differential privacy"
    return (
        f"for which there is differential privacy, epsilon {promised['epsilon']:g} at delta"
        f" {promised['delta']:.0e} for each training patient of a site"
    )


def privacy_sentence(facts: Mapping[str, Any]) -> str:
    """State what a private training has spent, for the card of its model.

    Parameters
    ----------
    facts : mapping
        From ``PrivacyPlan.facts``.
    """
    spent = facts["spent"]
    return (
        f"Differential privacy for each {facts['unit']} of the training part of a site, all images together:"
        f" epsilon {spent['pld']:.2f} at delta {facts['delta']:.0e} (ceiling {facts['epsilon']:g}) by privacy"
        f" loss distributions, {spent['prv']:.2f} by privacy random variables, {spent['rdp']:.2f} by Rényi"
        f" divergences, which are looser; {facts['steps']} steps, each patient with probability"
        f" {facts['sampling_rate']:g}, gradients clipped to {facts['clip']:g}, noise multiplier"
        f" {facts['noise_multiplier']:.3f}. Every site adds a share of the noise, large enough that the"
        " bound holds without the share of any one of them. The numbers of images and patients have no noise."
    )
