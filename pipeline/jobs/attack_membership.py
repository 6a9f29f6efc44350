"""The command ``attack membership``: which patients trained a classifier, with and without privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.attacked_images import (
    PHANTOM_CLASS,
    ImageTable,
    new_private_folder,
    rows_of,
    write_report,
)
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.progress import Cancellation, Progress

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.membership.likelihood_ratio import Membership
    from medsanitize.verifiers.reid.membership.shadow_models import Learner, Population
    from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset
    from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe
    from numpy.typing import NDArray

_PHANTOMS: Final = 240
_SIDE: Final = 128
_DELTA: Final = 1e-5
_SEED: Final = 27_182
_AT_ONCE: Final = 16
# Fewer say nothing: of 20 members and as many others, chance recognizes any four.
_FEWEST: Final = 40


@dataclass(frozen=True, slots=True)
class MembershipAttackRequest:
    """The arguments of the command ``attack membership``."""

    table: ImageTable
    column: str
    references: int
    epsilon: float | None
    output: Path | None


@dataclass(frozen=True, slots=True)
class AttackedModel:
    """Success of the attack on one model.

    Attributes
    ----------
    name
        ``frozen`` or ``frozen, private``.
    membership
        The attack.
    accuracy_members, accuracy_others
        Balanced accuracy of the model on images of its patients, and on those of others.
    privacy
        Statement of differential privacy; None without.
    """

    name: str
    membership: Membership
    accuracy_members: float
    accuracy_others: float
    privacy: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {
            "model": self.name,
            **self.membership.to_json(),
            "accuracy_members": self.accuracy_members,
            "accuracy_others": self.accuracy_others,
            "privacy": None if self.privacy is None else dict(self.privacy),
        }


@dataclass(frozen=True, slots=True)
class MembershipAttack:
    """Result of the attacks; it names no image and no patient.

    Attributes
    ----------
    cohort
        ``phantoms`` or ``images``.
    images, patients
        Number of images and patients; half of the patients trained each model.
    references
        Number of reference models for each attacked one.
    models
        One row per attacked model.
    excluded
        Number of images left out, by reason.
    """

    cohort: str
    images: int
    patients: int
    references: int
    models: tuple[AttackedModel, ...]
    excluded: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {
            "attack": "membership",
            "cohort": self.cohort,
            "images": self.images,
            "patients": self.patients,
            "references": self.references,
            "models": [one.to_json() for one in self.models],
            "excluded": dict(self.excluded),
        }


def run_membership_attack(
    request: MembershipAttackRequest, progress: Progress, cancellation: Cancellation
) -> MembershipAttack:
    """Train a classifier on half of the patients, attack it, and repeat that with differential privacy.

    Raises
    ------
    UsageError
        If there are too few patients, or the output exists.
    """
    check_extra("verify" if request.epsilon is None else "dp")
    import numpy as np
    from medsanitize.verifiers.reid.training.class_labels import class_texts, gather_classes, split_classes
    from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe

    recipe = LinearRecipe()
    if request.output is not None:
        new_private_folder(request.output)
    column = request.column if request.table.images is not None else PHANTOM_CLASS
    with rows_of(request.table, _PHANTOMS, _SIDE) as labels:
        texts = class_texts(labels, request.table.columns, column)
        images, excluded = gather_classes(labels, texts, progress, cancellation)
        # As in the training: the same patients choose the epoch of every model.
        fit, validation = split_classes(images, recipe.seed)
        every, held = (_population(one, progress, cancellation) for one in (fit, validation))
    patients = len(np.unique(fit.examples.patients))
    if patients < _FEWEST:
        raise UsageError(
            f"There are too few patients to attack: {patients}, besides those that choose the epoch",
            f"Name a table with {_FEWEST} or more of them",
        )
    models = []
    for name, learner, privacy in _learners(request, recipe, held, patients // 2):
        progress.stage(f"train {request.references + 1} models, {name}", request.references + 1)
        models.append(_attacked(name, learner, privacy, every, request.references, progress, cancellation))
    result = MembershipAttack(
        cohort="phantoms" if request.table.images is None else "images",
        images=len(fit),
        patients=patients,
        references=request.references,
        models=tuple(models),
        excluded=excluded,
    )
    if request.output is not None:
        write_report(request.output, result.to_json())
    return result


def _population(images: ClassifiedDataset, progress: Progress, cancellation: Cancellation) -> Population:
    """Embed all images; in memory only, because images can be reconstructed from features."""
    import numpy as np
    from medsanitize.verifiers.reid.membership.shadow_models import Population
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

    model = packaged_retrieval(images.examples.modality)
    progress.stage("features", len(images))
    parts = []
    for start in range(0, len(images), _AT_ONCE):
        cancellation.check()
        places = range(start, min(start + _AT_ONCE, len(images)))
        parts.append(model.embed([images.examples.picture(place) for place in places]))
        progress.advance(len(places))
    return Population(images, np.concatenate(parts))


def _learners(
    request: MembershipAttackRequest, recipe: LinearRecipe, held: Population, patients: int
) -> list[tuple[str, Learner, Mapping[str, Any] | None]]:
    from medsanitize.verifiers.reid.membership.shadow_models import PlainLearner, PrivateLearner

    learners: list[tuple[str, Learner, Mapping[str, Any] | None]] = [
        (recipe.name, PlainLearner(recipe, held), None)
    ]
    if request.epsilon is not None:
        from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget
        from medsanitize.verifiers.reid.training.private_classifier import private_plan

        plan = private_plan(PrivacyBudget(request.epsilon, _DELTA), patients)
        learners.append((f"{recipe.name}, private", PrivateLearner(recipe, plan), plan.facts()))
    return learners


def _attacked(
    name: str,
    learner: Learner,
    privacy: Mapping[str, Any] | None,
    every: Population,
    references: int,
    progress: Progress,
    cancellation: Cancellation,
) -> AttackedModel:
    import numpy as np
    from medsanitize.verifiers.reid.membership.likelihood_ratio import membership, patient_scores
    from medsanitize.verifiers.reid.membership.shadow_models import halves, shadow_likelihoods

    people = every.images.examples.patients
    numbers = np.unique(people)
    # The attacked model first; its patients are drawn apart from those of the references.
    chosen = np.concatenate([halves(numbers, 1, _SEED), halves(numbers, references, _SEED + 1)])
    judged = []
    for one in shadow_likelihoods(every, chosen, learner):
        cancellation.check()
        progress.advance(1)
        judged.append(one)
    likelihoods, right = [likelihood for likelihood, _ in judged], judged[0][1]
    scores = patient_scores(likelihoods[0], np.stack(likelihoods[1:]), chosen[1:])
    own = np.isin(people, numbers[chosen[0]])
    return AttackedModel(
        name,
        membership(scores[chosen[0]], scores[~chosen[0]]),
        _balanced(every.images, right, own),
        _balanced(every.images, right, ~own),
        privacy,
    )


def _balanced(images: ClassifiedDataset, right: NDArray[np.bool_], chosen: NDArray[np.bool_]) -> float:
    """Balanced accuracy on some images."""
    import numpy as np

    part = images.part(np.flatnonzero(chosen))
    return float((right[chosen] * part.weights()[part.classes]).mean())
