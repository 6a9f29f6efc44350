"""Policy section for private comparisons with other hospitals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from medsanitize.policies.base import Section, Slug
from pydantic import Field, StringConstraints

PartnerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
_ADDRESS = r"^https://[A-Za-z0-9.\[\]:-]+/?$"
LISTEN: Final = r"^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$"


class Near(Section):
    """Comparison of other images of the same patients, by a retrieval model under two-party computation. The
    partner's policy must say the same, but for the paths.
    """

    kind: Annotated[str, StringConstraints(pattern=r"^[a-z]+(-[a-z]+)?$")] = "radiograph"
    """Kind of the images that are compared, such as `radiograph` or `mr-head`; also of images whose header
    states none."""
    model: Path | None = None
    """Folder of the retrieval model, equal at both parties; by default packaged ImageNet features, which are
    much weaker."""
    reveal: Literal["bit", "count", "patients"] = "bit"
    """What the asking party learns: whether any patient matches, how many do, or which of its own."""
    largest: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Most patients of either party."""


class Ask(Section):
    """Questions about single images that the answering party never sees, by two-party computation (command
    `ask`). The partner's policy must say the same, but for the paths.
    """

    kind: Annotated[str, StringConstraints(pattern=r"^[a-z]+(-[a-z]+)?$")] = "radiograph"
    """Kind of the images, such as `radiograph` or `mr-head`; also of images whose header states none."""
    models: tuple[Slug, ...] = ()
    """Names of the classifiers that may be asked; the answering party names their folders in
    `partners.classifiers`. The asking party learns the class of each image."""
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.5
    """The class is told if it has at least this share of the probability of the two most probable classes;
    otherwise `unsure`. With 0.5 the most probable class is told, unless two are equal."""
    search: bool = False
    """Also answers whether an image matches any patient of the answering party's release; nothing else."""
    retrieval: Path | None = None
    """Folder of the retrieval model of the search, equal at both parties; by default packaged ImageNet
    features, which are much weaker."""
    answers: Annotated[int, Field(ge=1, le=100_000)] = 100
    """Most images per period, of all classifiers and searches, in both directions together."""
    days: Annotated[int, Field(ge=1, le=3660)] = 30
    """The period in days."""


class Agreement(Section):
    """What is compared with one partner. The partner's policy must say the same, but for the address."""

    partner: PartnerName
    """Name in the partner's identity file, which `party trust` has accepted."""
    address: Annotated[str, StringConstraints(pattern=_ADDRESS)] | None = None
    """Address of the partner's server, ``https://HOST:PORT``; without it messages travel as files."""
    compare: tuple[Literal["pixels", "files", "patients"], ...] = ("pixels",)
    """What is compared: the decoded pixels of released images; the source files of released objects, byte for
    byte, which are read again; patient identifiers of the sources, which need a `contract`."""
    reveal: Literal["count", "items"] = "count"
    """What the asking party learns: how many items are common, or which of its own."""
    contract: Annotated[str, StringConstraints(max_length=200)] = ""
    """The contract that allows to compare patient identifiers, in the same words in both policies."""
    near: Near | None = None
    """Also compares other images of the same patients; needs an address, and `party install --near`."""
    ask: Ask | None = None
    """Also answers questions about single images; needs an address, and `party install --near`."""
    smallest: Annotated[int, Field(ge=1)] = 20
    """Fewest items of either party: a smaller set would single out patients."""
    largest: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000
    """Most items of either party."""
    runs: Annotated[int, Field(ge=1, le=1000)] = 5
    """Most comparisons with the partner per period, in both directions together."""
    days: Annotated[int, Field(ge=1, le=3660)] = 30
    """The period in days."""


class Partners(Section):
    """Private comparisons with other hospitals: whether releases share items, and nothing else."""

    party: Path
    """Folder of this hospital's keys, as `party init` made it."""
    agreements: Annotated[tuple[Agreement, ...], Field(min_length=1)]
    """What is compared with whom."""
    classifiers: dict[Slug, Path] = Field(default_factory=dict)
    """Folders of the classifiers that this party answers with (`train classifier --recipe frozen`), by the
    name in `agreements.ask.models`."""
    action: Literal["flag", "fail"] = "fail"
    """Action of a run if an item or, with `near`, patients are common with a partner that it can reach:
    ``fail`` publishes nothing."""
    listen: Annotated[str, StringConstraints(pattern=LISTEN)] = "127.0.0.1:8443"
    """Address and port of `party serve`."""
