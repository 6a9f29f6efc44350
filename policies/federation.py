"""The files of federated training: the job of the server's keeper, and the policy of each site."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final, Literal

from medsanitize.policies.base import Section, Slug, Text
from medsanitize.policies.dataset_card import CardSection
from medsanitize.policies.partners import LISTEN, PartnerName
from medsanitize.policies.section_file import load_section
from pydantic import Field, StringConstraints

_ADDRESS: Final = r"^https://[A-Za-z0-9.\[\]:-]+/?$"
_MANUAL: Final = "See the manual: Train a model with other hospitals"
Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ModelName = Literal["retrieval", "classification", "calibration", "card"]
Aggregation = Literal["secure", "plain"]
AttackName = Literal["membership", "gradients"]


class Classes(Section):
    """What a classifier predicts."""

    column: Text
    """Column of the sites' tables with the class of each image."""
    names: Annotated[tuple[Text, ...], Field(min_length=2, max_length=1000)]
    """Names of the classes; other images are left out."""


class Privacy(Section):
    """Differential privacy for each patient of a site, all images together."""

    epsilon: Annotated[float, Field(ge=0.01, le=100)]
    """The most that the training may spend."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Delta of this epsilon; smaller than one in the number of patients."""
    clip: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Largest norm of the gradient of a patient in a step."""


class CalibratedModels(Section):
    """Folders of the models whose scores are calibrated."""

    retrieval: Path | None = None
    """Retrieval model; by default the packaged features."""
    verification: Path | None = None
    """Verification model, which then gives the scores; the recipe `gate` needs one."""
    generator: Path | None = None
    """Generator, of the recipe `gate` only: it makes two kinds of the positive controls."""


class RequiredAttack(Section):
    """An attack that the trained model must withstand before it leaves."""

    recognized: Annotated[float, Field(gt=0, lt=1)]
    """The largest upper 95 % bound of the share of training patients that the attacker recognizes."""
    mistaken: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of other patients that the attacker may take for them."""


class RequiredAttacks(Section):
    """Attacks that every site makes with its own patients; only counts of all sites together leave."""

    membership: RequiredAttack | None = None
    """By the likelihood of a patient's classes or, of a retrieval model, the likeness of the images."""
    gradients: RequiredAttack | None = None
    """Of `classification`: by the sum of gradients that the server sees."""


class Job(Section):
    """A federated training or calibration, as the keeper of the server describes it."""

    version: Literal[1]
    """Version of the file."""
    name: Slug
    """Name of the job."""
    party: Path
    """Folder of the keys of the server's party, as `party init` made it, relative to the file."""
    sites: Annotated[tuple[PartnerName, ...], Field(min_length=3)]
    """Names of the sites, whose identities the server's party trusts; at least three."""
    model: ModelName
    """What is trained; `calibration` measures error rates of models that exist, `card` counts patients."""
    recipe: Slug
    """Recipe of the training, such as `moments`; it must be one that needs sums only. Of a calibration:
    `matcher` or `gate`; of a card: `laplace`."""
    kind: Slug = ""
    """Kind of the images, such as `radiograph`; not of a dataset card."""
    output: Path
    """Folder of the model or calibration, relative to the file."""
    state: Path
    """Folder from which an interrupted job resumes, relative to the file."""
    classes: Classes | None = None
    """Of `classification`: what it predicts."""
    models: CalibratedModels | None = None
    """Of `calibration`: the models, whose digests the invitation names."""
    strength: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Of the recipe `gate`: strength of the image-to-image controls."""
    card: CardSection | None = None
    """Of `card`: the tables and epsilon of the joint dataset card; each site's release has its ceiling."""
    privacy: Privacy | None = None
    """Differential privacy, of `classification` only; without it the sums are exact."""
    attacks: RequiredAttacks | None = None
    """Attacks that the model must withstand; otherwise no party writes it."""
    least: Annotated[int, Field(ge=3)] = 3
    """Fewest sites of a sum; three is the least that hides the sites from each other."""
    aggregation: Aggregation = "secure"
    """`secure`: the server sees sums only. `plain`: it sees what each site gives; sites refuse that by
    default."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Seed of splits and draws."""
    most_images: Annotated[int, Field(ge=1, le=10_000_000)] = 1_000_000
    """Most images of all sites together; the precision of the sums follows from it."""
    patience: Annotated[int, Field(ge=1, le=604_800)] = 3600
    """Seconds for which a step waits for a site before it goes on without it, if enough sites are left; more
    than a site needs to compute."""
    listen: Annotated[str, StringConstraints(pattern=LISTEN)] = "127.0.0.1:8443"
    """Address and port of the server."""


class Accepted(Section):
    """What a site agrees to. A job that differs is refused before an image is read."""

    recipes: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Models and recipes, such as `retrieval/moments`."""
    sites: Annotated[tuple[PartnerName, ...], Field(min_length=2)]
    """The other sites that may take part."""
    least: Annotated[int, Field(ge=3)] = 3
    """Fewest sites of a sum."""
    code: Hex64 | None = None
    """Digest of the program of all sites; by default that of this installation."""
    epsilon: Annotated[float, Field(gt=0)] | None = None
    """The largest epsilon; with it, a job without differential privacy is refused."""
    attacks: tuple[AttackName, ...] = ()
    """Attacks that a job must require."""
    plain: bool = False
    """Whether the server may see what this site alone gives."""


class Shared(Section):
    """Patients that a partner has, too."""

    partner: PartnerName
    """Name of the other site."""
    list: Path
    """CSV with a column `file` or `patient_id`: the common items of a private comparison."""


class SitePolicy(Section):
    """What a site gives to a federated training."""

    version: Literal[1]
    """Version of the file."""
    party: Path
    """Folder of this hospital's keys, relative to the file."""
    server: PartnerName
    """Name of the server's party, whose identity is trusted."""
    address: Annotated[str, StringConstraints(pattern=_ADDRESS)]
    """Address of the server, ``https://HOST:PORT``."""
    images: Path | None = None
    """Folder of the images, relative to the file; not for a dataset card."""
    labels: Path | None = None
    """Table of images and patients, relative to the file; not for a dataset card."""
    release: Path | None = None
    """Of a dataset card: policy of the published release whose patients are counted, relative to the file."""
    state: Path
    """Folder from which an interrupted training resumes, relative to the file."""
    output: Path
    """Folder of the model, relative to the file."""
    accept: Accepted
    """What this site agrees to."""
    models: CalibratedModels | None = None
    """Own copies of the models of a calibration; their digests must be those of the invitation."""
    split: Text | None = None
    """Rows of this split only."""
    columns: Annotated[dict[Slug, Text], Field(default_factory=dict)]
    """Names of the table's columns, as `--column` of `train`."""
    shared: tuple[Shared, ...] = ()
    """Patients that a partner has, too: the first of both in the job's order of sites uses them."""


def load_job(path: Path) -> Job:
    """Load and check a job; raises PolicyError with line and column of every problem."""
    loaded = load_section(path, Job, ("party", "output", "state"), "The job is invalid", _MANUAL)
    return loaded.model_copy(update={"models": _placed(loaded.models, path)})


def load_site_policy(path: Path) -> SitePolicy:
    """Load and check the policy of a site; raises PolicyError with line and column of every problem."""
    paths = ("party", "images", "labels", "release", "state", "output")
    loaded = load_section(path, SitePolicy, paths, "The policy of the site is invalid", _MANUAL)
    base = Path(os.path.abspath(path)).parent
    shared = tuple(one.model_copy(update={"list": base / one.list}) for one in loaded.shared)
    return loaded.model_copy(update={"shared": shared, "models": _placed(loaded.models, path)})


def _placed(models: CalibratedModels | None, path: Path) -> CalibratedModels | None:
    """Return the folders relative to the file that names them."""
    if models is None:
        return None
    base = Path(os.path.abspath(path)).parent
    named = {name: base / folder for name, folder in models if folder is not None}
    return models.model_copy(update=named)
