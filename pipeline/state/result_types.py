"""Stage results about the whole set, as frozen dataclasses; ``stage_results`` stores and loads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from medsanitize.pipeline.storage.local import Root
from medsanitize.verifiers.reid.calibration import Rate

Background = Literal["itself", "earlier releases"]


@dataclass(frozen=True, slots=True)
class Walk:
    """Number of objects in the walk of the inputs, and a keyed digest of their names, sizes and times."""

    objects: int
    digest: str


@dataclass(frozen=True, slots=True)
class ExcludedPatients:
    """Number of patients on the list ``exclude``, and how many of them are not in the inputs."""

    listed: int
    not_found: int


@dataclass(frozen=True, slots=True)
class SharedInputs:
    """The inputs as inventoried, and the name of the file that shards look for in staging."""

    roots: tuple[Root, ...]
    mark: str


@dataclass(frozen=True, slots=True)
class RegistryResult:
    """Comparison of the release with the registry.

    Attributes
    ----------
    supersedes
        The version that this release follows.
    public_prior
        Earlier releases with equal objects that the policy allows the release to name.
    links
        Number of equal objects by earlier release and kind of equality; not for publication.
    relies_on
        Name and version of the releases because of which objects were dropped.
    compared
        Number of releases of other names in the registry.
    """

    supersedes: str | None = None
    public_prior: tuple[str, ...] = ()
    links: Mapping[str, int] = field(default_factory=dict)
    relies_on: tuple[tuple[str, str], ...] = ()
    compared: int = 0


@dataclass(frozen=True, slots=True)
class OverlapResult:
    """Result of the comparison with earlier releases.

    Attributes
    ----------
    releases, result
        Number of releases compared, and the verdict over all of them.
    patients, objects
        Number of matching patients of this release, and of their objects that were ruled out or flagged.
    miss
        Upper bound of the probability that a patient in both datasets is missed; None if there is no bound.
    unclear
        Number of inconclusive comparisons.
    sentences, limits
        The verdicts as sentences; the kinds of images that were compared.
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
class AskedPartner:
    """The answers of one partner.

    Attributes
    ----------
    name
        Name of the partner.
    common, session
        The number of common items, and the session of the transcript.
    near, near_session
        The result of the comparison of other images, and its session; empty without one.
    """

    name: str
    common: int
    session: str
    near: str = ""
    near_session: str = ""


@dataclass(frozen=True, slots=True)
class AskedPartners:
    """The answers of all partners that were asked.

    ``compared`` and ``missing`` are the numbers of images with and without a digest of their pixels.
    """

    partners: tuple[AskedPartner, ...]
    compared: int
    missing: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """Originals that synthetic images replace.

    Attributes
    ----------
    objects, patients, labels
        Number of objects dropped, of their patients, and of objects by label (if known).
    named, unlabeled
        If labels decide: number of images in the label table, and of those without a label.
    """

    objects: int = 0
    patients: int = 0
    labels: Mapping[str, int] = field(default_factory=dict)
    named: int = 0
    unlabeled: int = 0


@dataclass(frozen=True, slots=True)
class Attacked:
    """A linkage attack on whole images of one modality.

    Attributes
    ----------
    modality
        ``radiograph`` or ``slide``.
    background
        Source of the attacker's images of known patients.
    rate
        Rs: share of patients to whom at least one image was assigned, with exact bounds.
    """

    modality: str
    background: Background
    rate: Rate

    @property
    def sentence(self) -> str:
        """Sentence for the public report."""
        who = "with two images or more" if self.background == "itself" else "who are also in earlier releases"
        return (
            f"Linked by their {self.modality}s, of patients {who}: {self.rate.errors:,} of"
            f" {self.rate.of:,} (Rs {self.rate.share:.3f}, at most {self.rate.upper:.1%} at 95 % confidence)."
        )


@dataclass(frozen=True, slots=True)
class Attacks:
    """The linkage attacks on a release.

    Attributes
    ----------
    made
        One per modality and background for which patients could be linked.
    images
        Number of released images per modality.
    unread
        Number of images that no model could read.
    """

    made: tuple[Attacked, ...] = ()
    images: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0

    def with_others(self) -> Mapping[str, Rate]:
        """Return the rates of the attacks with earlier releases, by modality."""
        return {one.modality: one.rate for one in self.made if one.background == "earlier releases"}

    def left(self, attacked: Collection[str]) -> int:
        """Return the number of images outside attacks on these modalities."""
        return self.unread + sum(count for kind, count in self.images.items() if kind not in attacked)


@dataclass(frozen=True, slots=True)
class TableNotes:
    """Number of cells and rows removed from an accompanying table."""

    cells: int
    rows_dropped: int


@dataclass(frozen=True, slots=True)
class Judgment:
    """The ending of a run, and the digest of what it staged."""

    ending: str
    digest: str


@dataclass(frozen=True, slots=True)
class PendingReview:
    """A review in progress: ID of its pages, digest they show, and digest that may be approved there.

    ``others`` are the IDs of further pages of this digest: several persons decide at the same time.
    """

    page: str
    digest: str
    approve: str | None
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Approvals:
    """A staged release, and the persons who approved it."""

    digest: str
    reviewers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication in progress: public summary (JSON), digest of staging, and digests of staged files."""

    summary: str
    digest: str
    vouchers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ValidityResult:
    """The comparison of released objects with their sources by foreign readers.

    Attributes
    ----------
    concerned : int
        Released DICOM objects.
    checked, pixels : int
        Objects that a validator read before and after, and whose pixels were compared.
    validators : mapping
        Name of a validator -> number of objects that it read before and after.
    quarantined : int
        Objects with an error that their source has not, or with other pixels.
    introduced, kept : mapping
        SOP Class UID -> kind of error -> number; errors of the release only, and of both.
    """

    concerned: int
    checked: int
    pixels: int
    validators: Mapping[str, int]
    quarantined: int
    introduced: Mapping[str, Mapping[str, int]]
    kept: Mapping[str, Mapping[str, int]]
