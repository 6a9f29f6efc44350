"""The verdict: what was measured, clause by clause, and whether the images may carry the label."""

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
from medsanitize.generators.privacy_gate.extraction_attack import Extraction
from medsanitize.generators.privacy_gate.membership_inference import MembershipInference
from medsanitize.generators.privacy_gate.nearest_neighbour_test import NearestNeighborTest
from medsanitize.generators.privacy_gate.parameters import LABEL, GateParameters
from medsanitize.verifiers.reid.calibration import Rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GateState = Literal["passed", "failed", "insufficient_data"]
_FORMAT: Final = 1
ClauseState = Literal["met", "not_met", "not_run", "alarm"]


@dataclass(frozen=True, slots=True, repr=False)
class Scores:
    """One number a patient or an image, in no order that names anybody; for figures and for the verdict.

    Attributes
    ----------
    genuine
        Lowest score of two images of one patient, ``(patients of the calibration,)``.
    controls
        Lowest score of a copy with its original by what was done to it, each of the same patients.
    training
        Highest score of each synthetic image with a training image, ``(images,)``.
    equal, holdout
        The same with the holdout, and with as many training patients of as many images.
    """

    genuine: NDArray[np.float64]
    controls: Mapping[str, NDArray[np.float64]]
    training: NDArray[np.float64]
    equal: NDArray[np.float64]
    holdout: NDArray[np.float64]

    def threshold(self, terms: GateParameters) -> MatchThreshold:
        """The threshold that the real pairs and the controls ask for."""
        return threshold(lowest_scores(self.genuine, self.controls), terms.missed)


@dataclass(frozen=True, slots=True)
class Attacks:
    """What stands beside the bound: an alarm and two vetoes."""

    closeness: NearestNeighborTest
    membership: MembershipInference
    extraction: Extraction


@dataclass(frozen=True, slots=True)
class GateSubject:
    """What the verdict is about.

    Attributes
    ----------
    digests
        Of the models: ``generator``, ``retrieval``, ``verification``.
    sizes
        Images and patients of each split by name.
    candidates
        Training images that each synthetic image was compared with.
    """

    digests: Mapping[str, str]
    sizes: Mapping[str, int]
    candidates: int


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Whether the images may be called verified-anonymous, and everything behind it.

    Attributes
    ----------
    state
        ``passed``, ``failed``, or ``insufficient_data`` where there are too few patients or images to say.
    clauses
        In the order of the manual.
    threshold, bound
        From which score on images match; what so many matches mean.
    terms, subject
        What was asked for, and of what.
    false_match
        Share of the images that match a patient of an equally large holdout, who cannot have been copied.
    equal_match
        The same of as many training patients.
    controls
        Share of the calibration's patients of whom every copy is found, by kind.
    linked
        Rs: the share of training patients to whom an image links, before matches are removed.
    attacks
        The alarm and the vetoes.
    needed
        What it would take where it is not calibratable.
    """

    state: GateState
    clauses: tuple[Clause, ...]
    threshold: MatchThreshold
    bound: MatchBound
    terms: GateParameters
    subject: GateSubject
    false_match: Rate
    equal_match: Rate
    controls: Mapping[str, float]
    linked: Rate
    attacks: Attacks
    needed: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the images may carry the label."""
        return self.state == "passed"

    @property
    def images(self) -> int:
        """Images drawn (n)."""
        return self.bound.images

    @property
    def matches(self) -> int:
        """Images that match a training patient (k)."""
        return self.bound.matches

    @property
    def upper(self) -> float:
        """One-sided 95 % bound of the share of images that match (U)."""
        return self.bound.upper

    @property
    def copy_rate(self) -> float:
        """Bound of the share of copies among what the generator makes."""
        return self.bound.copy_rate

    @property
    def residual(self) -> float:
        """Bound of the share of copies among what is left when matches are removed."""
        return self.bound.residual

    @property
    def label(self) -> str:
        """What the images may be called; empty unless the verdict is ``passed``."""
        return LABEL if self.passed else ""

    def to_json(self) -> str:
        """Strict JSON: keys sorted, no NaN; no image, no patient, no score of anybody."""
        facts = {"format": _FORMAT, "passed": self.passed, "label": self.label, **asdict(self)}
        return json.dumps(facts, sort_keys=True, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of the verdict.

    Attributes
    ----------
    name
        What it is about.
    state
        ``not_run`` is never as good as ``met``; an ``alarm`` is reported but does not change the verdict.
    sentence
        What was found, with the numbers.
    """

    name: str
    state: ClauseState
    sentence: str
