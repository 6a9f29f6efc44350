"""Measure the quality of synthetic images against a holdout, or report why it was not measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError
from medsanitize.generators.privacy_gate.gate_embeddings import preprocess_images
from medsanitize.generators.quality.metrics import Quality, Sample, quality
from medsanitize.generators.quality.quality_report import neighbors_section, quality_section
from medsanitize.verifiers.html.page import Section

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.privacy_gate.splits import Split
    from medsanitize.progress import Cancellation, Progress
    from numpy.typing import NDArray

# Images per set at most: the number of distances grows with the product of both sizes.
MAX_IMAGES: Final = 1_000
_SEED: Final = 20_241_023


@dataclass(frozen=True, slots=True, repr=False)
class QualityResult:
    """Quality of synthetic images, or the reason why it was not measured.

    Attributes
    ----------
    quality, unmeasured
        The metrics, and an empty string; or None, and the reason.
    of_all
        True if all generated images were measured, rejected ones included, because too few were accepted.
    beside
        Report section with synthetic images next to the nearest real ones. Contains PHI. None if it was not
        requested or nothing was measured.
    """

    quality: Quality | None
    unmeasured: str
    of_all: bool
    beside: Section | None = None


def measure(
    made: Sample,
    holdout: Split,
    progress: Progress,
    cancellation: Cancellation,
    *,
    of_all: bool,
    nearest: bool,
) -> QualityResult:
    """Measure synthetic images against those holdout images that have the same classes.

    The result is deterministic. Of more than `MAX_IMAGES` images in a set, that many are selected at random.

    Parameters
    ----------
    made : Sample
        The synthetic images. Real images are preprocessed to their size.
    holdout : Split
        Patients that the generator did not learn from.
    progress, cancellation
        Progress and cancellation.
    of_all : bool
        See `QualityResult`.
    nearest : bool
        Whether to add the section with the nearest real images, which contains PHI.

    Returns
    -------
    QualityResult
        `QualityResult.quality` is None if the images do not allow a measurement.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    of_class = made.classes
    alike = np.ones(len(holdout), np.bool_) if of_class is None else np.isin(holdout.classes, of_class)
    rows = np.flatnonzero(alike)
    rows = rows[_some(len(rows))].astype(np.int64)
    size = made.images.shape[1]
    squares = preprocess_images(holdout.pictures, size, "read holdout images", progress, cancellation, rows)
    real = Sample(squares, None if of_class is None else holdout.classes[rows], holdout.patients[rows])
    kept = _some(len(made.images))
    ours = Sample(made.images[kept], None if of_class is None else of_class[kept])
    # BLAS sums in an order that depends on the number of threads; one thread makes results reproducible.
    with threadpool_limits(1, "blas"):
        try:
            found = quality(real, ours, progress, cancellation)
        except UsageError as error:
            return QualityResult(None, f"{error.what}. {error.remedy}.", of_all)
        return QualityResult(
            found, "", of_all, neighbors_section(real, ours, progress, cancellation) if nearest else None
        )


def figures_section(found: QualityResult, source: str) -> Section:
    """Report section with the metrics, or with the reason for their absence. Contains no PHI.

    Parameters
    ----------
    found : QualityResult
        The result of `measure`.
    source : str
        Description of the measured images, used if they are not all that were generated.
    """
    if found.quality is None:
        return Section("Quality", (f"Not measured: {found.unmeasured}",))
    section = quality_section(
        found.quality, "all samples, including removed ones" if found.of_all else source
    )
    capped = (
        "The real images are of patients that the generator was not trained on, of the same classes if it has"
        f" any. At most {MAX_IMAGES:,} images of each set were compared, drawn at random."
    )
    return replace(section, text=(*section.text, capped))


def _some(count: int) -> NDArray[np.intp]:
    """Sorted indices of ``MAX_IMAGES`` random items, or of all of them."""
    import numpy as np

    return np.sort(np.random.default_rng(_SEED).permutation(count)[:MAX_IMAGES])
