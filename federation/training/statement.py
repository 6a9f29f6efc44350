"""What each party of a federated training learns, in words."""

from __future__ import annotations

from medsanitize.federation.training.invitation import Invitation


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
    return (
        f"The server and the {sites} sites see sums of statistics over at least {threshold} sites, never"
        " those of one site; images, embeddings and patient identifiers stay at the sites. With"
        f" {threshold} sites, one colluder sees the sum of {few}. Sums over few patients still tell"
        " something about them: secure aggregation hides the site, not what all sites show together, and"
        " gives no differential privacy. The server is trusted to send the same state to all; a site that"
        " invents its images can spoil the model."
    )
