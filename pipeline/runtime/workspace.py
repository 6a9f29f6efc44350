"""Paths of one release: its output, its staging folder and its files in the state folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medsanitize.policies.model import Policy
from medsanitize.release.dataset_card.budget import CardBudget
from medsanitize.release.layout import STAGING


@dataclass(frozen=True, slots=True)
class Workspace:
    """Folders and files of one release.

    Parameters
    ----------
    state : Path
        The policy's state folder.
    output : Path or str
        The destination of the release: a folder, or the address of a store.
    name, version : str
        Name and version of the release.
    anonymous : bool
        Whether everything that links to patients is deleted with the run.
    """

    state: Path
    output: Path | str
    name: str
    version: str
    anonymous: bool

    @property
    def release(self) -> Path:
        """The local folder of the release; a release for a store is uploaded from it."""
        return self.output if isinstance(self.output, Path) else self._file("release")

    @property
    def staging(self) -> Path:
        """The folder of staged files, readable by its owner only."""
        # Inside the output folder, so that publishing renames files on one file system.
        return self.release / STAGING

    @property
    def database(self) -> Path:
        """The database of the state; every version of a release has its own."""
        return self._file("sqlite")

    @property
    def progress(self) -> Path:
        """How far the run is; the file exists while it runs."""
        return self._file("progress.json")

    @property
    def inventory(self) -> Path:
        """Counts of what the inputs contain, without names and values."""
        return self._file("inventory.json")

    @property
    def pairs(self) -> Path:
        """The table of matched pairs (contains PHI: it links patients across releases)."""
        return self._file("overlap.parquet")

    @property
    def unpacked(self) -> Path:
        """The folder of files from containers, while a run reads them (contains PHI)."""
        return self._file("unpacked")

    @property
    def synthetic_page(self) -> Path:
        """The page on synthetic images (contains PHI: it shows patients)."""
        return self._file("synthetic.html")

    @property
    def values(self) -> Path:
        """The index of the values of the staged objects (one of them may be an identifier that is left)."""
        return self._file("values.sqlite")

    def list_draft(self, name: str) -> Path:
        """Return the path of the draft of a list of the site, ``deny`` or ``allow`` (may contain names)."""
        return self._file(f"{name}-list.txt")

    def review_page(self, number: int = 1) -> Path:
        """Return the path of a review page (contains PHI: values are not encrypted)."""
        return self._file("review.html" if number == 1 else f"review-{number}.html")

    def review_pages(self) -> list[Path]:
        """Return the review pages that exist."""
        return list(self.state.glob(f"{self._file('review').name}*.html"))

    def _file(self, suffix: str) -> Path:
        return self.state / f"{self.name}-{self.version}.{suffix}"


def workspace_of(policy: Policy) -> Workspace:
    """Return the workspace of a policy's release."""
    release = policy.release
    return Workspace(policy.state, policy.output, release.name, release.version, release.mode == "anonymous")


def tries_record(policy: Policy) -> Path:
    """Return the file of tries of the privacy gate; all releases that share pseudonyms share it."""
    if policy.release.mode == "anonymous":
        return policy.state / f"{policy.release.name}-synthesis-anonymous.tries"
    name = "synthesis" if policy.keys.scope == "project" else f"{policy.release.name}-synthesis"
    return policy.state / f"{name}.tries"


def card_budget(policy: Policy) -> CardBudget:
    """Return the ledger of the dataset cards; all releases that share pseudonyms share it."""
    # Releases of one name have the same patients, whatever their mode and keys.
    shared = policy.keys.scope == "project" and policy.release.mode == "pseudonymous"
    return CardBudget(policy.state / ("cards.budget" if shared else f"{policy.release.name}-cards.budget"))


def identity_ledger(policy: Policy) -> Path | None:
    """Return the file of decisions on identities; all releases that share pseudonyms share it.

    None for an anonymous release, whose key is not kept.
    """
    if policy.release.mode == "anonymous":
        return None
    name = "identities" if policy.keys.scope == "project" else f"{policy.release.name}-identities"
    return policy.state / f"{name}.ledger"
