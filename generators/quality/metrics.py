"""All quality metrics of a set of synthetic images against real ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.generators.diffusion.preprocess import preprocess_image, to_image_array
from medsanitize.generators.quality.classifier_transfer import Agreement, LabeledFeatures, agreements
from medsanitize.generators.quality.diversity import Diversity, diversity
from medsanitize.generators.quality.feature_network import NAME, features_digest, features_of
from medsanitize.generators.quality.frechet_distance import Frechet, frechet
from medsanitize.generators.quality.precision_recall import NEAREST_DENSE, Fidelity, fidelity
from medsanitize.generators.quality.ssim import WINDOW

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.progress import Cancellation, Progress
    from numpy.typing import NDArray

# Not a class number: those start at 0.
NO_CLASS: Final = -1
# SSIM is computed at 128 px at most; its fixed 11 px window would see only texture in larger images.
MAX_SSIM_SIDE: Final = 128
# A k-th nearest neighbor needs k + 1 points.
MIN_IMAGES: Final = NEAREST_DENSE + 1
_LABELS_MISSING: Final = "the images of one set have no classes"
_ONE_CLASS: Final = "fewer than two classes have images of two or more groups in both sets"


@dataclass(frozen=True, slots=True, repr=False)
class Sample:
    """A set of real or synthetic images.

    Attributes
    ----------
    images
        Grayscale, ``(n, s, s)``.
    classes
        Class of each image, ``(n,)``, `NO_CLASS` where it has none; None if no image has one.
    groups
        Patient of each image, ``(n,)``: whole patients are resampled. None: each image is a group.
    """

    images: NDArray[np.uint8]
    classes: NDArray[np.int64] | None = None
    groups: NDArray[np.int64] | None = None

    # The default repr would print pixels.
    def __repr__(self) -> str:
        return f"Sample({len(self.images)} images)"


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality metrics of synthetic images. All intervals are 95 % intervals.

    Attributes
    ----------
    features, features_digest
        Name and digest of the feature network. Metrics of different networks are not comparable.
    real, patients, synthetic
        Number of real images, of their groups, and of synthetic images.
    size
        Width and height of the images in pixels.
    frechet, fidelity
        See `Frechet` and `Fidelity`.
    diversity_real, diversity_synthetic
        See `Diversity`; that of the real images is the reference.
    agreement
        See `Agreement`; empty if it was not measured.
    agreement_not_run
        Why agreement was not measured; empty if it was.
    """

    features: str
    features_digest: str
    real: int
    patients: int
    synthetic: int
    size: int
    frechet: Frechet
    fidelity: Fidelity
    diversity_real: Diversity
    diversity_synthetic: Diversity
    agreement: tuple[Agreement, ...] = ()
    agreement_not_run: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the metrics as plain JSON data."""
        return asdict(self)


def quality(real: Sample, synthetic: Sample, progress: Progress, cancellation: Cancellation) -> Quality:
    """Measure synthetic images against real ones, which should not be training images of the generator.

    The result is deterministic: all random draws are seeded.

    Parameters
    ----------
    real, synthetic
        Images of one size.
    progress, cancellation
        Progress and cancellation.

    Raises
    ------
    UsageError
        If the images are not squares of one size that is at least the window of the structural similarity,
        or a set has fewer than six groups.
    EnvironmentFailure
        If the package with the network weights is not installed.
    """
    import numpy as np

    _check(real, synthetic)
    progress.stage("features", len(real.images) + len(synthetic.images))
    ours = features_of(real.images, progress, cancellation)
    theirs = features_of(synthetic.images, progress, cancellation)
    ours_groups, theirs_groups = _groups(real), _groups(synthetic)
    progress.stage("quality", 5)

    def done() -> None:
        progress.advance(1)
        cancellation.check()

    distance = frechet(ours, theirs, ours_groups, theirs_groups)
    done()
    near = fidelity(ours, theirs, ours_groups, theirs_groups)
    done()
    varied = diversity(_preprocessed(real), ours, ours_groups)
    done()
    varied_synthetic = diversity(_preprocessed(synthetic), theirs, theirs_groups)
    done()
    agreement, reason = _agreement(real, synthetic, ours, theirs)
    done()
    return Quality(
        features=NAME,
        features_digest=features_digest(),
        real=len(real.images),
        patients=len(np.unique(ours_groups)),
        synthetic=len(synthetic.images),
        size=real.images.shape[1],
        frechet=distance,
        fidelity=near,
        diversity_real=varied,
        diversity_synthetic=varied_synthetic,
        agreement=agreement,
        agreement_not_run=reason,
    )


def _check(real: Sample, synthetic: Sample) -> None:
    import numpy as np

    for images in (real.images, synthetic.images):
        if images.ndim != 3 or images.shape[1:] != (real.images.shape[1],) * 2:
            raise UsageError(
                "The images are not square grayscale images of one size",
                "Scale both sets to the generator's image size",
            )
    if real.images.shape[1] < WINDOW:
        raise UsageError(f"The images are smaller than {WINDOW} x {WINDOW} pixels", "Use larger images")
    fewest = min(len(np.unique(_groups(real))), len(np.unique(_groups(synthetic))))
    if fewest < MIN_IMAGES:
        raise UsageError(
            f"Quality metrics require at least {MIN_IMAGES} patients and {MIN_IMAGES} synthetic images; one"
            f" set has {fewest}",
            "Generate more images, or hold out more patients",
        )


def _groups(sample: Sample) -> NDArray[np.int64]:
    """Group of each image, numbered from 0 without gaps."""
    import numpy as np

    if sample.groups is None:
        return np.arange(len(sample.images), dtype=np.int64)
    return np.unique(sample.groups, return_inverse=True)[1].astype(np.int64)


def _preprocessed(sample: Sample) -> NDArray[np.float32]:
    """The images in [0, 1], scaled down to `MAX_SSIM_SIDE` pixels."""
    import numpy as np

    side = min(sample.images.shape[1], MAX_SSIM_SIDE)
    squares = np.stack([preprocess_image(to_image_array(image), side) for image in sample.images])
    return np.asarray(squares / np.float32(255), np.float32)


def _agreement(
    real: Sample, synthetic: Sample, ours: NDArray[np.float32], theirs: NDArray[np.float32]
) -> tuple[tuple[Agreement, ...], str]:
    """Agreement over the classes that both sets have, or the reason why it was not measured."""
    import numpy as np

    if real.classes is None or synthetic.classes is None:
        return (), _LABELS_MISSING
    shared = np.intersect1d(_usable(real), _usable(synthetic))
    if len(shared) < 2:
        return (), _ONE_CLASS
    both = []
    for sample, features in ((real, ours), (synthetic, theirs)):
        classes = np.asarray(sample.classes)
        kept = np.isin(classes, shared)
        # Renumbered: the bootstrap expects groups without gaps.
        groups = np.unique(_groups(sample)[kept], return_inverse=True)[1].astype(np.int64)
        both.append(LabeledFeatures(features[kept], np.searchsorted(shared, classes[kept]), groups))
    return agreements(both[0], both[1], len(shared)), ""


def _usable(sample: Sample) -> NDArray[np.int64]:
    """Classes with images of at least two groups, so that one can train and another test."""
    import numpy as np

    pairs = np.unique(np.column_stack([np.asarray(sample.classes), _groups(sample)]), axis=0)
    classes, counts = np.unique(pairs[:, 0], return_counts=True)
    return np.asarray(classes[(counts >= 2) & (classes != NO_CLASS)], np.int64)
