"""The command `registry search`: asks the registries of partners for counts of common items only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.private_overlap import PartnerRow, agreement_with, ask_partners, partners_of
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation, Progress


def search_registries(
    policy: Policy, release: Path, partners: Sequence[str], progress: Progress, cancellation: Cancellation
) -> tuple[PartnerRow, ...]:
    """Ask partners in turn whether they have items of a release; each question counts against its budget.

    Parameters
    ----------
    policy : Policy
        The policy with the agreements.
    release : Path
        The release.
    partners : sequence of str
        Names or addresses of partners; none means all of them.
    progress, cancellation
        Progress and cancellation.

    Raises
    ------
    UsageError
        There is no such agreement or release, or an agreement reveals more than counts.
    """
    check_extra("party")
    section = partners_of(policy)
    chosen = [agreement_with(section, one) for one in partners] or list(section.agreements)
    # Before any is asked: a question that is paid for and refused afterwards would be lost.
    for one in chosen:
        if one.reveal == "items" or (one.near is not None and one.near.reveal == "patients"):
            raise UsageError(
                f"The agreement with {one.partner} reveals which items or patients are common; a search of"
                " registries learns counts only",
                "Use overlap --with, or agree on counts",
            )
        if one.address is None:
            raise UsageError(
                f"The agreement with {one.partner} names no address",
                "Write partners.agreements.address, or compare with overlap --offline FOLDER",
            )
    names = [one.partner for one in chosen]
    return ask_partners(
        policy, release, names, offline=None, output=None, progress=progress, cancellation=cancellation
    )
