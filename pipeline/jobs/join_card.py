"""What a site gives to the joint dataset card of a federation: the counts of its published release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.federation.training.card import CardSite, FederatedCard
from medsanitize.federation.training.site import Site
from medsanitize.pipeline.jobs.make_dataset_card import released_counts
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.pipeline.runtime.workspace import card_budget
from medsanitize.policies.dataset_card import CardSection
from medsanitize.policies.model import Policy

_DEFAULT_CEILING = CardSection(epsilon=1).ceiling


def card_site(site: Site) -> Callable[[], CardSite]:
    """Return what counts the released patients of a site, after its policy was loaded and checked.

    Raises
    ------
    UsageError
        The policy of the site names no release, or patients whom other sites have.
    """
    from medsanitize.verifiers.reid.training.keyed_noise import kept_key

    check_extra("card")
    policy = _policy(site)

    def counted() -> CardSite:
        section = FederatedCard(site.invitation).section
        counts = released_counts(policy, section)
        own = policy.release.card
        ceiling = _DEFAULT_CEILING if own is None else own.ceiling
        return CardSite(counts, kept_key(site.folder).secret, card_budget(policy), ceiling)

    return counted


def _policy(site: Site) -> Policy:
    from medsanitize.policies.load import load

    named: Path | None = site.policy.release
    if named is None:
        raise UsageError(
            "The policy of this site names no release whose patients are counted",
            "Write release: ./policy.yaml, the policy of a published release",
        )
    if site.policy.shared:
        raise UsageError(
            "A joint dataset card counts a patient at each hospital: patients cannot be left out by a list",
            "Leave out the section shared",
        )
    return load(named)
