"""The gate: may images of a generator be called verified-anonymous, and which of them match a patient?

Three splits that share no patient: what the generator was trained on, a holdout, and a calibration.
Everything is seen as the generator's preprocessed images by a retrieval and a verification model that were
trained on none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.generators.privacy_gate.candidate_search import (
    CandidateScores,
    candidates_for,
    search_candidates,
    search_radius,
)
from medsanitize.generators.privacy_gate.confidence_bounds import MatchThreshold, lowest_scores, threshold
from medsanitize.generators.privacy_gate.decide import decide_verdict, rate
from medsanitize.generators.privacy_gate.embeddings import PairedEmbeddings, Verifiers, preprocess_images
from medsanitize.generators.privacy_gate.extraction_attack import Extraction, extracted_patients, extraction
from medsanitize.generators.privacy_gate.membership_inference import (
    MembershipInference,
    likelihood_ratio,
    membership_inference,
)
from medsanitize.generators.privacy_gate.nearest_neighbour_test import (
    NearestNeighborTest,
    nearest_neighbor_test,
)
from medsanitize.generators.privacy_gate.parameters import GateParameters
from medsanitize.generators.privacy_gate.positive_controls import control_scores, copies, genuine_scores
from medsanitize.generators.privacy_gate.splits import Split, check_shared_images, check_splits, paired, sizes
from medsanitize.generators.privacy_gate.train_vs_holdout import (
    TrainHoldoutComparison,
    compare_train_holdout,
    nearest_of,
)
from medsanitize.generators.privacy_gate.verdict import Attacks, GateSubject, GateVerdict, Scores

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.verifiers.reid.models.protocols import Retrieval, Verification
    from medsanitize.verifiers.reid.training.dataset import Cancellation, TrainingProgress
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class TrainingMatches:
    """Who synthetic images are most like.

    Attributes
    ----------
    score, row
        Highest score of each image, and which training image it is with.
    matched
        Whether it reaches the threshold: such an image must go.
    """

    score: NDArray[np.float64]
    row: NDArray[np.int64]
    matched: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, repr=False)
class GateResult:
    """What became of images; everything except the verdict contains PHI.

    Attributes
    ----------
    kept
        Which images match no patient, ``(n,)``.
    nearest, score
        The training image that each is most like, and the score.
    verdict
        On the generator's images as they were drawn.
    scores
        For figures.
    """

    kept: NDArray[np.bool_]
    nearest: NDArray[np.int64]
    score: NDArray[np.float64]
    verdict: GateVerdict
    scores: Scores


@dataclass(frozen=True, slots=True, repr=False)
class PrivacyGate:
    """A gate that is calibrated for one generator.

    Attributes
    ----------
    threshold
        From which score on images match.
    """

    threshold: MatchThreshold
    verifiers: Verifiers
    terms: GateParameters
    subject: GateSubject
    patients: NDArray[np.int64]
    training: PairedEmbeddings
    compared: TrainHoldoutComparison
    genuine: NDArray[np.float64]
    controls: Mapping[str, NDArray[np.float64]]
    size: int

    @property
    def needed(self) -> tuple[str, ...]:
        """What it would take where no threshold could be calibrated: no image can pass then; else empty."""
        if not self.threshold.needed:
            return ()
        attempt = extraction(0, *self.compared.restored, self.threshold.value)
        return tuple(one for one in (self.threshold.needed, attempt.needed) if one)

    def match(self, synthetic: NDArray[np.uint8]) -> TrainingMatches:
        """Find who images are most like, ``(n, size, size)``: for those drawn after the verdict."""
        seen = self._see(synthetic)
        found = search_candidates(
            seen, self.training, self.subject.candidates, self.verifiers, "search training images"
        )
        score, row = found.best()
        return TrainingMatches(score, row, score >= self.threshold.value)

    def judge(self, synthetic: NDArray[np.uint8]) -> GateResult:
        """Judge the generator by images it drew, ``(n, size, size)``.

        How many was settled before anything was known of them, and all that were drawn are here: a bound of
        what was chosen to be judged would bound nothing.
        """
        seen = self._see(synthetic)
        candidates = self.subject.candidates
        found = search_candidates(seen, self.training, candidates, self.verifiers, "search training images")
        score, row = found.best()
        scores = self._scores(seen, found, score)
        attacks = Attacks(self._closeness(seen), self._membership(seen), self._extraction(seen, score, row))
        subject = GateSubject(self.subject.digests, {**self.subject.sizes, "images": len(seen)}, candidates)
        linked = rate(*self._linked(found))
        verdict = decide_verdict(scores, linked, attacks, subject, self.terms)
        return GateResult(score < self.threshold.value, row, score, verdict, scores)

    def _see(self, synthetic: NDArray[np.uint8]) -> PairedEmbeddings:
        import numpy as np

        if synthetic.dtype != np.uint8 or synthetic.shape[1:] != (self.size, self.size):
            raise UsageError(
                f"Synthetic images are not squares of {self.size} pixels of 8 bits",
                "Give what the generator made",
            )
        return self.verifiers.see(synthetic, "look at synthetic images")

    def _scores(self, seen: PairedEmbeddings, found: CandidateScores, score: NDArray[np.float64]) -> Scores:
        """The holdout's share of candidates is the training's, so that neither is searched more deeply."""
        own, everybody = len(self.compared.rows.holdout), max(len(self.training), 1)
        candidates = min(own, -(-self.subject.candidates * own // everybody))
        others = search_candidates(
            seen, self.compared.holdout, candidates, self.verifiers, "search holdout images"
        )
        equally = found.best_among(self.compared.rows.training)
        return Scores(self.genuine, self.controls, score, equally, others.best()[0])

    def _linked(self, found: CandidateScores) -> tuple[int, int]:
        import numpy as np

        rows = np.unique(found.rows[found.scores >= self.threshold.value])
        return len(np.unique(self.patients[rows])), len(np.unique(self.patients))

    def _closeness(self, seen: PairedEmbeddings) -> NearestNeighborTest:
        import numpy as np
        from medsanitize.verifiers.reid.index.exact import nearest

        pairs = self.compared.rows.pairs
        if not len(pairs) or not len(seen):
            return NearestNeighborTest(0.0, 0.0, len(seen), 0)
        both = np.concatenate([self.compared.training.first, self.compared.holdout.first])
        place = nearest(both, seen.first, 1)[1][:, 0]
        return nearest_neighbor_test(
            pairs[place % len(pairs)], place < len(pairs), self.compared.rows.patients
        )

    def _membership(self, seen: PairedEmbeddings) -> MembershipInference:
        highest = self.compared.rows.highest
        splits = [
            highest(likelihood_ratio(nearest_of(seen, split), others))
            for split, others in zip(
                (self.compared.training, self.compared.holdout), self.compared.others, strict=True
            )
        ]
        return membership_inference(*splits)

    def _extraction(
        self, seen: PairedEmbeddings, score: NDArray[np.float64], row: NDArray[np.int64]
    ) -> Extraction:
        limit = self.threshold.value
        extracted = extracted_patients(seen, score, self.patients[row], limit, self.verifiers)
        return extraction(extracted, *self.compared.restored, limit)


def evaluate_privacy(
    synthetic: NDArray[np.uint8],
    training: Split,
    holdout: Split,
    calibration: Split,
    retrieval: Retrieval,
    verification: Verification,
    generator: Generator,
    *,
    hears: TrainingProgress,
    stops: Cancellation,
    terms: GateParameters | None = None,
) -> GateResult:
    """Calibrate a gate and judge images by it; see `calibrate_gate` and `PrivacyGate.judge`."""
    gate = calibrate_gate(
        training, holdout, calibration, generator, retrieval, verification,
        images=len(synthetic), hears=hears, stops=stops, terms=terms,
    )  # fmt: skip
    return gate.judge(synthetic)


def calibrate_gate(
    training: Split,
    holdout: Split,
    calibration: Split,
    generator: Generator,
    retrieval: Retrieval,
    verification: Verification,
    *,
    images: int,
    hears: TrainingProgress,
    stops: Cancellation,
    terms: GateParameters | None = None,
) -> PrivacyGate:
    """Calibrate a gate: look at all splits, send controls through the generator, set the threshold.

    Parameters
    ----------
    training, holdout, calibration : Split
        What the generator was trained on, all of it, and two splits of other patients. Only patients of two
        images or more calibrate.
    images : int
        How many images are to be judged: of very many, each is compared with near training images only.

    Raises
    ------
    UsageError
        If splits share a patient or an image, one is of another length than its patients, there is no
        training image, or the models are made for different images.
    IntegrityError
        If a model gives what is no image or no number.
    """
    _check_models(generator, retrieval, verification)
    splits = {"training": training, "holdout": holdout, "calibration": calibration}
    check_splits(splits)
    terms, verifiers = terms or GateParameters(), Verifiers(retrieval, verification, hears, stops)
    squares = {
        name: preprocess_images(split.pictures, generator.size, f"read {name} images", hears, stops)
        for name, split in splits.items()
    }
    check_shared_images(squares)
    seen = verifiers.see(squares["training"], "look at training images")
    candidates = candidates_for(max(images, 1), len(seen))
    rows = paired(calibration.patients)
    own = verifiers.see(squares["calibration"][rows], "look at calibration images")
    people, classes = calibration.patients[rows], calibration.classes[rows]
    genuine = genuine_scores(own, people, search_radius(own, seen, candidates), verifiers)
    controls = {}
    copied = copies(squares["calibration"][rows], classes, generator, terms.strength, hears, stops)
    for name, made in copied.items():
        copy = verifiers.see(made, "look at controls")
        controls[name] = control_scores(copy, own, people, search_radius(copy, seen, candidates), verifiers)
    compared = compare_train_holdout(splits, squares, seen, own, generator, verifiers)
    digests = {
        "generator": generator.digest,
        "retrieval": retrieval.digest,
        "verification": verification.digest,
    }
    limit = threshold(lowest_scores(genuine, controls), terms.missed)
    subject = GateSubject(digests, {**sizes(splits), "calibrating patients": len(genuine)}, candidates)
    return PrivacyGate(
        limit, verifiers, terms, subject, training.patients, seen, compared, genuine, controls, generator.size
    )


def _check_models(generator: Generator, retrieval: Retrieval, verification: Verification) -> None:
    kinds = {generator.modality, retrieval.modality, verification.modality}
    if len(kinds) > 1:
        raise UsageError(
            f"The models are made for different images: {', '.join(sorted(kinds))}", "Use models of one kind"
        )
