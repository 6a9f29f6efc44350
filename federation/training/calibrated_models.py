"""The models of a federated calibration: named by digest in the invitation, by folder at each site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.policies.federation import CalibratedModels, Job

if TYPE_CHECKING:
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.models.protocols import Retrieval, Verification

MATCHER, GATE = "matcher", "gate"
RECIPES: Final = (f"calibration/{MATCHER}", f"calibration/{GATE}")


@dataclass(frozen=True, slots=True)
class OpenedModels:
    """Opened models, whose digests are those of the invitation.

    Attributes
    ----------
    retrieval, verification, generator
        The models; None where the job has none.
    learned
        Digests of the images that retrieval and verification model were trained on, as far as recorded.
    """

    retrieval: Retrieval
    verification: Verification | None
    generator: Generator | None
    learned: frozenset[str]

    @property
    def digests(self) -> str:
        """Digests of the models that score, as a calibration file names them."""
        return "+".join(one.digest for one in (self.retrieval, self.verification) if one is not None)


def check_calibration(job: Job) -> None:
    """Raise UsageError where a job and its section models do not fit together."""
    models, is_one = job.models or CalibratedModels(), job.model == "calibration"
    if not is_one:
        if job.models is not None:
            raise UsageError("Only a calibration names its models", "Leave out the section models")
        return
    if f"calibration/{job.recipe}" not in RECIPES:
        raise UsageError("A calibration has the recipe matcher or gate", "Correct its recipe")
    if job.recipe == GATE and (models.verification is None or models.generator is None):
        raise UsageError(
            "The calibration of a gate needs a generator and a verification model",
            "Name both in its section models",
        )
    if job.recipe == MATCHER and (models.generator is not None or job.classes is not None):
        raise UsageError("The calibration of matchers has no generator and no classes", "Use the recipe gate")


def digests_of(
    models: CalibratedModels | None, kind: Modality, classes: Mapping[str, Any] | None
) -> dict[str, str | None]:
    """Return the digests of the models of a job.

    Raises
    ------
    UsageError
        A folder holds no such model, one for another kind of image, or a generator of other classes.
    IntegrityError
        A model was changed.
    """
    opened = open_models(models, kind)
    check_classes(opened.generator, classes)
    return {
        "retrieval": opened.retrieval.digest,
        "verification": opened.verification.digest if opened.verification else None,
        "generator": opened.generator.digest if opened.generator else None,
    }


def check_classes(generator: Generator | None, classes: Mapping[str, Any] | None) -> None:
    """Raise UsageError where a job names other classes than its generator has."""
    named = tuple((classes or {"names": ()})["names"])
    if generator is not None and named != tuple(generator.classes):
        raise UsageError(
            "The job names other classes than its generator has, or in another order",
            "Write in its section classes the column and the classes of the generator's config.json",
        )


def open_accepted(models: CalibratedModels | None, terms: Mapping[str, Any], kind: Modality) -> OpenedModels:
    """Open the own copies of the models of an invitation.

    Raises
    ------
    UsageError
        One is missing, or is another than that of the invitation.
    """
    named = models or CalibratedModels()
    for name in ("verification", "generator"):
        if (terms["models"][name] is None) != (getattr(named, name) is None):
            raise UsageError(
                f"The policy of this site and the invitation do not agree on whether there is a {name} model",
                "Name own copies of the models of the job in the section models",
            )
    opened = open_models(models, kind)
    for name in ("retrieval", "verification", "generator"):
        model = getattr(opened, name)
        if model is not None and model.digest != terms["models"][name]:
            raise UsageError(
                f"The {name} model of this site is another than that of the invitation",
                "Fetch the model of the job, and name its folder in the section models",
            )
    return opened


def open_models(models: CalibratedModels | None, kind: Modality) -> OpenedModels:
    """Open the models of a section; without a retrieval model, the packaged one."""
    from medsanitize.verifiers.reid.models.load import open_retrieval, open_verification, trained_on
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

    named = models or CalibratedModels()
    retrieval = open_retrieval(named.retrieval) if named.retrieval else packaged_retrieval(kind)
    verification = open_verification(named.verification) if named.verification else None
    generator = _generator(named.generator) if named.generator else None
    if any(one is not None and one.modality is not kind for one in (retrieval, verification, generator)):
        raise UsageError("A model is for another kind of image than the job", "Name models of its kind")
    folders = [one for one in (named.retrieval, named.verification) if one is not None]
    return OpenedModels(retrieval, verification, generator, frozenset(map(trained_on, folders)) - {""})


def _generator(folder: Path) -> Generator:
    from medsanitize.generators.diffusion.generator import open_generator

    return open_generator(folder)
