"""Compare equal samples of training and holdout: distances to other patients, and restoration from noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.generators.privacy_gate.candidate_search import score_pairs
from medsanitize.generators.privacy_gate.extraction_attack import MOST_HINTS, STRENGTH
from medsanitize.generators.privacy_gate.gate_embeddings import PairedEmbeddings, Verifiers
from medsanitize.generators.privacy_gate.matched_samples import MatchedSamples, match_samples
from medsanitize.generators.privacy_gate.positive_controls import image_to_image
from medsanitize.generators.privacy_gate.splits import Split

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.diffusion.generator import Generator
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class TrainHoldoutComparison:
    """Equal samples of training and holdout, measured before any synthetic image is compared.

    Attributes
    ----------
    rows
        The selected images of both splits.
    training, holdout
        Their embeddings, in the order of the rows.
    others
        Distance of each image to the nearest calibration image; training, then holdout.
    restored
        Scores of restored images with their originals; training, then holdout.
    """

    rows: MatchedSamples
    training: PairedEmbeddings
    holdout: PairedEmbeddings
    others: tuple[NDArray[np.float64], NDArray[np.float64]]
    restored: tuple[NDArray[np.float64], NDArray[np.float64]]


def compare_train_holdout(
    splits: Mapping[str, Split],
    squares: Mapping[str, NDArray[np.uint8]],
    training: PairedEmbeddings,
    holdout: PairedEmbeddings,
    calibration: PairedEmbeddings,
    generator: Generator,
    verifiers: Verifiers,
) -> TrainHoldoutComparison:
    """Measure distances to other patients and restoration from noise on equal samples.

    Parameters
    ----------
    splits, squares
        The splits by name, and their preprocessed images.
    training, holdout, calibration
        Embeddings of these splits.
    generator
        Restores noised images.
    verifiers
        The models.
    """
    import numpy as np

    rows = match_samples(splits["training"].patients, splits["holdout"].patients)
    own = training.part(rows.training)
    other = holdout.part(rows.holdout)
    # One hint per patient: the test counts patients.
    hints = rows.first_of_each()[:MOST_HINTS]
    restored = []
    for name, chosen, split in (("training", rows.training, own), ("holdout", rows.holdout, other)):
        given = chosen[hints]
        verifiers.progress.stage("restore noised images", len(given))
        made = image_to_image(
            squares[name][given],
            splits[name].classes[given],
            generator,
            STRENGTH,
            verifiers.progress,
            verifiers.cancellation,
        )
        seen = verifiers.see(made, "embed restored images")
        numbers = np.arange(len(hints), dtype=np.int64)
        verifiers.progress.stage("score restored images", len(hints))
        restored.append(score_pairs(seen, numbers, split.part(hints), numbers, verifiers))
    others = (nearest_of(calibration, own), nearest_of(calibration, other))
    return TrainHoldoutComparison(rows, own, other, others, (restored[0], restored[1]))


def nearest_of(among: PairedEmbeddings, of: PairedEmbeddings) -> NDArray[np.float64]:
    """Distance of each image to its nearest image among others, ``(n,)``; 1 if there are none."""
    import numpy as np
    from medsanitize.verifiers.reid.index.exact import nearest

    # A constant: it cancels when the ratios of patients are compared.
    if not len(among) or not len(of):
        return np.ones(len(of))
    return nearest(among.first, of.first, 1)[0][:, 0].astype(np.float64)
