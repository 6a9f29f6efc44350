"""The verdict: measurements, clauses, and whether the images may carry the label."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

from medsanitize.generators.privacy_gate.confidence_bounds import (
    MatchBound,
    MatchThreshold,
    lowest_scores,
    threshold,
)
from medsanitize.generators.privacy_gate.draw_plan import DrawPlan
from medsanitize.generators.privacy_gate.excess_test import ExcessTest
from medsanitize.generators.privacy_gate.extraction_attack import Extraction
from medsanitize.generators.privacy_gate.membership_inference import MembershipInference
from medsanitize.generators.privacy_gate.nearest_neighbor_test import NearestNeighborTest
from medsanitize.generators.privacy_gate.parameters import LABEL, GateParameters
from medsanitize.generators.privacy_gate.pooled_controls import PooledOrigin
from medsanitize.generators.privacy_gate.reidentification import Exposure
from medsanitize.verifiers.reid.calibration import Rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GateState = Literal["passed", "failed", "insufficient_data"]
# Version of the JSON form.
_FORMAT: Final = 2
ClauseState = Literal["met", "not_met", "not_run", "alarm", "inconclusive", "reported"]


@dataclass(frozen=True, slots=True, repr=False)
class Scores:
    """One score per patient or image, without identifiers.

    Attributes
    ----------
    controls
        Lowest score of each calibration patient's copies with their originals, by kind of control.
    training
        Highest score of each synthetic image with a training image, ``(images,)``.
    equal, holdout
        The same with an equal sample of training patients, and with the holdout.
    strangers
        Highest score of each holdout image with a training image.
    lowest
        Lowest score of each patient over all kinds of control, where it is not that of `controls`: counts by
        kind do not tell which scores are of one patient.
    """

    controls: Mapping[str, NDArray[np.float64]]
    training: NDArray[np.float64]
    equal: NDArray[np.float64]
    holdout: NDArray[np.float64]
    strangers: NDArray[np.float64]
    lowest: NDArray[np.float64] | None = None

    def threshold(self, terms: GateParameters) -> MatchThreshold:
        """The threshold that the positive controls require."""
        lowest = lowest_scores(self.controls) if self.lowest is None else self.lowest
        return threshold(lowest, terms.confidence)


@dataclass(frozen=True, slots=True)
class Attacks:
    """Tests in addition to the bound: an alarm and three vetoes."""

    closeness: NearestNeighborTest
    excess: ExcessTest
    membership: MembershipInference
    extraction: Extraction


@dataclass(frozen=True, slots=True)
class GateSubject:
    """What is judged.

    Attributes
    ----------
    digests
        Digests of the models: ``generator``, ``retrieval``, ``verification``.
    sizes
        Number of images and patients by split.
    candidates
        Training images that each synthetic image was compared with.
    size
        Width and height of the images in pixels.
    pooled
        The sites whose patients calibrated the gate; None where the own calibration split did.
    unquoted
        Why a federated calibration that was given does not hold for these images.
    """

    digests: Mapping[str, str]
    sizes: Mapping[str, int]
    candidates: int
    size: int
    pooled: PooledOrigin | None = None
    unquoted: str = ""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Verdict of the gate with everything it is based on. Contains no PHI.

    Attributes
    ----------
    state
        ``passed``, ``failed``, or ``insufficient_data`` if there are too few patients or images.
    clauses
        In the order of the manual.
    threshold, bound
        The match threshold, and the bounds that follow from the matches.
    terms, subject, plan
        Parameters, what was judged, and how the number of images was determined.
    false_match
        Share of the images that match a holdout patient, who cannot have been copied.
    equal_match
        Share of the images that match a patient of an equal sample of training.
    strangers
        Share of the holdout images that match a training patient.
    controls
        Share of calibration patients all of whose copies are found, by kind of control.
    linked
        Rs: share of training patients to whom an image links, before matches are removed.
    attacks
        The alarm and the vetoes.
    exposures
        How many images could be taken for a training patient on another day, by false match rate.
    needed
        Data missing for a verdict.
    next_steps
        What would establish the residual, with the numbers of this data set.
    """

    state: GateState
    clauses: tuple[Clause, ...]
    threshold: MatchThreshold
    bound: MatchBound
    terms: GateParameters
    subject: GateSubject
    plan: DrawPlan
    false_match: Rate
    equal_match: Rate
    strangers: Rate
    controls: Mapping[str, float]
    linked: Rate
    attacks: Attacks
    exposures: tuple[Exposure, ...]
    needed: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the images may carry the label."""
        return self.state == "passed"

    @property
    def images(self) -> int:
        """Number of generated images (N)."""
        return self.bound.images

    @property
    def matches(self) -> int:
        """Number of images that match a training patient (k)."""
        return self.bound.matches

    @property
    def upper(self) -> float:
        """Upper bound of the share of matching images (U)."""
        return self.bound.upper

    @property
    def copy_rate(self) -> float:
        """Upper bound of the share of copies among the generator's images."""
        return self.bound.copy_rate

    @property
    def residual(self) -> float:
        """Upper bound of the share of copies after matches are removed."""
        return self.bound.residual

    @property
    def label(self) -> str:
        """The label of the images; empty unless the verdict is ``passed``."""
        return LABEL if self.passed else ""

    def to_json(self) -> str:
        """Return strict JSON: sorted keys, no NaN, no images and no individual scores."""
        facts = {"format": _FORMAT, "passed": self.passed, "label": self.label, "alpha": self.terms.alpha}
        # NaN is not JSON, and strict parsers reject the whole document.
        return json.dumps({**facts, **asdict(self)}, sort_keys=True, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of the verdict.

    Attributes
    ----------
    name
        Subject of the clause.
    state
        ``not_run`` never counts as ``met``; an ``alarm`` is reported but does not change the verdict, nor
        does
        what is only ``reported``; ``inconclusive`` counts as the policy says.
    sentence
        The finding, with its numbers.
    """

    name: str
    state: ClauseState
    sentence: str
