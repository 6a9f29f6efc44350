"""Synthetic images measured beside patients the generator never saw: figures, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError
from medsanitize.generators.privacy_gate.embeddings import preprocess_images
from medsanitize.generators.quality.metrics import Quality, Sample, quality
from medsanitize.generators.quality.report import neighbours_section, quality_section
from medsanitize.verifiers.html.page import Section

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.privacy_gate.splits import Split
    from medsanitize.verifiers.reid.training.dataset import Cancellation, TrainingProgress
    from numpy.typing import NDArray

MOST: Final = 1_000
"""Images of either side that are compared at most: distances grow with the product of the sides."""
_SEED: Final = 20_241_023


@dataclass(frozen=True, slots=True, repr=False)
class QualityResult:
    """How good synthetic images are.

    Attributes
    ----------
    quality, unmeasured
        None where it was not measured, and why not.
    of_all
        Whether it is that of all that were drawn, as none or too few of them are given.
    beside
        Some of them beside the nearest real images: it shows patients. None where it was not asked for, or
        nothing was measured.
    """

    quality: Quality | None
    unmeasured: str
    of_all: bool
    beside: Section | None = None


def measure(
    made: Sample, holdout: Split, hears: TrainingProgress, stops: Cancellation, *, of_all: bool, nearest: bool
) -> QualityResult:
    """Measure synthetic images beside those of a holdout, of the same classes where they have any.

    The same images give the same figures, on one thread. Of more than `MOST` of a side, so many are drawn at
    random.

    Parameters
    ----------
    made : Sample
        The synthetic images; their size is that of the comparison.
    holdout : Split
        Patients whom the generator never saw.
    of_all : bool
        See `QualityResult`.
    nearest : bool
        Whether to find the nearest real images too, for the holder's page.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    of_class = made.classes
    alike = np.ones(len(holdout), np.bool_) if of_class is None else np.isin(holdout.classes, of_class)
    rows = np.flatnonzero(alike)
    rows = rows[_some(len(rows))].astype(np.int64)
    size = made.images.shape[1]
    squares = preprocess_images(holdout.pictures, size, "read holdout images", hears, stops, rows)
    real = Sample(squares, None if of_class is None else holdout.classes[rows], holdout.patients[rows])
    kept = _some(len(made.images))
    ours = Sample(made.images[kept], None if of_class is None else of_class[kept])
    # A product of matrices rounds otherwise on another number of threads.
    with threadpool_limits(1, "blas"):
        try:
            found = quality(real, ours, hears, stops)
        except UsageError as error:
            return QualityResult(None, f"{error.what}. {error.remedy}.", of_all)
        return QualityResult(
            found, "", of_all, neighbours_section(real, ours, hears, stops) if nearest else None
        )


def figures_section(found: QualityResult, whose: str) -> Section:
    """The figures, or why there are none; it shows nobody, so it may be published.

    ``whose`` says which synthetic images were measured, where it was not all that were drawn.
    """
    if found.quality is None:
        return Section("Quality", (f"Not measured: {found.unmeasured}",))
    section = quality_section(
        found.quality, "all that were drawn, removed ones too" if found.of_all else whose
    )
    capped = (
        "The real images are of patients the generator did not learn from, and of the same classes where it"
        f" has any. Of more than {MOST:,} images of a side, so many were compared, drawn at random."
    )
    return replace(section, text=(*section.text, capped))


def _some(count: int) -> NDArray[np.intp]:
    """Places of ``MOST`` of so many, or of all of them, in their order."""
    import numpy as np

    return np.sort(np.random.default_rng(_SEED).permutation(count)[:MOST])
