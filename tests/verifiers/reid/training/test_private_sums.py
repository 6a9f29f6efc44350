"""A classifier with differential privacy from sums of three sites: noise, sampling, limits and statement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels

pytestmark = [pytest.mark.dp, pytest.mark.verify]
SITES, STEPS = 3, 4


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory):
    from medsanitize.verifiers.reid.training.linear_sums import ClassifiedSite
    from medsanitize.verifiers.reid.training.training_dataset import gather_images

    root: Path = tmp_path_factory.mktemp("chests")
    table = write_chests(root / "images", range(12), visits=(2, 2), size=128)
    labels = read_labels(table, table.parent, LabelColumns()).of_kind(Modality.RADIOGRAPH)
    examples, _ = gather_images(labels, NoProgress(), Cancellation())
    classes = (examples.patients % 2).astype(np.int64)
    found = []
    for place in range(SITES):
        own = examples.patients % SITES == place
        parts = [np.flatnonzero(own & chosen) for chosen in (examples.patients < 9, examples.patients >= 9)]
        found.append(
            ClassifiedSite(
                examples.part(parts[0]), examples.part(parts[1]), root / "features", NoProgress(),
                Cancellation(), classes[parts[0]], classes[parts[1]],
            )
        )  # fmt: skip
    return found


def training_of(epsilon: float = 4.0, key: bytes | None = b"k" * 32, dimension: int = 200):
    from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey
    from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe
    from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget
    from medsanitize.verifiers.reid.training.private_sums import PrivateLinearSums, PrivateTerms

    recipe = LinearRecipe(dimension=dimension, epochs=STEPS)
    terms = PrivateTerms(PrivacyBudget(epsilon, 1e-3), 0.5, SITES)
    own = None if key is None else NoiseKey(key)
    return PrivateLinearSums(recipe, Modality.RADIOGRAPH, 2, 1000, terms, own)


def test_a_training_ends_with_a_model_and_its_bound(sites) -> None:
    from medsanitize.verifiers.reid.training.sums import COUNTS

    server = training_of(key=None)
    members = [training_of(key=bytes([place]) * 32) for place in range(SITES)]
    state, number, asked = server.start(), 0, set[str]()
    while wanted := server.asked(state):
        sent = {name: value for name, value in state.items() if not name.startswith("server.")}
        parts = [one.contribution(sent, site, number) for one, site in zip(members, sites, strict=True)]
        assert all(
            (np.abs(part[name]) <= wanted[name].bound / SITES).all() for part in parts for name in wanted
        )
        state = server.following(state, {name: sum(part[name] for part in parts) for name in wanted})
        number += 1
        asked |= set(wanted)
    # Exact figures of held-out patients would not be covered by epsilon.
    assert {name for name in asked if not name.startswith("gradient.")} == set(COUNTS)
    assert number == STEPS + 1
    learned = server.trained(state)
    assert all(value.abs().sum() > 0 for value in learned.score.values())
    facts = server.plan(state).facts()
    assert facts["patients"] == 9
    # Both accountants are within the ceiling, agree, and Rényi is looser.
    assert facts["spent"]["pld"] <= 4.0
    assert facts["spent"]["prv"] == pytest.approx(facts["spent"]["pld"], rel=0.05)
    assert facts["spent"]["rdp"] >= facts["spent"]["pld"]


def noise_of(training, site, number: int):
    """What a site without patients sends: its share of the noise."""
    state = {
        "phase": np.array(1.0),
        "classes": np.zeros((2, training.recipe.dimension)),
        "bias": np.zeros(2),
        "step": np.array(0.0),
        "fit_patients": np.array(9.0),
    }
    nobody = replace(site, fit=site.fit.part(np.zeros(0, np.intp)), fit_classes=np.zeros(0, np.int64))
    return training.contribution(state, nobody, number)["gradient.classes"]


def test_the_noise_suffices_without_that_of_one_site(sites) -> None:
    members = [training_of(key=bytes([place]) * 32) for place in range(SITES)]
    shares = [noise_of(one, sites[0], 1) for one in members]
    wanted = members[0].mechanism.noise * 0.5
    for left_out in range(SITES):
        rest = sum(share for place, share in enumerate(shares) if place != left_out)
        # 400 numbers: their deviation is known to 3.5 %.
        assert rest.std() == pytest.approx(wanted, rel=0.12)


def test_a_repeated_round_has_the_same_noise_and_another_one_has_not(sites) -> None:
    one = training_of()
    assert np.array_equal(noise_of(one, sites[0], 1), noise_of(one, sites[0], 1))
    assert not np.isin(noise_of(one, sites[0], 1), noise_of(one, sites[0], 2)).any()


@pytest.mark.parametrize("number", [0, STEPS + 1])
def test_a_site_gives_no_more_steps_than_the_bound_allows(number: int, sites) -> None:
    with pytest.raises(IntegrityError, match="more steps"):
        noise_of(training_of(), sites[0], number)


def test_a_smaller_epsilon_has_more_noise() -> None:
    assert training_of(1.0).mechanism.noise > 1.5 * training_of(4.0).mechanism.noise


def test_a_delta_that_would_allow_to_publish_a_patient_is_refused() -> None:
    with pytest.raises(UsageError, match="Delta is not smaller"):
        training_of().plan({"fit_patients": np.array(1000.0)})
