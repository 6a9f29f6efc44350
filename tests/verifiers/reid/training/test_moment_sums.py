"""Recipe moments from sums of three sites: the model of all images together, and its calibration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels
from numpy.typing import NDArray

pytestmark = pytest.mark.verify
SITES = 3


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chests(tmp_path_factory.mktemp("chests"), range(15), visits=(2, 2), size=128)


def recipe():
    from medsanitize.verifiers.reid.training.second_order_pooling import MomentsRecipe

    return MomentsRecipe(
        "small", (128,), groups=(4, 6), kept=(8, 8), regions=2, products=24, scrambled=64, coarse=16
    )


def sites_of(table: Path, folder: Path):
    """The images of each site; patient p belongs to site p % 3."""
    from medsanitize.verifiers.reid.training.sums import SiteImages
    from medsanitize.verifiers.reid.training.training_dataset import gather_images

    labels = read_labels(table, table.parent, LabelColumns()).of_kind(Modality.RADIOGRAPH)
    examples, _ = gather_images(labels, NoProgress(), Cancellation())
    validating = examples.patients >= 12
    fit, validation = examples.part(np.flatnonzero(~validating)), examples.part(np.flatnonzero(validating))

    def of(part, place: int):
        return part.part(np.flatnonzero(part.patients % SITES == place))

    sites = [
        SiteImages(of(fit, place), of(validation, place), folder / str(place), NoProgress(), Cancellation())
        for place in range(SITES)
    ]
    return fit, validation, sites


def trained_by_sums(sites) -> tuple[Mapping[str, NDArray[np.float64]], object]:
    from medsanitize.verifiers.reid.training.moment_sums import MomentSums

    training = MomentSums(recipe(), Modality.RADIOGRAPH, 1_000_000)
    state = training.start()
    while wanted := training.asked(state):
        parts = [training.contribution(state, site, 0) for site in sites]
        assert all(set(part) == set(wanted) for part in parts)
        assert all(part[name].shape == wanted[name].shape for part in parts for name in wanted)
        assert all(
            (np.abs(part[name]) <= wanted[name].bound / SITES).all() for part in parts for name in wanted
        )
        state = training.following(state, {name: sum(part[name] for part in parts) for name in wanted})
    return state, training.trained(state)


def test_sums_give_the_model_of_all_images_together(table: Path, tmp_path: Path) -> None:
    from medsanitize.verifiers.reid.training.precomputed_features import vectors_of
    from medsanitize.verifiers.reid.training.second_order_pooling import network_of, train_moments

    fit, validation, sites = sites_of(table, tmp_path)
    state, learned = trained_by_sums(sites)
    pooled = train_moments(fit, validation, recipe(), tmp_path / "pooled", NoProgress(), Cancellation())
    assert int(state["fit_images"]) == len(fit) == 24
    assert learned.network == pooled.network
    seen = []
    for one in (learned, pooled):
        network = network_of(recipe())
        network.load_state_dict(one.weights)
        rows = vectors_of(
            network.eval(), one.dimension, validation, one.preprocessing, tmp_path / "rows", NoProgress(),
            Cancellation(),
        )  # fmt: skip
        seen.append(rows)
    # Directions are unique up to their signs, which inner products do not see.
    assert not np.allclose(seen[0], 0)
    np.testing.assert_allclose(seen[0] @ seen[0].T, seen[1] @ seen[1].T, atol=1e-4)
