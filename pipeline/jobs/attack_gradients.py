"""The command ``attack gradients``: images from what a training step of a classifier shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.attacked_images import (
    PHANTOM_CLASS,
    ImageTable,
    Squares,
    new_private_folder,
    pictures_of,
    rows_of,
    squares_of,
    write_pairs,
    write_report,
)
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.progress import Cancellation, Progress

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.quality.reconstructions import Resemblance
    from medsanitize.verifiers.reid.inversion.first_layer import PerceptronRecipe
    from medsanitize.verifiers.reid.inversion.reidentified import Reidentified
    from medsanitize.verifiers.reid.inversion.training_step import AttackedNetwork, Batch
    from medsanitize.verifiers.reid.models.protocols import Retrieval
    from medsanitize.verifiers.reid.training.densenet_classifier import DenseRecipe
    from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyPlan
    from numpy.typing import NDArray
    from torch import Tensor

Setting = Literal["unprotected", "aggregated", "clipped", "private"]
_DELTA: Final = 1e-5
_SEED: Final = 61_803
# Phantoms besides those that a step needs: what the attacker knows of such images.
_MORE_PHANTOMS: Final = 120
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class GradientAttackRequest:
    """The arguments of the command ``attack gradients``."""

    table: ImageTable
    column: str
    recipe: str
    batches: tuple[int, ...]
    sites: int
    epsilon: float | None
    attacked: int
    size: int
    iterations: int
    model: Path | None
    output: Path | None

    @property
    def largest(self) -> int:
        """Images of the largest step: that of all sites together."""
        return max(self.batches) * self.sites


@dataclass(frozen=True, slots=True)
class SettingResult:
    """Success of the attack in one setting.

    Attributes
    ----------
    setting
        ``unprotected``, ``aggregated`` over sites, ``clipped``, or ``private``: clipped with noise.
    batch
        Images of a step at a site.
    steps
        Number of attacked steps.
    resemblance
        SSIM with the originals, beside two guesses.
    identified, chance
        Reconstructions that are nearest to an image of their step among those of all patients, and the share
        of them that a guess would be.
    reidentified
        Whether reconstructions find another image of their patient; None if no patient has one.
    privacy
        Statement of the noise; None in the other settings.
    """

    setting: Setting
    batch: int
    steps: int
    resemblance: Resemblance
    identified: Reidentified
    chance: float
    reidentified: Reidentified | None
    privacy: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        found = None if self.reidentified is None else self.reidentified.to_json()
        facts = {**asdict(self.resemblance), "above_chance": self.resemblance.above_chance}
        privacy = None if self.privacy is None else dict(self.privacy)
        return {
            "setting": self.setting, "batch": self.batch, "steps": self.steps, "ssim": facts,
            "identified": {**self.identified.to_json(), "chance": self.chance},
            "reidentified": found, "privacy": privacy,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class GradientAttack:
    """Result of the attacks; it names no image and no patient.

    Attributes
    ----------
    cohort
        ``phantoms`` or ``images``.
    recipe, parameters
        Recipe of the classifier, and the number of its weights.
    size
        Width and height of the images in pixels.
    sites
        Sites of the setting ``aggregated``.
    patients
        Patients in the gallery of the re-identification.
    genuine
        Whether the originals find another image of their patient, which bounds ``reidentified``.
    settings
        One row per setting and batch size.
    excluded
        Number of images left out, by reason.
    """

    cohort: str
    recipe: str
    parameters: int
    size: int
    sites: int
    patients: int
    genuine: Reidentified | None
    settings: tuple[SettingResult, ...]
    excluded: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {
            "attack": "gradients", "cohort": self.cohort, "recipe": self.recipe,
            "parameters": self.parameters, "size": self.size, "sites": self.sites, "patients": self.patients,
            "genuine": None if self.genuine is None else self.genuine.to_json(),
            "settings": [one.to_json() for one in self.settings],
            "excluded": dict(self.excluded),
        }  # fmt: skip


def run_gradient_attack(
    request: GradientAttackRequest, progress: Progress, cancellation: Cancellation
) -> GradientAttack:
    """Attack training steps of a classifier in every setting.

    Raises
    ------
    UsageError
        If there are too few patients, the recipe has no network to attack, or the output exists.
    """
    check_extra("verify" if request.epsilon is None else "dp")

    recipe = _recipe(request.recipe)
    if request.output is not None:
        new_private_folder(request.output)
    squares, classes, count, excluded = _images(request, progress, cancellation)
    cohort = _cohort(squares, request)
    classifier = _network(recipe, request.size, count)
    steps = _Steps(request, classifier, squares, classes, cohort, recipe.epochs, cancellation)
    gallery = _gallery(request, squares, cohort)
    found = []
    for setting, batch in steps.settings():
        progress.stage(f"attack {setting}, batch {batch}", None)
        plan = steps.plan(batch) if setting == "private" else None
        attacked = list(steps.attack(setting, batch, plan))
        originals, best = _paired(attacked, squares)
        found.append(_judge(attacked, best, squares, cohort, gallery, setting, batch, plan))
        if request.output is not None:
            write_pairs(request.output / f"{setting}-{batch}.png", originals, best)
    result = GradientAttack(
        cohort="phantoms" if request.table.images is None else "images",
        recipe=recipe.name,
        parameters=sum(one.numel() for one in classifier.parameters),
        size=request.size,
        sites=request.sites,
        patients=gallery.count,
        genuine=gallery.search(squares.pixels[cohort.attacked], squares.patients[cohort.attacked]),
        settings=tuple(found),
        excluded=excluded,
    )
    if request.output is not None:
        write_report(request.output, result.to_json())
    return result


def _recipe(name: str) -> DenseRecipe | PerceptronRecipe:
    from medsanitize.verifiers.reid.inversion.first_layer import PerceptronRecipe
    from medsanitize.verifiers.reid.training.densenet_classifier import DenseRecipe
    from medsanitize.verifiers.reid.training.train_classifier import class_recipe_for

    if name == PerceptronRecipe().name:
        return PerceptronRecipe()
    recipe = class_recipe_for(name)
    if not isinstance(recipe, DenseRecipe):
        raise UsageError(
            "The recipe trains a linear map of features: its gradients contain the features, not the images",
            "Use the recipe paper, tiny or perceptron, and attack decoder for images from features",
        )
    return recipe


def _network(recipe: DenseRecipe | PerceptronRecipe, size: int, count: int) -> AttackedNetwork:
    from medsanitize.verifiers.reid.inversion.first_layer import Perceptron, PerceptronRecipe
    from medsanitize.verifiers.reid.inversion.training_step import AttackedClassifier

    if isinstance(recipe, PerceptronRecipe):
        return Perceptron(recipe, size, count)
    return AttackedClassifier(recipe, count)


def _images(
    request: GradientAttackRequest, progress: Progress, cancellation: Cancellation
) -> tuple[Squares, NDArray[np.int64], int, Mapping[str, int]]:
    """Squares, the class of each, the number of classes, and what was left out."""
    from medsanitize.verifiers.reid.training.class_labels import class_texts, gather_classes

    column = request.column if request.table.images is not None else PHANTOM_CLASS
    phantoms = max(request.largest, request.attacked) + request.largest + _MORE_PHANTOMS
    with rows_of(request.table, phantoms, request.size) as labels:
        texts = class_texts(labels, request.table.columns, column)
        images, excluded = gather_classes(labels, texts, progress, cancellation)
        squares = squares_of(images.examples, request.size, progress, cancellation)
    return squares, images.classes, len(images.names), excluded


@dataclass(frozen=True, slots=True)
class _Cohort:
    """Places of one image of each attacked patient, and of all images of other patients, for the guesses."""

    attacked: NDArray[np.intp]
    others: NDArray[np.intp]


def _cohort(squares: Squares, request: GradientAttackRequest) -> _Cohort:
    import numpy as np

    numbers, first, images = np.unique(squares.patients, return_index=True, return_counts=True)
    order = np.random.default_rng(_SEED).permutation(len(numbers))
    # Patients with a second image first: only they can be re-identified.
    order = order[np.argsort(images[order] < 2, kind="stable")]
    most = max(request.largest, request.attacked)
    if len(numbers) < most + request.largest:
        raise UsageError(
            f"There are too few patients: the largest step has {request.largest} images of other patients,"
            f" and as many patients are left for comparison; {most + request.largest} are needed",
            "Use smaller batches, fewer sites or a larger table",
        )
    rest = ~np.isin(squares.patients, numbers[order[:most]])
    return _Cohort(first[order[:most]], np.flatnonzero(rest))


class _Steps:
    """The attacked steps of every setting."""

    def __init__(
        self,
        request: GradientAttackRequest,
        classifier: AttackedNetwork,
        squares: Squares,
        classes: NDArray[np.int64],
        cohort: _Cohort,
        epochs: int,
        cancellation: Cancellation,
    ) -> None:
        from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey

        self._request, self._classifier, self._cancellation = request, classifier, cancellation
        self._squares, self._classes, self._cohort, self._epochs = squares, classes, cohort, epochs
        # Not secret: this noise protects nobody.
        self._key = NoiseKey(bytes(32))

    def settings(self) -> Iterator[tuple[Setting, int]]:
        """Every setting with every batch size."""
        for batch in self._request.batches:
            yield "unprotected", batch
            if self._request.sites > 1:
                yield "aggregated", batch
            yield "clipped", batch
            if self._request.epsilon is not None:
                yield "private", batch

    def plan(self, batch: int) -> PrivacyPlan:
        """Plan the private training of all patients with the epochs of the recipe."""
        from medsanitize.verifiers.reid.inversion.training_step import CLIP
        from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget, plan_training

        patients = len(set(self._squares.patients.tolist()))
        steps = self._epochs * -(-patients // batch)
        return plan_training(PrivacyBudget(self._request.epsilon or 0, _DELTA), patients, batch, steps, CLIP)

    def attack(
        self, setting: Setting, batch: int, plan: PrivacyPlan | None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
        """Places of the originals of each step, and the reconstructions."""
        import torch
        from medsanitize.verifiers.reid.inversion.first_layer import Perceptron, unmixed
        from medsanitize.verifiers.reid.inversion.gradient_matching import class_of, prior_of, reconstruct
        from medsanitize.verifiers.reid.inversion.training_step import Batch

        request, prior = self._request, prior_of(self._squares.pixels[self._cohort.others])
        images = batch * (request.sites if setting == "aggregated" else 1)
        attacked = self._cohort.attacked[: max(images, request.attacked // images * images)]
        for step, start in enumerate(range(0, len(attacked), images)):
            places = attacked[start : start + images]
            pixels = torch.from_numpy(self._squares.pixels[places])[:, None]
            shown = Batch(pixels, torch.from_numpy(self._classes[places]))
            sent = self._sent(setting, shown, plan, step)
            if isinstance(self._classifier, Perceptron):
                yield places, unmixed(sent, request.size, len(places), self._cancellation.check)
                continue
            classes = torch.tensor([class_of(sent)]) if images == 1 else shown.classes
            made = reconstruct(
                self._classifier, sent, classes, prior, request.iterations, self._cancellation.check
            )
            yield places, made.numpy()

    def _sent(self, setting: Setting, batch: Batch, plan: PrivacyPlan | None, step: int) -> Sequence[Tensor]:
        from medsanitize.verifiers.reid.inversion.training_step import clipped_gradient, private_gradient

        if setting == "clipped":
            return clipped_gradient(self._classifier, batch)
        if plan is not None:
            return private_gradient(self._classifier, batch, plan, self._key, step)
        # The mean over sites is the gradient of their joined batch.
        return self._classifier.gradient(batch)


@dataclass(frozen=True, slots=True, repr=False)
class _Gallery:
    """Other images of the attacked patients and of all others, embedded."""

    model: Retrieval
    squares: Squares
    vectors: NDArray[np.float32]
    patients: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of patients."""
        return len(set(self.patients.tolist()))

    def search(self, pixels: NDArray[np.float32], patients: NDArray[np.int64]) -> Reidentified | None:
        """Search images of patients who are in the gallery; None if nobody is."""
        import numpy as np
        from medsanitize.verifiers.reid.inversion.reidentified import reidentified

        there = np.isin(patients, self.patients)
        if not there.any():
            return None
        probes = self.model.embed(pictures_of(pixels[there], self.squares.modality))
        return reidentified(probes, patients[there], self.vectors, self.patients)


def _gallery(request: GradientAttackRequest, squares: Squares, cohort: _Cohort) -> _Gallery:
    import numpy as np
    from medsanitize.verifiers.reid.models.load import open_retrieval
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

    model = open_retrieval(request.model) if request.model else packaged_retrieval(squares.modality)
    rest = np.setdiff1d(np.arange(len(squares.patients)), cohort.attacked)
    vectors = np.concatenate(
        [
            model.embed(pictures_of(squares.pixels[rest[start : start + _AT_ONCE]], squares.modality))
            for start in range(0, len(rest), _AT_ONCE)
        ]
    )
    return _Gallery(model, squares, vectors, squares.patients[rest])


def _paired(
    attacked: Sequence[tuple[NDArray[np.intp], NDArray[np.float32]]], squares: Squares
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """All originals, and the best-matched reconstruction of each."""
    import numpy as np
    from medsanitize.generators.quality.reconstructions import matched

    originals = [squares.pixels[places] for places, _ in attacked]
    best = [made[matched(one, made)[0]] for one, (_, made) in zip(originals, attacked, strict=True)]
    return np.concatenate(originals), np.concatenate(best)


def _judge(
    attacked: Sequence[tuple[NDArray[np.intp], NDArray[np.float32]]],
    best: NDArray[np.float32],
    squares: Squares,
    cohort: _Cohort,
    gallery: _Gallery,
    setting: Setting,
    batch: int,
    plan: PrivacyPlan | None,
) -> SettingResult:
    import numpy as np
    from medsanitize.generators.quality.reconstructions import resemblance

    steps = [(squares.pixels[places], made) for places, made in attacked]
    alike = resemblance(steps, squares.pixels[cohort.others])
    patients = squares.patients[np.concatenate([places for places, _ in attacked])]
    facts = None if plan is None else plan.facts()
    identified = _identified(attacked, squares, cohort)
    chance = len(attacked[0][0]) / (len(cohort.attacked) + len(np.unique(squares.patients[cohort.others])))
    found = gallery.search(best, patients)
    return SettingResult(setting, batch, len(steps), alike, identified, chance, found, facts)


def _identified(
    attacked: Sequence[tuple[NDArray[np.intp], NDArray[np.float32]]], squares: Squares, cohort: _Cohort
) -> Reidentified:
    """Search each reconstruction among an image of every patient, without what all have in common."""
    import numpy as np
    from medsanitize.verifiers.reid.inversion.reidentified import reidentified

    mean = squares.pixels[cohort.others].mean(axis=0)
    _, first = np.unique(squares.patients[cohort.others], return_index=True)
    candidates = np.concatenate([cohort.attacked, cohort.others[first]])
    steps = np.full(len(candidates), -1, np.int64)
    for number, (places, _) in enumerate(attacked):
        steps[np.isin(candidates, places)] = number
    made = np.concatenate([one for _, one in attacked])
    own = np.repeat(np.arange(len(attacked)), [len(one) for _, one in attacked])
    rows = [(one - mean).reshape(len(one), -1) for one in (made, squares.pixels[candidates])]
    return reidentified(rows[0], own, rows[1], steps)
