"""The privacy gate: calibrate on three splits, then judge images of a generator.

The splits share no patient: the training data of the generator, a holdout and a calibration split. All
images are preprocessed as for the generator and compared by a retrieval and a verification model that were
trained on none of these patients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.generators.privacy_gate.calibration_scores import (
    GateControls,
    own_or_pooled,
    score_controls,
    score_patients,
)
from medsanitize.generators.privacy_gate.candidate_search import (
    CandidateScores,
    candidates_for,
    score_pairs,
    search_candidates,
    search_radius,
)
from medsanitize.generators.privacy_gate.confidence_bounds import (
    MatchThreshold,
    lowest_scores,
    miss_rate,
    permitted_match_rate,
    rate,
    share_of,
    threshold,
)
from medsanitize.generators.privacy_gate.decide import data_needed, decide_verdict
from medsanitize.generators.privacy_gate.draw_plan import DrawPlan, images_for, plan_draw
from medsanitize.generators.privacy_gate.excess_test import ExcessTest, excess_test
from medsanitize.generators.privacy_gate.extraction_attack import Extraction, extracted_patients, extraction
from medsanitize.generators.privacy_gate.gate_embeddings import (
    PairedEmbeddings,
    Verifiers,
    joined,
    preprocess_images,
)
from medsanitize.generators.privacy_gate.membership_inference import (
    MembershipInference,
    likelihood_ratio,
    membership_inference,
)
from medsanitize.generators.privacy_gate.nearest_neighbor_test import (
    NearestNeighborTest,
    nearest_neighbor_test,
)
from medsanitize.generators.privacy_gate.parameters import FEWEST_JUDGED, MOST_JUDGED, GateParameters
from medsanitize.generators.privacy_gate.pooled_controls import GateSettings, PooledControls
from medsanitize.generators.privacy_gate.reidentification import (
    Verification as VerifiedStrangers,
)
from medsanitize.generators.privacy_gate.reidentification import (
    exposures,
    highest_verification,
    verification_of_strangers,
)
from medsanitize.generators.privacy_gate.splits import Split, check_shared_images, check_splits, sizes
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
    controls
        Lowest scores of the calibration patients.
    strangers, verified
        Highest score of each holdout image with a training image; verification scores of real images.
    """

    threshold: MatchThreshold
    verifiers: Verifiers
    terms: GateParameters
    subject: GateSubject
    patients: NDArray[np.int64]
    training: PairedEmbeddings
    compared: TrainHoldoutComparison
    controls: GateControls
    strangers: NDArray[np.float64]
    verified: VerifiedStrangers

    @property
    def plan(self) -> DrawPlan:
        """Number of images to judge, which no synthetic image influences."""
        matched = share_of(self.strangers >= self.threshold.value)
        return plan_draw(self.threshold.patients, matched, self.terms)

    @property
    def needed(self) -> tuple[str, ...]:
        """Data missing for a verdict; empty if images can pass. Otherwise sampling is in vain."""
        import numpy as np

        # Attacks on no image, and an exposure of none: what is missing does not depend on the images.
        nothing = self.training.part(np.empty(0, np.int64))
        attacks = Attacks(
            self._closeness(nothing),
            excess_test(set(), set(), self.compared.rows.patients),
            self._membership(nothing),
            self._restoration((0, 0)),
        )
        known = exposures(np.empty(0), self.verified)
        return data_needed(self.threshold.patients, self.plan, attacks, known, self.subject, self.terms)

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
        selected images would be invalid. `plan` has the number to judge; more are allowed.
        """
        seen = self._see(synthetic)
        candidates = self.subject.candidates
        found = search_candidates(seen, self.training, candidates, self.verifiers, "search training images")
        others = self._search_holdout(seen)
        score, row = found.best()
        equally = found.best_among(self.compared.rows.training)
        scores = Scores(
            self.controls.kinds, score, equally, others.best()[0], self.strangers, self.controls.lowest
        )
        attacks = Attacks(
            self._closeness(seen),
            self._excess(found, others),
            self._membership(seen),
            self._restoration(self._extracted(seen, found, others)),
        )
        exposed = highest_verification(seen, self.training, candidates, self.verifiers)
        # The verdict states the number of images that were judged, not the number planned.
        subject = replace(self.subject, sizes={**self.subject.sizes, "images": len(seen)})
        linked = rate(*self._linked(found))
        verdict = decide_verdict(
            scores, linked, attacks, exposures(exposed, self.verified), subject, self.terms
        )
        return GateResult(score < self.threshold.value, row, score, verdict, scores)

    def _see(self, synthetic: NDArray[np.uint8]) -> PairedEmbeddings:
        import numpy as np

        size = self.subject.size
        if synthetic.dtype != np.uint8 or synthetic.shape[1:] != (size, size):
            raise UsageError(
                f"Synthetic images are not 8-bit images of {size} x {size} pixels",
                "Pass the images as the generator returned them",
            )
        return self.verifiers.see(synthetic, "embed synthetic images")

    def _search_holdout(self, seen: PairedEmbeddings) -> CandidateScores:
        """Scores with the holdout's equal sample, which is searched as deeply as that of training."""
        own, everybody = len(self.compared.rows.holdout), max(len(self.training), 1)
        # Rounded up: the holdout's share of candidates is at least the one of training.
        candidates = min(own, -(-self.subject.candidates * own // everybody))
        return search_candidates(
            seen, self.compared.holdout, candidates, self.verifiers, "search holdout images"
        )

    def _excess(self, found: CandidateScores, others: CandidateScores) -> ExcessTest:
        import numpy as np

        rows, limit = self.compared.rows, self.threshold.value
        reached = np.unique(found.rows[found.scores >= limit])
        ours = set(rows.pairs[np.isin(rows.training, reached)].tolist())
        theirs = set(rows.pairs[np.unique(others.rows[others.scores >= limit])].tolist())
        return excess_test(ours, theirs, rows.patients)

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

    def _extracted(
        self, seen: PairedEmbeddings, found: CandidateScores, others: CandidateScores
    ) -> tuple[int, int]:
        """Patients of training and of the holdout who were found twice."""
        import numpy as np

        # As many as planned, also if more are wanted: the more images, the more are alike by chance.
        count = min(len(seen), max(self.plan.images, 1))
        part = np.arange(count, dtype=np.int64) * len(seen) // count if count else np.empty(0, np.int64)
        limit, twice = self.threshold.value, []
        self.verifiers.progress.stage("compare draws that match", None)
        for result, whose in ((found, self.patients), (others, self.compared.rows.pairs)):
            score, row = result.best()
            score, row = score[part], row[part]
            named = np.where(row >= 0, whose[row], -1) if len(whose) else row
            twice.append(len(extracted_patients(score, named, limit, partial(self._alike, seen.part(part)))))
        return twice[0], twice[1]

    def _alike(
        self, seen: PairedEmbeddings, one: NDArray[np.int64], other: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return score_pairs(seen, one, seen, other, self.verifiers)

    def _restoration(self, blind: tuple[int, int]) -> Extraction:
        import numpy as np

        patients = len(np.unique(self.patients)), self.compared.rows.patients
        return extraction(blind, patients, *self.compared.restored, self.threshold.value)


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
    pooled: PooledControls | None = None,
) -> PrivacyGate:
    """Calibrate a gate: embed all splits, make positive controls with the generator, set the threshold.

    Parameters
    ----------
    training, holdout, calibration : Split
        All images that the generator was trained on, and two splits of other patients.
    generator : Generator
        The generator to be judged.
    retrieval, verification
        Models for images of the same modality, trained on none of the patients.
    images : int
        Number of images that are wanted; with those that the residual takes, it determines the number of
        candidates per image.
    progress, cancellation
        Progress and cancellation.
    terms : GateParameters, optional
        Parameters of the verdict.
    pooled : PooledControls, optional
        A federated calibration, which takes the place of the calibration split if its images score as these
        do.

    Raises
    ------
    UsageError
        If splits share a patient or an image, the lengths within a split differ, there is no training image,
        the models are for different modalities, or the federated calibration was made with others.
    IntegrityError
        If a model returns an invalid image or a score that is not finite.
    """
    import numpy as np

    _check_models(generator, retrieval, verification)
    splits = {"training": training, "holdout": holdout, "calibration": calibration}
    check_splits(splits)
    terms, verifiers = terms or GateParameters(), Verifiers(retrieval, verification, progress, cancellation)
    if pooled is not None:
        pooled.require_settings(
            GateSettings(generator.digest, retrieval.digest, verification.digest, terms.strength)
        )
    squares = _at_size_of(generator, splits, progress, cancellation)
    seen = verifiers.see(squares["training"], "embed training images")
    people = calibration.patients
    candidates = candidates_for(max(images, _fewest_images(calibration, terms)), len(seen))
    if pooled is not None:
        # The copies of other sites were not searched among these training images.
        candidates = len(seen)
    own = verifiers.see(squares["calibration"], "embed calibration images")
    controls = score_controls(
        squares["calibration"], calibration, own, generator, terms.strength, verifiers,
        lambda copy: search_radius(copy, seen, candidates),
    )  # fmt: skip
    others = verifiers.see(squares["holdout"], "embed holdout images")
    strangers = search_candidates(others, seen, candidates, verifiers, "search strangers").best()[0]
    verified = verification_of_strangers(
        seen, (others, holdout.patients), (own, people), candidates, verifiers
    )
    compared = compare_train_holdout(splits, squares, seen, others, own, generator, verifiers)
    chosen = GateControls(controls, lowest_scores(controls))
    if pooled is not None:
        known = joined(others, own), np.concatenate([holdout.patients, people])
        chosen = own_or_pooled(controls, score_patients(*known, verifiers), pooled)
    limit = threshold(chosen.lowest, terms.confidence)
    digests = {
        "generator": generator.digest,
        "retrieval": retrieval.digest,
        "verification": verification.digest,
    }
    subject = GateSubject(digests, sizes(splits), candidates, generator.size, chosen.origin, chosen.unquoted)
    return PrivacyGate(
        limit, verifiers, terms, subject, training.patients, seen, compared, chosen, strangers, verified
    )


def _at_size_of(
    generator: Generator, splits: Mapping[str, Split], progress: Progress, cancellation: Cancellation
) -> dict[str, NDArray[np.uint8]]:
    """Preprocess all splits at the generator's size: a difference in resolution would separate them."""
    squares = {
        name: preprocess_images(split.pictures, generator.size, f"read {name} images", progress, cancellation)
        for name, split in splits.items()
    }
    check_shared_images(squares)
    return squares


def _fewest_images(calibration: Split, terms: GateParameters) -> int:
    """Number of images that the residual takes if none of them matches, at most those that are judged."""
    import numpy as np

    missed = miss_rate(len(np.unique(calibration.patients)), terms.confidence)
    if missed >= 1:
        return 1
    least = images_for(0, permitted_match_rate(terms.residual, missed), terms.confidence)
    return min(max(least, FEWEST_JUDGED), MOST_JUDGED)


def _check_models(generator: Generator, retrieval: Retrieval, verification: Verification) -> None:
    # A model of another modality gives scores, but none that mean anything.
    kinds = {generator.modality, retrieval.modality, verification.modality}
    if len(kinds) > 1:
        raise UsageError(
            f"The models are for different modalities: {', '.join(sorted(kinds))}",
            "Use models for the same modality",
        )
