"""The privacy gate: calibrate on three splits, then judge images of a generator.

The splits share no patient: the training data of the generator, a holdout and a calibration split. All
images are preprocessed as for the generator and compared by a retrieval and a verification model that were
trained on none of these patients.
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
from medsanitize.generators.privacy_gate.extraction_attack import Extraction, extracted_patients, extraction
from medsanitize.generators.privacy_gate.gate_embeddings import PairedEmbeddings, Verifiers, preprocess_images
from medsanitize.generators.privacy_gate.membership_inference import (
    MembershipInference,
    likelihood_ratio,
    membership_inference,
)
from medsanitize.generators.privacy_gate.nearest_neighbor_test import (
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
    from medsanitize.progress import Cancellation, Progress
    from medsanitize.verifiers.reid.models.protocols import Retrieval, Verification
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class TrainingMatches:
    """Most similar training images of synthetic images. Contains PHI.

    Attributes
    ----------
    score, row
        Highest score of each image, and the row of that training image.
    matched
        Whether the score reaches the threshold; such an image must be removed.
    """

    score: NDArray[np.float64]
    row: NDArray[np.int64]
    matched: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, repr=False)
class GateResult:
    """Result of the gate; everything except the verdict contains PHI.

    Attributes
    ----------
    kept
        Whether each image matches no patient, ``(n,)``.
    nearest, score
        Most similar training image of each image, and the score.
    verdict
        On the generator, from all images before removal.
    scores
        Input of the score plot.
    """

    kept: NDArray[np.bool_]
    nearest: NDArray[np.int64]
    score: NDArray[np.float64]
    verdict: GateVerdict
    scores: Scores


@dataclass(frozen=True, slots=True, repr=False)
class PrivacyGate:
    """A gate calibrated for one generator.

    Attributes
    ----------
    threshold
        Score from which on images match.
    verifiers
        The models, with progress and cancellation.
    terms, subject
        Parameters, and models and sizes of the splits.
    patients, training
        Patient and embeddings of each training image.
    compared
        Equal samples of training and holdout.
    genuine, controls
        Lowest score of each calibration patient: of real pairs, and of each kind of positive control.
    size
        Width and height of the generator's images in pixels.
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
        """Data missing for a calibration; empty if the gate is calibrated. Otherwise no image can pass."""
        if not self.threshold.needed:
            return ()
        # Reported together, so that the user learns everything that is missing before sampling.
        attempt = extraction(0, *self.compared.restored, self.threshold.value)
        return tuple(one for one in (self.threshold.needed, attempt.needed) if one)

    def match(self, synthetic: NDArray[np.uint8]) -> TrainingMatches:
        """Find the most similar training images of images ``(n, size, size)`` generated after the verdict."""
        seen = self._see(synthetic)
        found = search_candidates(
            seen, self.training, self.subject.candidates, self.verifiers, "search training images"
        )
        score, row = found.best()
        return TrainingMatches(score, row, score >= self.threshold.value)

    def judge(self, synthetic: NDArray[np.uint8]) -> GateResult:
        """Judge the generator by a sample of its images, ``(n, size, size)``.

        The number of images must be fixed before any is compared, and all of them must be given: a bound from
        selected images would be invalid.
        """
        seen = self._see(synthetic)
        candidates = self.subject.candidates
        found = search_candidates(seen, self.training, candidates, self.verifiers, "search training images")
        score, row = found.best()
        scores = self._scores(seen, found, score)
        attacks = Attacks(self._closeness(seen), self._membership(seen), self._extraction(seen, score, row))
        # The verdict states the number of images that were judged, not the number planned.
        subject = GateSubject(self.subject.digests, {**self.subject.sizes, "images": len(seen)}, candidates)
        linked = rate(*self._linked(found))
        verdict = decide_verdict(scores, linked, attacks, subject, self.terms)
        return GateResult(score < self.threshold.value, row, score, verdict, scores)

    def _see(self, synthetic: NDArray[np.uint8]) -> PairedEmbeddings:
        import numpy as np

        if synthetic.dtype != np.uint8 or synthetic.shape[1:] != (self.size, self.size):
            raise UsageError(
                f"Synthetic images are not 8-bit images of {self.size} x {self.size} pixels",
                "Pass the images as the generator returned them",
            )
        return self.verifiers.see(synthetic, "embed synthetic images")

    def _scores(self, seen: PairedEmbeddings, found: CandidateScores, score: NDArray[np.float64]) -> Scores:
        """Scores with equal samples of training and holdout, which are searched equally deeply."""
        own, everybody = len(self.compared.rows.holdout), max(len(self.training), 1)
        # Rounded up: the holdout's share of candidates is at least the one of training.
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
        # Training rows first: the row of a pair and its split follow from the index.
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
    progress: Progress,
    cancellation: Cancellation,
    terms: GateParameters | None = None,
) -> GateResult:
    """Calibrate a gate and judge images; see `calibrate_gate` and `PrivacyGate.judge`."""
    gate = calibrate_gate(
        training, holdout, calibration, generator, retrieval, verification,
        images=len(synthetic), progress=progress, cancellation=cancellation, terms=terms,
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
    progress: Progress,
    cancellation: Cancellation,
    terms: GateParameters | None = None,
) -> PrivacyGate:
    """Calibrate a gate: embed all splits, make positive controls with the generator, set the threshold.

    Parameters
    ----------
    training, holdout, calibration : Split
        All images that the generator was trained on, and two splits of other patients. Only calibration
        patients with at least two images are used.
    generator : Generator
        The generator to be judged.
    retrieval, verification
        Models for images of the same modality, trained on none of the patients.
    images : int
        Number of images to be judged; determines the number of candidates per image.
    progress, cancellation
        Progress and cancellation.
    terms : GateParameters, optional
        Parameters of the verdict.

    Raises
    ------
    UsageError
        If splits share a patient or an image, the lengths within a split differ, there is no training image,
        or the models are for different modalities.
    IntegrityError
        If a model returns an invalid image or a score that is not finite.
    """
    _check_models(generator, retrieval, verification)
    splits = {"training": training, "holdout": holdout, "calibration": calibration}
    check_splits(splits)
    terms, verifiers = terms or GateParameters(), Verifiers(retrieval, verification, progress, cancellation)
    # All splits at the generator's size: a difference in resolution would separate them.
    squares = {
        name: preprocess_images(split.pictures, generator.size, f"read {name} images", progress, cancellation)
        for name, split in splits.items()
    }
    check_shared_images(squares)
    seen = verifiers.see(squares["training"], "embed training images")
    candidates = candidates_for(max(images, 1), len(seen))
    # A genuine pair needs two images of a patient.
    rows = paired(calibration.patients)
    own = verifiers.see(squares["calibration"][rows], "embed calibration images")
    people, classes = calibration.patients[rows], calibration.classes[rows]
    genuine = genuine_scores(own, people, search_radius(own, seen, candidates), verifiers)
    controls = {}
    copied = copies(squares["calibration"][rows], classes, generator, terms.strength, progress, cancellation)
    for name, made in copied.items():
        copy = verifiers.see(made, "embed controls")
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
    # A model of another modality gives scores, but none that mean anything.
    kinds = {generator.modality, retrieval.modality, verification.modality}
    if len(kinds) > 1:
        raise UsageError(
            f"The models are for different modalities: {', '.join(sorted(kinds))}",
            "Use models for the same modality",
        )
