"""Scores of calibration patients: copies with their originals, images of one patient, and of strangers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.privacy_gate.candidate_search import score_pairs
from medsanitize.generators.privacy_gate.confidence_bounds import lowest_scores
from medsanitize.generators.privacy_gate.gate_embeddings import PairedEmbeddings, Verifiers
from medsanitize.generators.privacy_gate.pooled_controls import PooledControls, PooledOrigin
from medsanitize.generators.privacy_gate.positive_controls import control_scores, copies, lowest

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.generators.privacy_gate.splits import Split
    from medsanitize.verifiers.reid.calibration import Calibration
    from numpy.typing import NDArray

# Half a million pairs of strangers; more do not change the comparison with those of other sites.
_MOST_STRANGERS: Final = 1000
_FEWEST_CONTROLS: Final = 5


@dataclass(frozen=True, slots=True, repr=False)
class GateControls:
    """The control scores from which a gate takes its threshold.

    Attributes
    ----------
    kinds
        Lowest score of each patient, by kind of control.
    lowest
        The lowest of each patient over all kinds.
    origin
        The sites of a federated calibration; None where the own patients calibrate.
    unquoted
        Why a federated calibration that was given does not hold for these images.
    """

    kinds: Mapping[str, NDArray[np.float64]]
    lowest: NDArray[np.float64]
    origin: PooledOrigin | None = None
    unquoted: str = ""


def score_controls(
    squares: NDArray[np.uint8],
    calibration: Split,
    own: PairedEmbeddings,
    generator: Generator,
    strength: float,
    verifiers: Verifiers,
    within: Callable[[PairedEmbeddings], NDArray[np.float64]],
) -> dict[str, NDArray[np.float64]]:
    """Make the positive controls of calibration images, and score them with their originals.

    Parameters
    ----------
    squares, calibration, own
        The preprocessed images, their patients and classes, and their embeddings.
    generator, strength
        Makes two kinds of controls; strength of image-to-image.
    verifiers
        The models.
    within
        Search radius of each copy, from the embeddings of the copies.
    """
    people, found = calibration.patients, {}
    made = copies(
        squares, calibration.classes, generator, strength, verifiers.progress, verifiers.cancellation, people
    )
    for name, altered in made.items():
        copy = verifiers.see(altered, "embed controls")
        found[name] = control_scores(copy, own, people, within(copy), verifiers)
    return found


def compare_everything(copy: PairedEmbeddings) -> NDArray[np.float64]:
    """Search radius of a gate that compares every image with every training image."""
    import numpy as np

    return np.full(len(copy), np.inf)


def score_patients(
    seen: PairedEmbeddings, people: NDArray[np.int64], verifiers: Verifiers
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score images of one patient, and the first images of every two patients.

    Returns
    -------
    genuine, highest
        Lowest score within each patient with two images; score of every two patients, ``(n, n)``.
    """
    import numpy as np

    one, other = _pairs_within(people)
    pairs = score_pairs(seen, one, seen, other, verifiers)
    firsts = np.sort(np.unique(people, return_index=True)[1])[:_MOST_STRANGERS]
    first, second = np.triu_indices(len(firsts), 1)
    highest = np.zeros((len(firsts), len(firsts)))
    highest[first, second] = score_pairs(seen, firsts[first], seen, firsts[second], verifiers)
    return lowest(pairs, people[one]), highest


def _pairs_within(people: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of every two images of one patient."""
    import numpy as np

    ones, others = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for patient in np.unique(people):
        rows = np.flatnonzero(people == patient)
        first, second = np.triu_indices(len(rows), 1)
        ones.append(rows[first])
        others.append(rows[second])
    return np.concatenate(ones), np.concatenate(others)


def own_or_pooled(
    controls: Mapping[str, NDArray[np.float64]],
    strangers: tuple[NDArray[np.float64], NDArray[np.float64]],
    pooled: PooledControls,
) -> GateControls:
    """Take the controls of several sites if these images score as theirs do, else the own ones.

    Parameters
    ----------
    controls
        Of the own calibration patients.
    strangers
        From `score_patients`, of the own holdout and calibration patients.
    pooled
        The federated calibration.
    """
    import numpy as np

    own = lowest_scores(controls)
    if reason := _difference(own, strangers, pooled):
        return GateControls(controls, own, unquoted=reason)
    # An own copy that scores lower lowers the threshold; the bound of the sites' patients holds for it, too.
    least = min([float(pooled.lowest[0]), *own.tolist()])
    return GateControls(pooled.kinds, np.r_[least, pooled.lowest[1:]], pooled.origin)


def _difference(
    own: NDArray[np.float64],
    strangers: tuple[NDArray[np.float64], NDArray[np.float64]],
    pooled: PooledControls,
) -> str:
    """State why the scores of other sites do not hold for these images; empty if they do."""
    from medsanitize.verifiers.reid.exchangeability import differ, difference

    here = _calibration(*strangers)
    if here is None:
        return "these images show fewer than two patients known apart"
    if reason := difference(here, pooled.strangers):
        return reason
    if len(own) >= _FEWEST_CONTROLS and differ(tuple(own.tolist()), tuple(pooled.lowest.tolist())):
        return "copies of these images score otherwise than those of its own"
    return ""


def _calibration(genuine: NDArray[np.float64], highest: NDArray[np.float64]) -> Calibration | None:
    from medsanitize.verifiers.reid.training.calibration_counts import count_scores, score_grid, strangers_of

    if len(highest) < 2:
        return None
    # On the same grid, so that rounding is no difference.
    return strangers_of(count_scores(genuine, highest, score_grid()), score_grid())
