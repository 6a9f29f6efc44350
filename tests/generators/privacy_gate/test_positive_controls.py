"""Positive controls: which copies there are, and that the same images give the same copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.generators.privacy_gate.candidate_search import score_pairs
from medsanitize.generators.privacy_gate.gate_embeddings import Verifiers
from medsanitize.generators.privacy_gate.positive_controls import copies
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.alterations.composites import PATCH, others_of
from medsanitize.verifiers.reid.alterations.geometry import BEND
from medsanitize.verifiers.reid.alterations.intensity import NOISE
from medsanitize.verifiers.reid.alterations.kinds import ALTERED, JOINED
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from numpy.typing import NDArray

from tests.helpers.synthetic_images import FakeGenerator

Squares = NDArray[np.uint8]
SIZE = 32


@pytest.fixture(scope="module")
def chests() -> Squares:
    planes = [chest_phantom(patient, 0, size=SIZE, seed=3) for patient in range(6)]
    return np.asarray(np.rint(np.stack(planes) * 255), np.uint8)


@pytest.fixture(scope="module")
def joined(chests: Squares) -> dict[str, Squares]:
    others = chests[others_of(np.arange(len(chests)))]
    return {name: join(chests, others) for name, join in JOINED.items()}


def test_every_disguise_of_the_manual_is_a_control(chests: Squares) -> None:
    made = copies(chests, np.zeros(len(chests), np.int64), FakeGenerator(), 0.2, NoProgress(), Cancellation())
    assert set(made) == {
        "reconstructed", "varied", "moved", "mirrored", "cropped", "cropped off center", "rotated",
        "zoomed out", "elastic", "blurred", "re-encoded", "noised", "gamma", "equalized", "inverted",
        "left half", "right half", "upper half", "lower half", "blended", "patch",
    }  # fmt: skip
    assert all(one.shape == chests.shape and one.dtype == np.uint8 for one in made.values())


def test_both_images_of_a_blend_contribute_half_of_it(chests: Squares) -> None:
    others = chests[others_of(np.arange(len(chests)))]
    faint = np.asarray(np.rint(100 + (chests - 100.0) / 5), np.uint8)
    blend = JOINED["blended"](faint, others)
    alike = [
        [np.corrcoef(one.ravel(), made.ravel())[0, 1] for one, made in zip(part, blend, strict=True)]
        for part in (faint, others)
    ]
    assert alike[0] == pytest.approx(alike[1], abs=0.05)


@pytest.mark.parametrize("name", ALTERED)
def test_a_control_changes_every_image_and_always_in_the_same_way(chests: Squares, name: str) -> None:
    before = chests.copy()
    one, other = ALTERED[name](chests), ALTERED[name](chests)
    assert one.tobytes() == other.tobytes()
    assert (one != chests).any((1, 2)).all()
    assert np.array_equal(chests, before)


def test_the_random_part_of_a_control_differs_between_images(chests: Squares) -> None:
    same = np.repeat(chests[:1], 2, 0)
    for name in ("moved", "rotated", "elastic", "noised", "gamma", "cropped off center"):
        one, other = ALTERED[name](same)
        assert not np.array_equal(one, other), name


def test_noise_and_displacement_are_as_strong_as_the_manual_says() -> None:
    gray = np.full((4, 64, 64), 128, np.uint8)
    assert ALTERED["noised"](gray).std() == pytest.approx(NOISE, rel=0.05)
    ramp = np.broadcast_to(np.arange(64, dtype=np.uint8), (4, 64, 64)).copy()
    bent = np.abs(ALTERED["elastic"](ramp).astype(float) - ramp).max((1, 2))
    assert (bent <= BEND * 64 + 1).all()
    assert (bent >= 1).all()


def test_halves_keep_the_half_they_are_named_after(chests: Squares, joined: dict[str, Squares]) -> None:
    half = SIZE // 2
    parts = {
        "left half": np.s_[:, :, :half],
        "right half": np.s_[:, :, half:],
        "upper half": np.s_[:, :half],
        "lower half": np.s_[:, half:],
    }
    for name, part in parts.items():
        assert np.array_equal(joined[name][part], chests[part])
        assert not np.array_equal(joined[name], chests)


def test_a_patch_covers_its_share_of_the_other_image(chests: Squares, joined: dict[str, Squares]) -> None:
    assert ((joined["patch"] == chests).mean((1, 2)) >= PATCH**2).all()
    assert ((joined["patch"] == chests).mean((1, 2)) < 1).all()


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), max_size=30))
def test_images_are_joined_with_those_of_another_patient_if_there_is_one(numbers: list[int]) -> None:
    patients = np.array(numbers, np.int64)
    others = others_of(patients)
    if len(set(numbers)) > 1:
        assert (patients[others] != patients).all()
    else:
        assert others.tolist() == list(range(len(numbers)))


# -- scores of pairs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Fine:
    """Correlates neighboring differences: noise hides an image from it, and its score saturates."""

    modality: Modality = Modality.RADIOGRAPH
    digest: str = "fine"
    dimension: int = SIZE * (SIZE - 1)

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        steps = np.diff(np.stack([one.pixels for one in pictures]), axis=2).reshape(len(pictures), -1)
        return np.asarray(steps / np.linalg.norm(steps, axis=1, keepdims=True).clip(1e-6), np.float32)

    def score(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(1 / (1 + np.exp(-self.raw(one, other))), np.float32)

    def raw(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(100 * (one * other).sum(1), np.float32)


def test_scores_near_one_are_still_told_apart(chests: Squares) -> None:
    verifiers = Verifiers(Fine(), Fine(), NoProgress(), Cancellation())
    changed = chests.copy()
    changed[:, :4] = 0
    rows = np.arange(len(chests))
    seen, other = (verifiers.see(images, "embed") for images in (chests, changed))
    same, altered = (
        score_pairs(seen, rows, seen, rows, verifiers),
        score_pairs(seen, rows, other, rows, verifiers),
    )
    assert (Fine().score(seen.second, other.second) == 1).any()
    assert (altered < same).all()
    assert (same < 1).all()


def test_a_noised_copy_is_found_by_its_blurred_version(chests: Squares) -> None:
    verifiers = Verifiers(Fine(), Fine(), NoProgress(), Cancellation())
    rows = np.arange(len(chests))
    seen, noised = (verifiers.see(images, "embed") for images in (chests, ALTERED["noised"](chests)))
    found = score_pairs(noised, rows, seen, rows, verifiers)
    raw = Fine().raw(noised.soft, seen.soft)
    assert (raw > Fine().raw(noised.second, seen.second)).all()
    assert found == pytest.approx((1 + raw / (1 + np.abs(raw))) / 2, abs=1e-6)


class Taught(Fine):
    """A model that learned from altered copies."""

    finds_altered = True


def test_a_copy_verifier_compares_images_once(chests: Squares) -> None:
    verifiers = Verifiers(Taught(), Taught(), NoProgress(), Cancellation())
    rows = np.arange(len(chests))
    seen, noised = (verifiers.see(images, "embed") for images in (chests, ALTERED["noised"](chests)))
    raw = Fine().raw(noised.second, seen.second)
    found = score_pairs(noised.part(rows), rows, seen.part(rows), rows, verifiers)
    assert found == pytest.approx((1 + raw / (1 + np.abs(raw))) / 2, abs=1e-6)
