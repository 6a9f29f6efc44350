"""Recipe ``frozen`` of a classifier from sums: principal directions, then gradients of all images a round.

The directions come from subspace iteration (Halko et al. 2011), because the covariance of thousands of
features would be too large to send. Each round is one step of the same optimizer on the same loss as in
`linear_classifier.train_linear`, whose gradient is a sum over images.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.pretrained import default_config
from medsanitize.verifiers.reid.training.class_labels import balanced_weights
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel, packaged_features
from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe, classifier_of, losses_of
from medsanitize.verifiers.reid.training.summed_adamw import AdamW
from medsanitize.verifiers.reid.training.sums import (
    COUNTS,
    PHASE,
    SERVER_ONLY,
    Arrays,
    SiteImages,
    State,
    Summed,
    counted,
    phase_of,
)
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from numpy.typing import NDArray

MEANS, DIRECTIONS, TRAINING, TRAINED = range(4)
# Further directions than are kept make the last of them converge, too.
_SPARE, _ITERATIONS = 32, 5
# Of a gradient: the weight of a rare class times the slope of a normalized vector.
GRADIENT = 2.0**14
PARAMETERS = ("map", "shift", "classes", "bias")
_FIT, _VALIDATION = "fit_classes", "validation_classes"
LOG = "log"


@dataclass(frozen=True, slots=True)
class ClassifiedSite(SiteImages):
    """The images of one site with their classes.

    Attributes
    ----------
    fit_classes, validation_classes
        Number of the class of each image, int64.
    """

    fit_classes: NDArray[np.int64]
    validation_classes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LinearSums:
    """The training, as `medsanitize.verifiers.reid.training.sums.SummedTraining`.

    Attributes
    ----------
    recipe
        Hyperparameters.
    modality
        Modality of the images.
    classes
        Number of classes.
    most
        Most images of all sites together.
    """

    recipe: LinearRecipe
    modality: Modality
    classes: int
    most: int

    @property
    def _optimizer(self) -> AdamW:
        rates = dict.fromkeys(("map", "shift"), self.recipe.rate)
        heads = dict.fromkeys(("classes", "bias"), self.recipe.head_rate)
        return AdamW({**rates, **heads}, self.recipe.decay)

    def start(self) -> State:
        """Return the state before the first round."""
        return {PHASE: np.array(float(MEANS))}

    def asked(self, state: State) -> Mapping[str, Summed]:
        """Return what is summed in the round of a state."""
        phase, width = phase_of(state), default_config(self.modality).dimension
        if phase == MEANS:
            by_class = Summed((self.classes,), float(self.most))
            mean = Summed((width,), float(self.most))
            return {**counted(self.most), _FIT: by_class, _VALIDATION: by_class, "mean": mean}
        if phase == TRAINED:
            return {}
        images = float(state["fit_images"])
        if phase == DIRECTIONS:
            # Features have unit length.
            return {"spread": Summed(state["basis"].shape, 4 * images)}
        gradients = {f"gradient.{name}": Summed(state[name].shape, images * GRADIENT) for name in PARAMETERS}
        numbers = {name: Summed((), images * GRADIENT) for name in ("loss", "judged", "right")}
        return {**gradients, **numbers}

    def contribution(self, state: State, site: SiteImages, _number: int, /) -> Arrays:
        """Compute the sums of a site."""
        if not isinstance(site, ClassifiedSite):
            raise TypeError("a site without classes")
        phase = phase_of(state)
        features = site_features(site.fit, site)
        if phase == MEANS:
            found = {
                name: np.bincount(part, minlength=self.classes).astype(np.float64)
                for name, part in ((_FIT, site.fit_classes), (_VALIDATION, site.validation_classes))
            }
            return {**site.counts(), **found, "mean": features.sum(0, dtype=np.float64)}
        if phase == DIRECTIONS:
            centered = features.astype(np.float64) - state["mean"]
            return {"spread": centered.T @ (centered @ state["basis"])}
        weights = balanced_weights(state[_FIT])[site.fit_classes]
        loss, sums = self.gradient(
            {name: state[name] for name in PARAMETERS}, features, site.fit_classes, weights
        )
        learned = {name: torch.from_numpy(state[name]) for name in PARAMETERS}
        judged, right = losses_of(
            torch.from_numpy(site_features(site.validation, site)).double(),
            torch.from_numpy(site.validation_classes),
            learned,
            self.recipe,
        )
        held = torch.from_numpy(balanced_weights(state[_VALIDATION]))[site.validation_classes]
        return {
            **{f"gradient.{name}": one for name, one in sums.items()},
            "loss": np.array(loss),
            "judged": np.array(float((judged * held).sum())),
            "right": np.array(float((right * held).sum())),
        }

    def gradient(
        self,
        parameters: Arrays,
        features: NDArray[np.float32],
        classes: NDArray[np.int64],
        weights: NDArray[np.float64],
    ) -> tuple[float, Arrays]:
        """Compute the weighted sum of the losses of images, and its gradient by the name of the parameter."""
        learned = {name: torch.from_numpy(parameters[name]).requires_grad_() for name in PARAMETERS}
        losses, _ = losses_of(
            torch.from_numpy(features).double(), torch.from_numpy(classes), learned, self.recipe
        )
        loss = (losses * torch.from_numpy(weights)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach()), {name: _gradient(learned[name]) for name in PARAMETERS}

    def losses(
        self, parameters: Arrays, features: NDArray[np.float32], classes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Compute the loss of each image."""
        learned = {name: torch.from_numpy(parameters[name]) for name in PARAMETERS}
        found, _ = losses_of(
            torch.from_numpy(features).double(), torch.from_numpy(classes), learned, self.recipe
        )
        return np.asarray(found.numpy())

    def best(self, state: State) -> Arrays:
        """Return the parameters of the last state."""
        return {name: state[f"best.{name}"] for name in PARAMETERS}

    def following(self, state: State, sums: Arrays) -> State:
        """Return the state that follows from the sums."""
        phase = phase_of(state)
        if phase == MEANS:
            return self._first_directions(sums)
        if phase == DIRECTIONS:
            return self._next_directions(state, sums)
        return self._next_step(state, sums)

    def trained(self, state: State) -> TrainedModel:
        """Return the network of the last state."""
        learned = {name: torch.from_numpy(one).float() for name, one in self.best(state).items()}
        log = tuple(
            {"epoch": number, "loss": loss, "validation_loss": judged, "balanced_accuracy": right}
            for number, (loss, judged, right) in enumerate(state[LOG].tolist(), 1)
        )
        return classifier_of(learned, self.modality, self.recipe, log)

    def _first_directions(self, sums: Arrays) -> State:
        images = float(sums["fit_images"])
        kept = {name: sums[name] for name in (*COUNTS, _FIT, _VALIDATION)}
        width = len(sums["mean"])
        columns = min(self.recipe.dimension + _SPARE, width, max(int(images) - 1, 1))
        drawn = np.random.default_rng(self.recipe.seed).standard_normal((width, columns))
        return {
            **kept,
            PHASE: np.array(float(DIRECTIONS)),
            "mean": sums["mean"] / images,
            "basis": np.linalg.qr(drawn)[0],
            f"{SERVER_ONLY}iteration": np.array(1.0),
        }

    def _next_directions(self, state: State, sums: Arrays) -> State:
        iteration = float(state[f"{SERVER_ONLY}iteration"])
        if iteration < _ITERATIONS:
            basis = np.linalg.qr(sums["spread"])[0]
            return {**state, "basis": basis, f"{SERVER_ONLY}iteration": np.array(iteration + 1)}
        small = state["basis"].T @ sums["spread"]
        values, turned = np.linalg.eigh((small + small.T) / 2)
        deviations = np.sqrt(np.maximum(values[::-1], 0))
        directions = (state["basis"] @ turned[:, ::-1]).T
        kept = min(self.recipe.dimension, int((deviations > 1e-6 * deviations[0]).sum()))
        scale = (deviations[:kept, None] / deviations[0]) ** self.recipe.whitening
        weight = directions[:kept] / scale
        first = {
            "map": weight,
            "shift": -weight @ state["mean"],
            "classes": np.zeros((self.classes, kept)),
            "bias": np.zeros(self.classes),
        }
        counts = {name: state[name] for name in (*COUNTS, _FIT, _VALIDATION)}
        return {
            **counts,
            **first,
            **self._optimizer.start(first),
            PHASE: np.array(float(TRAINING)),
            f"{SERVER_ONLY}lowest": np.array(np.inf),
            f"{SERVER_ONLY}since": np.array(0.0),
            f"{SERVER_ONLY}{LOG}": np.zeros((0, 3)),
        }

    def _next_step(self, state: State, sums: Arrays) -> State:
        """Judge the parameters of this round on the validation split, then take a step of AdamW."""
        images, judged = float(state["fit_images"]), float(state["validation_images"])
        loss, reached, right = (
            float(sums["loss"]) / images,
            float(sums["judged"]) / judged,
            float(sums["right"]) / judged,
        )
        log = np.concatenate([state[f"{SERVER_ONLY}{LOG}"], [[loss, reached, right]]])
        following = {**state, f"{SERVER_ONLY}{LOG}": log}
        following[f"{SERVER_ONLY}since"] = state[f"{SERVER_ONLY}since"] + 1
        if reached < float(state[f"{SERVER_ONLY}lowest"]):
            following[f"{SERVER_ONLY}lowest"] = np.array(reached)
            following[f"{SERVER_ONLY}since"] = np.array(0.0)
            following |= {f"{SERVER_ONLY}best.{name}": state[name] for name in PARAMETERS}
        # One more than the pooled training, whose start is not judged.
        is_over = len(log) > self.recipe.epochs
        if is_over or float(following[f"{SERVER_ONLY}since"]) >= self.recipe.patience:
            best = {f"best.{name}": following[f"{SERVER_ONLY}best.{name}"] for name in PARAMETERS}
            counts = {name: state[name] for name in COUNTS}
            return {**counts, **best, PHASE: np.array(float(TRAINED)), LOG: log}
        gradients = {name: sums[f"gradient.{name}"] / images for name in PARAMETERS}
        following |= self._optimizer.stepped(state, gradients, len(log))
        return following


def site_features(part: TrainingDataset, site: SiteImages) -> NDArray[np.float32]:
    """Compute the packaged features of images of a site."""
    if not len(part):
        return np.zeros((0, default_config(part.modality).dimension), np.float32)
    return packaged_features(part, site.unfinished, site.progress, site.cancellation)


def _gradient(parameter: torch.Tensor) -> NDArray[np.float64]:
    if parameter.grad is None:
        raise RuntimeError("a parameter without a gradient")
    return parameter.grad.numpy()
