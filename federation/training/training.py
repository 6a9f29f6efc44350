"""What a job trains, as rounds of sums, the last of which is the calibration; and the model at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.federation.training.calibrated_models import RECIPES as CALIBRATIONS
from medsanitize.federation.training.calibration import FederatedCalibration
from medsanitize.federation.training.card import FederatedCard
from medsanitize.federation.training.kinds import modality_of
from medsanitize.federation.training.statement import privacy_sentence
from medsanitize.federation.training.summed_vectors import joined_vector, separated, vector_length

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.federation.parties.identity import LocalParty
    from medsanitize.federation.training.invitation import Invitation
    from medsanitize.federation.training.job import FederatedJob
    from medsanitize.federation.training.required_attacks import AttackRounds
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.models.save import ExportedModel
    from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel
    from medsanitize.verifiers.reid.training.private_sums import PrivateLinearSums
    from medsanitize.verifiers.reid.training.sums import Arrays, SiteImages, State, Summed, SummedTraining
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
    from numpy.typing import NDArray

RECIPES: Final = ("retrieval/moments", "retrieval/moments-256", "classification/frozen")
"""Models and recipes that need sums only."""
_PRECISION, _QUERIES = "validation.map", "validation.queries"


@dataclass(frozen=True, slots=True)
class FederatedTraining:
    """The rounds of a job.

    Attributes
    ----------
    invitation
        The job.
    sums
        Its training.
    """

    invitation: Invitation
    sums: SummedTraining

    def start(self) -> State:
        """Return the state before the first round."""
        return self.sums.start()

    def asked(self, state: State) -> Mapping[str, Summed]:
        """Return what is summed in the round of a state; nothing at the end."""
        from medsanitize.verifiers.reid.training.calibration_counts import counted_scores, distance_grid
        from medsanitize.verifiers.reid.training.sums import Summed

        wanted = self.sums.asked(state)
        if wanted:
            return wanted
        if self._is_calibrated(state):
            return self.attacks.asked(state) if self.attacks else {}
        most = float(self.invitation.terms["most_images"])
        return {
            **counted_scores(int(most), distance_grid()),
            _PRECISION: Summed((), most),
            _QUERIES: Summed((), most),
        }

    @property
    def attacks(self) -> AttackRounds | None:
        """The attacks that the job requires; None without."""
        from medsanitize.federation.training.required_attacks import AttackRounds

        terms = self.invitation.terms["attacks"]
        return AttackRounds(terms, self.sums, float(self.invitation.terms["most_images"])) if terms else None

    def _is_calibrated(self, state: State) -> bool:
        return _QUERIES in state or self._is_classifier

    def contribution(self, state: State, site: SiteImages, number: int) -> NDArray[np.uint64]:
        """Compute what a site adds in the round of a number, in fixed point.

        Raises
        ------
        UsageError
            A statistic is not finite, or larger than the sum allows.
        """
        if self.sums.asked(state):
            found = self.sums.contribution(state, site, number)
        elif self.attacks and self._is_calibrated(state):
            found = self.attacks.contribution(state, site, partial(self._alike, state, site))
        else:
            found = self._scores(state, site)
        return joined_vector(found, self.asked(state), len(self.invitation.sites))

    def length(self, state: State) -> int:
        """Return the length of the vectors of a round."""
        return vector_length(self.asked(state))

    def following(self, state: State, total: NDArray[np.uint64]) -> State:
        """Return the state that follows from a sum."""
        sums = separated(total, self.asked(state))
        return self.sums.following(state, sums) if self.sums.asked(state) else {**state, **sums}

    @property
    def _is_classifier(self) -> bool:
        return bool(self.invitation.terms["model"] == "classification")

    def _scores(self, state: State, site: SiteImages) -> Arrays:
        import numpy as np
        from medsanitize.verifiers.reid.evaluation.pairwise_auc import sum_pairs
        from medsanitize.verifiers.reid.evaluation.retrieval_metrics import rank
        from medsanitize.verifiers.reid.training.calibration_counts import count_pairs, distance_grid

        scores, patients = self._pairs(state, site, site.validation)
        found = rank(scores, patients.astype(np.intp)).average_precision
        pairs = sum_pairs(scores, np.unique(patients, return_inverse=True)[1])
        return {
            **count_pairs(pairs, distance_grid()),
            _PRECISION: np.array(float(found.sum())),
            _QUERIES: np.array(float(len(found))),
        }

    def _pairs(
        self, state: State, site: SiteImages, part: TrainingDataset
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scores of all pairs of images of a part, and their patients."""
        from medsanitize.verifiers.reid.training.train import score_validation

        learned = self.sums.trained(state)
        return score_validation(
            self._exported(learned), learned, part, site.unfinished, site.progress, site.cancellation
        )

    def _alike(self, state: State, site: SiteImages, part: TrainingDataset) -> NDArray[np.float64]:
        """How alike the model finds the images of each patient of a part."""
        from medsanitize.verifiers.reid.membership.site_scores import genuine_scores

        return genuine_scores(*self._pairs(state, site, part))

    def _exported(self, learned: TrainedModel) -> ExportedModel:
        from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind
        from medsanitize.verifiers.reid.models.save import export

        modality = modality_of(self.invitation.terms)
        kind = ModelKind(str(self.invitation.terms["model"]))
        facts = dict(learned.network)
        config = ModelConfig(
            kind,
            modality,
            facts,
            learned.dimension,
            learned.preprocessing,
            learned.scoring,
            classes=class_names(self.invitation.terms),
        )
        return export(config, learned.weights)

    def save(self, state: State, output: Path, statement: str) -> str:
        """Write the model of the last state, and return its digest: equal at the server and all sites.

        Raises
        ------
        ModelRefused
            It does not withstand an attack that the job requires; nothing is written.
        """
        from medsanitize.federation.training.required_attacks import check_passed
        from medsanitize.verifiers.reid.models.model_folder import CARD
        from medsanitize.verifiers.reid.models.save import ModelDocuments, save_model
        from medsanitize.verifiers.reid.training.sums import COUNTS

        attacked = self.attacks.results(state) if self.attacks else ()
        check_passed(attacked)
        learned, recipe = self.sums.trained(state), recipe_of(self.invitation.terms)
        exported = self._exported(learned)
        training: dict[str, Any] = {
            "counts": {name: round(float(state[name])) for name in COUNTS},
            "excluded": {},
            "federation": {
                # Not the digest of the job, which is random: the same images give the same model.
                "sites": len(self.invitation.sites),
                "aggregation": self.invitation.terms["aggregation"],
            },
            # As it is written: JSON has no tuples.
            "recipe": json.loads(json.dumps(asdict(recipe))),
            "start": "packaged",
        }
        if attacked:
            training["attacks"] = {one.name: one.to_json() for one in attacked}
        if self.invitation.terms["privacy"] is not None:
            training["privacy"] = self.sums.plan(state).facts()  # type: ignore[attr-defined]
            statement += " " + privacy_sentence(training["privacy"])
        if self._is_classifier:
            documents = self._classifier_documents(exported, training, learned)
        else:
            documents = self._retrieval_documents(exported, training, learned, state)
        documents[CARD] += f"\n## Federated training\n\n{statement}\n".encode()
        if attacked:
            lines = "\n".join(one.sentence() for one in attacked)
            documents[CARD] += f"\n## Attacks of all sites\n\n{lines}\n".encode()
        return save_model(output, exported, learned.score, ModelDocuments(training, documents))

    def _retrieval_documents(
        self, exported: ExportedModel, training: Mapping[str, Any], learned: TrainedModel, state: State
    ) -> dict[str, bytes]:
        from medsanitize.verifiers.reid.training.calibration_counts import calibration_of, distance_grid
        from medsanitize.verifiers.reid.training.train import documents_of

        measured = float(state[_PRECISION] / max(float(state[_QUERIES]), 1.0))
        log = ({"epoch": 1, "loss": 1 - measured, "map_at_r": measured},)
        calibration = calibration_of(state, distance_grid())
        recipe = recipe_of(self.invitation.terms)
        return documents_of(exported.config, recipe, training, replace(learned, log=log), calibration)

    def _classifier_documents(
        self, exported: ExportedModel, training: Mapping[str, Any], learned: TrainedModel
    ) -> dict[str, bytes]:
        from medsanitize.verifiers.reid.training.train_classifier import classifier_documents

        recipe = recipe_of(self.invitation.terms)
        return classifier_documents(exported.config, recipe, training, learned)


def recipe_of(terms: Mapping[str, Any]) -> Any:
    """Return the recipe of a job, with its seed.

    Raises
    ------
    UsageError
        If it needs more than sums.
    """
    from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe
    from medsanitize.verifiers.reid.training.recipes import RETRIEVAL

    if f"{terms['model']}/{terms['recipe']}" not in RECIPES:
        raise UsageError(
            "The recipe cannot be trained by sums over sites",
            f"Use one of {', '.join((*RECIPES, *CALIBRATIONS))}",
        )
    if terms["model"] == "classification":
        return replace(LinearRecipe(), seed=int(terms["seed"]))
    return replace(RETRIEVAL[str(terms["recipe"])], seed=int(terms["seed"]))


def class_names(terms: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the classes of a job; none if it trains no classifier."""
    return tuple(str(name) for name in (terms["classes"] or {"names": ()})["names"])


def training_of(
    invitation: Invitation, party: LocalParty | None = None, folder: Path | None = None
) -> FederatedJob:
    """Return what a job computes.

    Parameters
    ----------
    invitation : Invitation
        The job.
    party : LocalParty, optional
        Who signs a calibration.
    folder : Path, optional
        Folder of a site, in which the key of its noise is kept.

    Raises
    ------
    UsageError
        The recipe needs more than sums, or the kind of the images is unknown.
    """
    from medsanitize.verifiers.reid.training.linear_sums import LinearSums
    from medsanitize.verifiers.reid.training.moment_sums import MomentSums

    terms = invitation.terms
    if terms["model"] == "card":
        return FederatedCard(invitation)
    if f"{terms['model']}/{terms['recipe']}" in CALIBRATIONS:
        modality_of(terms)
        return FederatedCalibration(invitation, party)
    recipe, modality, most = recipe_of(terms), modality_of(terms), int(terms["most_images"])
    if terms["privacy"] is not None:
        return FederatedTraining(invitation, _private(invitation, recipe, modality, folder))
    if terms["model"] == "classification":
        classes = len(class_names(terms))
        return FederatedTraining(invitation, LinearSums(recipe, modality, classes, most))
    return FederatedTraining(invitation, MomentSums(recipe, modality, most))


def _private(
    invitation: Invitation, recipe: Any, modality: Modality, folder: Path | None
) -> PrivateLinearSums:
    from medsanitize.verifiers.reid.training.keyed_noise import kept_key
    from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget
    from medsanitize.verifiers.reid.training.private_sums import PrivateLinearSums, PrivateTerms

    terms, asked = invitation.terms, invitation.terms["privacy"]
    budget = PrivacyBudget(float(asked["epsilon"]), float(asked["delta"]))
    promised = PrivateTerms(budget, float(asked["clip"]), invitation.aggregation(0).threshold)
    classes, most = len(class_names(terms)), int(terms["most_images"])
    key = None if folder is None else kept_key(folder)
    return PrivateLinearSums(recipe, modality, classes, most, promised, key)
