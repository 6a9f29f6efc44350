"""What stages store of the whole set, as frozen dataclasses; `stage_results` says who reads which."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from medsanitize.pipeline.storage.local import Root
from medsanitize.verifiers.reid.calibration import Rate

Background = Literal["itself", "earlier releases"]


@dataclass(frozen=True, slots=True)
class Walk:
    """Number of objects in the walk of the inputs, and keyed digest of their names, sizes and times."""

    objects: int
    digest: str


@dataclass(frozen=True, slots=True)
class ExcludedPatients:
    """Patients that the list ``exclude`` names, and how many of them are not in the inputs."""

    listed: int
    not_found: int


@dataclass(frozen=True, slots=True)
class SharedInputs:
    """The inputs as the inventory read them, and the name of the file that shards look for in staging."""

    roots: tuple[Root, ...]
    mark: str


@dataclass(frozen=True, slots=True)
class RegistryResult:
    """What the registry says of the release.

    Attributes
    ----------
    supersedes
        The version that this release follows.
    public_prior
        Earlier releases with equal objects that the policy lets the release name.
    links
        Number of equal objects by earlier release and kind of equality; not for publication.
    relies_on
        Name and version of the releases for whose sake objects were dropped.
    """

    supersedes: str | None = None
    public_prior: tuple[str, ...] = ()
    links: Mapping[str, int] = field(default_factory=dict)
    relies_on: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class OverlapResult:
    """What the comparison with earlier releases found.

    Attributes
    ----------
    releases, result
        How many were compared, and the verdict over all of them.
    patients, objects
        Patients of this release who match, and their objects that were ruled out or flagged.
    miss
        Upper bound of the chance that a patient in both is overlooked; None where it is not bounded.
    unclear
        Comparisons that bear no conclusion.
    sentences, limits
        The verdicts in words; the kinds of images that were compared.
    """

    releases: int
    result: str = ""
    patients: int = 0
    objects: int = 0
    miss: float | None = None
    unclear: int = 0
    sentences: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replaced:
    """What became of the originals.

    Attributes
    ----------
    objects, patients, labels
        How many were dropped, of how many patients, and how many of each label (if known).
    named, unlabelled
        Where labels decide: images that the table names, and images that it gives no label to.
    """

    objects: int = 0
    patients: int = 0
    labels: Mapping[str, int] = field(default_factory=dict)
    named: int = 0
    unlabelled: int = 0


@dataclass(frozen=True, slots=True)
class Attacked:
    """An attack by whole images of one kind.

    Attributes
    ----------
    modality
        ``radiograph`` or ``slide``.
    background
        Where the attacker's images of known patients come from.
    rate
        Rs: the share of patients with an image that went to them, with exact bounds.
    """

    modality: str
    background: Background
    rate: Rate

    @property
    def told(self) -> str:
        """A public sentence."""
        who = "with two images or more" if self.background == "itself" else "who are in earlier releases too"
        return (
            f"Linked by the look of a {self.modality}, of patients {who}: {self.rate.errors:,} of"
            f" {self.rate.of:,} (Rs {self.rate.share:.3f}, at most {self.rate.upper:.1%} at 95 % confidence)."
        )


@dataclass(frozen=True, slots=True)
class Attacks:
    """The attacks on a release.

    Attributes
    ----------
    made
        One for each kind of image and background, where anybody could be linked.
    images
        How many images of each kind are released.
    unread
        How many no model could read.
    """

    made: tuple[Attacked, ...] = ()
    images: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0

    def with_others(self) -> Mapping[str, Rate]:
        """Rates of the attacks with earlier releases, by kind of image."""
        return {one.modality: one.rate for one in self.made if one.background == "earlier releases"}

    def left(self, attacked: Collection[str]) -> int:
        """Images that took no part where these kinds were attacked."""
        return self.unread + sum(count for kind, count in self.images.items() if kind not in attacked)


@dataclass(frozen=True, slots=True)
class TableNotes:
    """What was left out of an accompanying table."""

    cells: int
    rows_dropped: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """How the run ended, and the digest of what it staged."""

    ending: str
    digest: str


@dataclass(frozen=True, slots=True)
class PendingReview:
    """The pages of a review: their id, the digest they are of, and the digest that may be approved there."""

    page: str
    digest: str
    approve: str | None


@dataclass(frozen=True, slots=True)
class Publication:
    """What is being published: the public account (JSON), its staged digest, and vouchers of staged files."""

    summary: str
    digest: str
    vouchers: Mapping[str, str]
