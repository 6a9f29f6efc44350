"""Attacks that a job requires: a model that remembers its patients is not written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import ModelRefused, UsageError
from medsanitize.federation.parties.identity import create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.training.invitation import Invitation, invite
from medsanitize.federation.training.site import check_accepted
from medsanitize.federation.training.training import FederatedTraining
from medsanitize.policies.federation import Accepted, Job, SitePolicy
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.images.image import Modality
from numpy.typing import NDArray

pytestmark = [pytest.mark.federated, pytest.mark.verify]
NAMES = ("north", "south", "east")
PATIENTS = 24
CLASSES = ("a", "b")


def invitation(folder: Path, **terms: Any) -> Invitation:
    for name in ("server", *NAMES):
        create_party(folder / name, name)
    server = open_party(folder / "server")
    for name in NAMES:
        identity = open_party(folder / name).identity
        trust_partner(server, folder / name / "identity.json", identity.fingerprint)
    job = {
        "version": 1, "name": "attacked", "party": folder / "server", "sites": NAMES,
        "model": "classification", "recipe": "frozen", "kind": "radiograph", "most_images": 1000,
        "classes": {"column": "c", "names": CLASSES}, "output": folder / "model", "state": folder / "job",
    }  # fmt: skip
    return invite(Job.model_validate({**job, **terms}), server)


def site(folder: Path, place: int, signal: float) -> Any:
    """A site whose images have drawn features, with a signal of their class, in the cache of features."""
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval
    from medsanitize.verifiers.reid.training.feature_cache import cached_features, name_of
    from medsanitize.verifiers.reid.training.linear_sums import ClassifiedSite
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset

    model = packaged_retrieval(Modality.RADIOGRAPH)
    draw = np.random.default_rng(place)
    parts: list[TrainingDataset] = []
    classes: list[NDArray[np.int64]] = []
    for name in ("fit", "validation"):
        patients = np.arange(PATIENTS)
        paths = tuple(folder / f"{name}-{place}-{patient}" for patient in patients)
        parts.append(TrainingDataset(paths, patients, Modality.RADIOGRAPH, f"{name}-{place}"))
        classes.append(draw.integers(0, 2, PATIENTS))
        drawn = draw.normal(size=(PATIENTS, model.dimension))
        drawn[:, 0] += signal * (2 * classes[-1] - 1)
        unit = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
        cache = folder / "features" / f"{name_of(parts[-1], model.digest)}.rows"
        cache.parent.mkdir(exist_ok=True)
        cached_features(
            cache, unit.shape, 1, lambda rows, unit=unit: unit[rows.start : rows.stop],
            NoProgress(), Cancellation(),
        )  # fmt: skip
    return ClassifiedSite(*parts, folder / "features", NoProgress(), Cancellation(), *classes)


def trained(invited: Invitation, sites: Sequence[Any]) -> tuple[FederatedTraining, Mapping[str, Any]]:
    """Train by a recipe that learns by heart where features are noise: many directions, no early end."""
    from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe
    from medsanitize.verifiers.reid.training.linear_sums import LinearSums

    recipe = LinearRecipe(dimension=16, epochs=6, patience=100, rate=1e-2)
    training = FederatedTraining(invited, LinearSums(recipe, Modality.RADIOGRAPH, len(CLASSES), 1000))
    state: Mapping[str, Any] = training.sums.start()
    number = 0
    while training.asked(state):
        sent = {name: value for name, value in state.items() if not name.startswith("server.")}
        total = np.sum([training.contribution(sent, one, number) for one in sites], axis=0, dtype=np.uint64)
        assert total.shape == (training.length(state),)
        state, number = training.following(state, total), number + 1
    return training, state


STRICT = {"membership": {"recognized": 0.3}, "gradients": {"recognized": 0.3}}


def test_a_model_that_remembers_its_patients_is_not_written(tmp_path: Path) -> None:
    invited = invitation(tmp_path, attacks=STRICT)
    training, state = trained(invited, [site(tmp_path, place, 0.0) for place in range(3)])
    assert training.attacks is not None
    gradients = training.attacks.results(state)[1]
    assert (gradients.found.members, gradients.found.others) == (3 * PATIENTS, 3 * PATIENTS)
    assert gradients.found.chance < 0.001
    with pytest.raises(ModelRefused, match="gradients: at most"):
        training.save(state, tmp_path / "model", "statement")
    assert not (tmp_path / "model").exists()


def test_the_card_of_a_model_that_withstands_has_the_figures(tmp_path: Path) -> None:
    lenient = {"membership": {"recognized": 0.9, "mistaken": 0.2}}
    invited = invitation(tmp_path, attacks=lenient)
    training, state = trained(invited, [site(tmp_path, place, 5000.0) for place in range(3)])
    training.save(state, tmp_path / "model", "statement")
    facts = json.loads((tmp_path / "model" / "training.json").read_text())["attacks"]["membership"]
    assert (facts["members"], facts["others"], facts["passed"]) == (3 * PATIENTS, 3 * PATIENTS, True)
    assert facts["mistaken"] <= 0.2 * facts["others"]
    assert facts["share"] <= facts["upper"] <= facts["permitted"] == 0.9
    card = next((tmp_path / "model").glob("*.md")).read_text()
    assert f"{facts['recognized']} of {facts['members']} training patients recognized" in card


def test_attacks_and_differential_privacy_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no epsilon covers"):
        invitation(tmp_path, attacks=STRICT, privacy={"epsilon": 8})


def test_a_recipe_without_gradients_cannot_be_attacked_by_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no gradients"):
        invitation(tmp_path, attacks=STRICT, model="retrieval", recipe="moments", classes=None)


def test_a_site_can_insist_on_attacks(tmp_path: Path) -> None:
    policy = SitePolicy(
        version=1, party=tmp_path, server="server", address="https://127.0.0.1:1", images=tmp_path,
        labels=tmp_path, state=tmp_path, output=tmp_path, columns={},
        accept=Accepted(
            recipes=("classification/frozen",), sites=("south", "east"), attacks=("membership", "gradients")
        ),
    )  # fmt: skip
    check_accepted(policy, invitation(tmp_path / "all", attacks=STRICT), "north")
    one = invitation(tmp_path / "one", attacks={"membership": {"recognized": 0.3}})
    with pytest.raises(UsageError, match="without the attacks membership, gradients"):
        check_accepted(policy, one, "north")


CARD = {"epsilon": 100.0}
SMALL = {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0}


@pytest.mark.parametrize(
    ("model", "terms"),
    [
        ("calibration/matcher", {"privacy": SMALL}),
        ("card/laplace", {"privacy": SMALL, "card": CARD}),
        ("classification/frozen", {"privacy": SMALL, "attacks": STRICT}),
        ("classification/frozen", {"privacy": SMALL, "aggregation": "plain"}),
        ("classification/frozen", {"card": {"epsilon": 1.0}}),
    ],
)
def test_an_epsilon_that_the_job_does_not_keep_is_none(
    tmp_path: Path, model: str, terms: Mapping[str, Any]
) -> None:
    """Only a server of another program signs such terms; a site must not trust that its own would not."""
    policy = SitePolicy(
        version=1, party=tmp_path, server="server", address="https://127.0.0.1:1", state=tmp_path,
        output=tmp_path, columns={},
        accept=Accepted(recipes=(model,), sites=("south", "east"), epsilon=8, plain=True),
    )  # fmt: skip
    good = invitation(tmp_path, privacy=SMALL)
    kind, recipe = model.split("/")
    bad = replace(good, terms={**good.terms, "privacy": None, "model": kind, "recipe": recipe, **terms})
    with pytest.raises(UsageError, match="epsilon above 8"):
        check_accepted(policy, bad, "north")


def test_a_card_needs_the_noise_of_other_sites(tmp_path: Path) -> None:
    policy = SitePolicy(
        version=1, party=tmp_path, server="server", address="https://127.0.0.1:1", state=tmp_path,
        output=tmp_path, columns={},
        accept=Accepted(recipes=("card/laplace",), sites=("south", "east"), plain=True),
    )  # fmt: skip
    good = invitation(tmp_path)
    terms = {"model": "card", "recipe": "laplace", "card": CARD, "aggregation": "plain"}
    with pytest.raises(UsageError, match="sees this site's statistics"):
        check_accepted(policy, replace(good, terms={**good.terms, **terms}), "north")


@pytest.mark.parametrize(
    "terms",
    [
        {"card": CARD},
        {"privacy": SMALL, "attacks": STRICT},
        {"model": "calibration", "recipe": "matcher", "privacy": SMALL},
        {"model": "card", "recipe": "laplace", "card": CARD, "attacks": STRICT},
    ],
)
def test_a_site_refuses_a_job_that_does_not_read_what_it_names(
    tmp_path: Path, terms: Mapping[str, Any]
) -> None:
    policy = SitePolicy(
        version=1, party=tmp_path, server="server", address="https://127.0.0.1:1", state=tmp_path,
        output=tmp_path, columns={},
        accept=Accepted(
            recipes=("classification/frozen", "calibration/matcher", "card/laplace"),
            sites=("south", "east"),
        ),
    )  # fmt: skip
    good = invitation(tmp_path)
    check_accepted(policy, good, "north")
    with pytest.raises(UsageError, match="what its model does not read"):
        check_accepted(policy, replace(good, terms={**good.terms, **terms}), "north")
