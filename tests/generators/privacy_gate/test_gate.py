"""The gate on phantoms: copying generators fail, honest ones pass, too little data is insufficient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.generators.diffusion.preprocess import to_image_array
from medsanitize.generators.phantoms.chest import Visit, chest_phantom, chest_visit
from medsanitize.generators.privacy_gate.candidate_search import candidates_for
from medsanitize.generators.privacy_gate.gate import PrivacyGate, calibrate_gate, evaluate_privacy
from medsanitize.generators.privacy_gate.positive_controls import lowest
from medsanitize.generators.privacy_gate.splits import Split
from medsanitize.generators.privacy_gate.statement import statement
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.alterations.geometry import CONTRAST, SCALE, SHIFT, TURN, moved
from medsanitize.verifiers.reid.alterations.intensity import gaussian_blur, jpeg_round_trip
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.protocols import Verification
from numpy.typing import NDArray

from tests.helpers.synthetic_images import simple_controls

Squares = NDArray[np.uint8]
# Phantoms of half the size that the gate accepts, to save time.
SIZE = 64
# Phantom numbers from here on are people invented by a generator.
SYNTHETIC = 1_000_000


@pytest.fixture(scope="module", autouse=True)
def _controls() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        simple_controls(patch)
        yield


@dataclass(frozen=True)
class Waves:
    """A verifier of pixels: compares the amplitudes of spatial frequencies, independent of translation.

    Retrieval uses the image as it is, verification the best of twelve rotated and scaled versions.
    """

    modality: Modality = Modality.RADIOGRAPH
    digest: str = "waves"
    gain: float = 800.0
    turned: bool = True

    @property
    def dimension(self) -> int:
        return WAVES * (len(TURNED) if self.turned else 1)

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        found = np.stack([waves(one.pixels.tobytes(), len(one.pixels)) for one in pictures])
        return found[:, : self.dimension]

    def score(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(1 / (1 + np.exp(-self.raw(one, other).astype(np.float64))), np.float32)

    def raw(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        sides = [side.reshape(-1, len(TURNED), WAVES) for side in (one, other)]
        forth = np.einsum("nvd,nd->nv", sides[0], sides[1][:, 0]).max(1)
        back = np.einsum("nvd,nd->nv", sides[1], sides[0][:, 0]).max(1)
        alike = np.maximum(forth, back).astype(np.float64)
        return np.asarray(self.gain * (alike - 0.987), np.float32)


LOW = 14
WAVES = (2 * LOW - 1) * LOW
TURNED = [(0.0, 1.0), *((turn, scale) for turn in (-3, -1, 1, 3) for scale in (0.96, 1.0, 1.04))]


@lru_cache(maxsize=1)
def grid() -> NDArray[np.float64]:
    """Sampling positions in the enlarged spectrum for every rotation and scale."""
    down, across = np.mgrid[1 - LOW : LOW, 0:LOW] * 2.0
    points = []
    for turn, scale in TURNED:
        angle = np.radians(turn)
        rows = np.cos(angle) * down - np.sin(angle) * across
        columns = np.sin(angle) * down + np.cos(angle) * across
        points.append(np.stack([rows, columns]).reshape(2, -1) * scale)
    return np.concatenate(points, 1)


@lru_cache(maxsize=1 << 15)
def waves(data: bytes, size: int) -> NDArray[np.float32]:
    from scipy.ndimage import gaussian_filter, map_coordinates

    plane = np.frombuffer(data, np.float32).reshape(size, size)
    fine = gaussian_filter(plane, size / 128) - gaussian_filter(plane, size / 8)
    window = fine * np.hanning(size)[:, None] * np.hanning(size)[None]
    strength = np.fft.fftshift(np.abs(np.fft.fft2(window, (2 * size, 2 * size))))
    low = map_coordinates(strength, grid() + size, order=1).reshape(len(TURNED), WAVES)
    low = np.sqrt(np.maximum(low, 0))
    return np.asarray(low / np.linalg.norm(low, axis=1, keepdims=True).clip(1e-6), np.float32).ravel()


@lru_cache(maxsize=8192)
def phantom(patient: int, sitting: int, size: int) -> Squares:
    """A person at one visit; the first and second image differ in exposure and noise only."""
    plane = chest_phantom(patient, 0, size=size, seed=31)
    draw = np.random.default_rng([patient, sitting])
    plane = plane ** draw.uniform(0.93, 1.07) + draw.normal(0, 0.01, plane.shape) * (sitting > 0)
    return np.asarray(np.rint(np.clip(plane, 0, 1) * 255), np.uint8)


@dataclass(frozen=True)
class Phantoms:
    """A generator of phantoms; a share of its images are copies of training images."""

    training: Squares
    people: Callable[[int], Squares]
    copied: float = 0.0
    size: int = SIZE
    modality: Modality = Modality.RADIOGRAPH
    digest: str = "phantoms"
    classes: tuple[str, ...] = ()

    def sample(self, classes: Sequence[int], seeds: Sequence[int]) -> Squares:
        assert len(classes) == len(seeds)
        return np.stack([self._one(seed) for seed in seeds])

    def reconstruct(self, images: Squares) -> Squares:
        return gaussian_blur(images, 0.6)

    def vary(self, images: Squares, classes: Sequence[int], strength: float, seeds: Sequence[int]) -> Squares:
        """Blend with another person by strength, with new noise; nothing is memorized."""
        assert len(images) == len(classes) == len(seeds)
        others = np.stack([self.people(seed % 97) for seed in seeds]).astype(float)
        mixed = (1 - strength**2) * images + strength**2 * others
        grain = [np.random.default_rng(seed).normal(0, 3, images.shape[1:]) for seed in seeds]
        return np.asarray(np.rint(np.clip(mixed + np.stack(grain), 0, 255)), np.uint8)

    def copies(self, seeds: Sequence[int]) -> NDArray[np.bool_]:
        return np.array([np.random.default_rng(seed).random() < self.copied for seed in seeds])

    def _one(self, seed: int) -> Squares:
        if not self.copies([seed])[0]:
            return self.people(seed)
        draw = np.random.default_rng([seed, 1])
        kept = self.training[draw.integers(len(self.training))][None]
        pixels = int(draw.integers(1, max(2, round(0.03 * self.size)) + 1))
        changed = [
            lambda: kept,
            lambda: gaussian_blur(kept, draw.uniform(0.3, 1)),
            lambda: np.roll(kept, (pixels, -pixels), (1, 2)),
            lambda: moved(kept),
            lambda: jpeg_round_trip(kept, 50),
            lambda: jpeg_round_trip(gaussian_blur(kept, 0.4), 60),
        ]
        return changed[int(draw.integers(len(changed)))]()[0]


def side(numbers: Sequence[int], images: int, made: Callable[[int, int], Squares]) -> Split:
    squares = [to_image_array(made(number, sitting)) for number in numbers for sitting in range(images)]
    patients = np.repeat(np.array(numbers, np.int64), images)
    return Split(squares, patients, np.zeros(len(squares), np.int64))


def squares_in(one: Split) -> Squares:
    return np.stack([np.rint(picture.pixels * 255).astype(np.uint8) for picture in one.pictures])


def small(number: int, sitting: int) -> Squares:
    return phantom(number, sitting, SIZE)


@pytest.fixture(autouse=True)
def _small_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medsanitize.generators.privacy_gate.next_steps.SMALLEST_IMAGES", SIZE)


@pytest.fixture(scope="module")
def sides() -> dict[str, Split]:
    return {
        "training": side(range(120), 1, small),
        "holdout": side(range(200, 320), 1, small),
        "calibration": side(range(400, 699), 2, small),
    }


def made_by(sides: dict[str, Split], copied: float = 0.0) -> Phantoms:
    # Three hundred invented people, each of whom can result from any seed.
    return Phantoms(
        squares_in(sides["training"]),
        lambda seed: small(SYNTHETIC + seed % 300, seed // 300 % 4),
        copied,
    )


def prepared(
    sides: dict[str, Split],
    generator: Phantoms,
    images: int = 3000,
    *,
    retrieval: Any = None,
    verifier: Any = None,
) -> PrivacyGate:
    return calibrate_gate(
        sides["training"], sides["holdout"], sides["calibration"], generator,
        retrieval or Waves(turned=False), verifier or Waves(),
        images=images, progress=NoProgress(), cancellation=Cancellation(),
    )  # fmt: skip


def sampled(generator: Phantoms, images: int) -> Squares:
    return generator.sample([0] * images, range(images))


@pytest.fixture(scope="module")
def gate(sides: dict[str, Split]) -> PrivacyGate:
    """Scores sixteen candidates per image, as for a large cohort."""
    with pytest.MonkeyPatch.context() as patch:
        nearest_only(patch, 16)
        return prepared(sides, made_by(sides))


def nearest_only(patch: pytest.MonkeyPatch, candidates: int) -> None:
    patch.setattr("medsanitize.generators.privacy_gate.candidate_search.EVERY_PAIR_UP_TO", 100)
    patch.setattr("medsanitize.generators.privacy_gate.candidate_search.FEWEST_CANDIDATES", candidates)


@pytest.fixture(scope="module")
def few(sides: dict[str, Split]) -> dict[str, Split]:
    return {**sides, "calibration": side(range(400, 430), 2, small)}


@pytest.mark.parametrize("copied", [1.0, 0.1, 0.05])
def test_a_copying_generator_fails_and_its_copies_are_found(
    gate: PrivacyGate, sides: dict[str, Split], copied: float
) -> None:
    generator = made_by(sides, copied)
    found = gate.judge(sampled(generator, 1000))
    copies = generator.copies(range(1000))
    assert (~found.kept[copies]).mean() >= 0.99
    assert found.kept[~copies].all()
    assert found.verdict.state == "failed"
    assert found.verdict.copy_rate >= copied


def test_an_honest_generator_passes_with_enough_data(gate: PrivacyGate, sides: dict[str, Split]) -> None:
    found = gate.judge(sampled(made_by(sides), 3000))
    assert found.verdict.state == "passed", "\n".join(statement(found.verdict))
    assert found.kept.all()
    assert found.verdict.linked.errors == 0


def test_too_few_images_are_insufficient_data(gate: PrivacyGate, sides: dict[str, Split]) -> None:
    found = gate.judge(sampled(made_by(sides), 20)).verdict
    assert found.state == "insufficient_data"
    assert found.needed == ()
    assert "Or judge" in "".join(found.next_steps)


def test_too_few_patients_are_insufficient_data(sides: dict[str, Split]) -> None:
    fewer = {**sides, "calibration": side([400], 2, small)}
    gate = prepared(fewer, made_by(sides))
    assert "the 1 that there are allow at best" in gate.needed[0]
    found = gate.judge(sampled(made_by(sides), 100)).verdict
    assert found.state == "insufficient_data"
    assert found.needed == gate.needed


def test_patients_with_one_image_calibrate(sides: dict[str, Split]) -> None:
    single = {**sides, "calibration": side(range(400, 460), 1, small)}
    gate = prepared(single, made_by(sides))
    assert gate.threshold.patients == 60
    assert gate.needed == ()
    assert gate.judge(sampled(made_by(sides), gate.plan.images)).verdict.passed


def test_small_images_are_refused_before_any_is_sampled(
    few: dict[str, Split], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medsanitize.generators.privacy_gate.next_steps.SMALLEST_IMAGES", 128)
    gate = prepared(few, made_by(few))
    assert "images of at least 128 x 128 pixels" in gate.needed[0]
    assert gate.judge(sampled(made_by(few), 30)).verdict.state == "insufficient_data"


def test_the_number_of_images_depends_on_no_synthetic_image(sides: dict[str, Split]) -> None:
    honest, copying = (prepared(sides, made_by(sides, copied)).plan for copied in (0.0, 1.0))
    assert honest == copying


def test_real_strangers_are_compared_like_synthetic_images(
    gate: PrivacyGate, sides: dict[str, Split]
) -> None:
    strict = gate.judge(squares_in(sides["holdout"])).verdict.exposures[-1]
    assert strict.synthetic.share == strict.strangers.share
    assert strict.strangers.of == 120
    assert strict.genuine.of == 299


def test_the_result_contains_each_copy_with_its_original(gate: PrivacyGate, sides: dict[str, Split]) -> None:
    generator = made_by(sides)
    synthetic = np.concatenate([generator.training[[7, 3]], generator.sample([0], [5])])
    found, again = gate.match(synthetic), gate.judge(synthetic)
    assert found.row[:2].tolist() == again.nearest[:2].tolist() == [7, 3]
    assert found.matched.tolist() == (~again.kept).tolist() == [True, True, False]
    assert again.verdict.linked.errors == 2


def test_a_patient_sampled_twice_is_extracted(gate: PrivacyGate, sides: dict[str, Split]) -> None:
    training = made_by(sides).training
    twice = np.concatenate([training[[7]], jpeg_round_trip(training[[7]], 70), training[[9]]])
    assert gate.judge(twice).verdict.attacks.extraction.extracted == 1


def test_without_calibration_patients_everything_matches(sides: dict[str, Split]) -> None:
    alone = {**sides, "calibration": side([], 1, small), "holdout": side([], 1, small)}
    found = prepared(alone, made_by(sides)).judge(sampled(made_by(sides), 20))
    assert found.verdict.state == "insufficient_data"
    assert not found.kept.any()


def test_the_same_input_gives_the_same_verdict(few: dict[str, Split]) -> None:
    generator = made_by(few, 0.1)
    one, other = (
        evaluate_privacy(
            sampled(generator, 60), few["training"], few["holdout"], few["calibration"],
            Waves(turned=False), Waves(), generator, progress=NoProgress(), cancellation=Cancellation(),
        )
        for _ in range(2)
    )  # fmt: skip
    assert one.verdict.to_json() == other.verdict.to_json()
    assert one.score.tobytes() == other.score.tobytes()


def test_all_pairs_are_scored_in_small_cohorts(few: dict[str, Split]) -> None:
    generator = made_by(few, 1.0)
    found = prepared(few, generator).judge(sampled(generator, 100))
    assert found.verdict.subject.candidates == 120
    assert not found.kept.any()


def test_the_threshold_accounts_for_search_misses(
    few: dict[str, Split], monkeypatch: pytest.MonkeyPatch
) -> None:
    nearest_only(monkeypatch, 2)

    class Blind(Waves):
        def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
            return _noise(pictures)

    generator = made_by(few)
    gate = prepared(few, generator, retrieval=Blind(turned=False))
    assert gate.threshold.value == 0.0
    assert gate.match(sampled(generator, 20)).matched.all()


def _noise(pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
    seeds = [int(sha256(one.pixels.tobytes()).hexdigest()[:8], 16) for one in pictures]
    return np.stack([np.random.default_rng(seed).normal(size=WAVES) for seed in seeds]).astype(np.float32)


def test_a_generator_that_restores_training_images_from_noise_is_vetoed(
    few: dict[str, Split],
) -> None:
    @dataclass(frozen=True)
    class Remembers(Phantoms):
        def vary(
            self, images: Squares, classes: Sequence[int], strength: float, seeds: Sequence[int]
        ) -> Squares:
            known = {one.tobytes() for one in self.training}
            made = super().vary(images, classes, strength, seeds)
            return np.stack([x if x.tobytes() in known else y for x, y in zip(images, made, strict=True)])

    honest = made_by(few)
    remembers = Remembers(honest.training, honest.people)
    for generator, veto in ((remembers, True), (honest, False)):
        found = prepared(few, generator).judge(sampled(generator, 20)).verdict.attacks.extraction
        assert found.veto is veto
        assert found.restored == (120 if veto else found.restored)


def test_splits_that_share_a_patient_are_rejected(sides: dict[str, Split]) -> None:
    generator = made_by(sides)
    same = {**sides, "holdout": side(range(100, 130), 1, small)}
    with pytest.raises(UsageError, match="A patient is in two"):
        prepared(same, generator)
    renamed = replace(sides["holdout"], pictures=sides["training"].pictures)
    with pytest.raises(UsageError, match="An image is in two"):
        prepared({**sides, "holdout": renamed}, generator)
    with pytest.raises(UsageError, match="no training image"):
        prepared({**sides, "training": side([], 1, small)}, generator)
    with pytest.raises(UsageError, match="one patient and one class"):
        prepared({**sides, "holdout": replace(renamed, patients=np.arange(3))}, generator)


def test_models_of_another_modality_and_images_of_another_size_are_rejected(
    gate: PrivacyGate, sides: dict[str, Split]
) -> None:
    with pytest.raises(UsageError, match="different modalities"):
        prepared(sides, replace(made_by(sides), modality=Modality.SLIDE))
    with pytest.raises(UsageError, match="8-bit images of 64 x 64 pixels"):
        gate.match(np.zeros((2, 32, 32), np.uint8))


def test_a_nan_score_is_rejected(few: dict[str, Split]) -> None:
    with pytest.raises(IntegrityError, match="not a number"):
        prepared(few, made_by(few), verifier=Waves(gain=float("nan")))


def test_a_generator_that_changes_the_image_size_is_rejected(few: dict[str, Split]) -> None:
    class Shrinks(Phantoms):
        def reconstruct(self, images: Squares) -> Squares:
            return images[:, ::2, ::2]

    with pytest.raises(IntegrityError, match="an unexpected size"):
        prepared(few, Shrinks(made_by(few).training, made_by(few).people))


def test_the_lowest_control_score_of_a_patient_counts() -> None:
    image = small(1, 0)[None]
    assert np.abs(jpeg_round_trip(image, 90).astype(int) - image).mean() < 3
    assert (
        np.abs(np.diff(gaussian_blur(image, 2.0).astype(int))).mean()
        < np.abs(np.diff(image.astype(int))).mean()
    )
    assert lowest(np.array([0.3, 0.2, 0.9]), np.array([5, 5, 2])).tolist() == [0.9, 0.2]


def test_geometric_controls_use_the_range_of_training_augmentation() -> None:
    from medsanitize.generators.diffusion import augment

    assert min(TURN / augment.TURN, SHIFT / augment.SHIFT, SCALE / augment.SCALE) >= 1
    assert CONTRAST >= augment.CONTRAST
    images = np.stack([small(1, 0)] * 3)
    assert moved(images).tobytes() == moved(images).tobytes()
    assert not np.array_equal(moved(images)[0], moved(images)[1])


def test_a_small_search_scores_all_pairs() -> None:
    assert candidates_for(3000, 500) == 500
    assert candidates_for(10_000, 100_000) == 209
    assert candidates_for(1_000_000, 100_000) == 64


# -- real phantoms through a real verification model ------------------------------------------


@lru_cache(maxsize=4096)
def closest_visits(patient: int) -> tuple[int, int]:
    """Two visits of nearly the same pose, upright and without finding."""
    plain = [
        visit
        for visit in range(30)
        if (state := chest_visit(patient, visit, seed=31)).view == "PA"
        and (state.finding, state.devices) == ("none", 0)
    ]
    pose = np.array([_pose(chest_visit(patient, visit, seed=31)) for visit in plain])
    apart = np.abs(pose[:, None] - pose[None]).max(2) + np.eye(len(plain)) * 9
    one, other = sorted(np.unravel_index(apart.argmin(), apart.shape))
    return plain[one], plain[other]


def _pose(state: Visit) -> tuple[float, ...]:
    return (*state.shift, state.scale, state.angle, state.turn, state.inspiration)


def large(patient: int, sitting: int) -> Squares:
    plane = chest_phantom(patient, closest_visits(patient)[sitting], size=256, seed=31)
    return np.asarray(np.rint(plane * 255), np.uint8)


@pytest.mark.slow
def test_real_phantoms_pass_a_real_verifier_unless_they_are_copies(
    trained: Verification, large_sides: dict[str, Split]
) -> None:
    """A trained verification model, 500 patients, 3,000 images: pytest -m slow -k real_phantoms -s.

    Takes half an hour. Images of a patient are of one visit: with visits years apart, bedside images and
    effusions, the threshold that misses one of a hundred patients also matches strangers, and an honest
    generator cannot pass. With 299 patients, none of whom may be below the threshold, the hardest patient
    sets it, and two of 3,000 strangers reach it.
    """
    training = squares_in(large_sides["training"])
    honest = Phantoms(training, lambda seed: large(SYNTHETIC + seed, 0), 0.0, 256)
    gate = prepared(large_sides, honest, verifier=trained)
    found = gate.judge(sampled(honest, 3000))
    print("\n".join(statement(found.verdict)))
    cheat = replace(honest, copied=0.5)
    caught, copies = gate.judge(sampled(cheat, 400)), cheat.copies(range(400))
    print("\n".join(statement(caught.verdict)))
    assert (~caught.kept[copies]).mean() >= 0.99
    assert caught.verdict.state == "failed"
    assert found.verdict.state == "passed"


@pytest.fixture(scope="module")
def large_sides() -> dict[str, Split]:
    return {
        "training": side(range(100), 1, large),
        "holdout": side(range(200, 300), 1, large),
        "calibration": side(range(400, 900), 2, large),
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Verification:
    """The default recipe, on phantoms of another seed."""
    from medsanitize.generators.phantoms.cohorts import write_chests
    from medsanitize.verifiers.reid.labels import read_labels
    from medsanitize.verifiers.reid.models.config import ModelKind
    from medsanitize.verifiers.reid.models.load import open_verification
    from medsanitize.verifiers.reid.training.recipes import VERIFICATION
    from medsanitize.verifiers.reid.training.train import train

    folder: Path = tmp_path_factory.mktemp("verifier")
    table = write_chests(folder / "images", range(300), visits=(2, 3), seed=1)
    labels = read_labels(table, folder / "images")
    recipe = VERIFICATION["match"]
    train(ModelKind.VERIFICATION, labels, recipe, None, folder / "model", NoProgress(), Cancellation())
    return open_verification(folder / "model")
