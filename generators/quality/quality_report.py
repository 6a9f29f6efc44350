"""Report sections of the quality metrics and of nearest neighbors."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from medsanitize.generators.quality.feature_network import features_of
from medsanitize.generators.quality.interval import Estimate
from medsanitize.generators.quality.metrics import Quality, Sample
from medsanitize.generators.quality.precision_recall import NEAREST, NEAREST_DENSE, closest
from medsanitize.verifiers.html.page import Figure, Picture, Section, Table
from medsanitize.verifiers.html.svg import MARK, draw

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from medsanitize.progress import Cancellation, Progress
    from numpy.typing import NDArray

ROWS: Final = 8
NEIGHBORS: Final = 3
_SEED: Final = 20_241_022
_TITLES: Final = {"real": "real images", "synthetic": "synthetic images"}


def quality_section(found: Quality, source: str = "") -> Section:
    """Report section of the metrics with intervals. Contains no images and no PHI.

    Parameters
    ----------
    found : Quality
        The metrics.
    source : str
        Description of the measured synthetic images.
    """
    near = found.fidelity
    rows = [
        ("precision: share of synthetic images near real ones", _with_interval(near.precision)),
        ("recall: share of real images near synthetic ones", _with_interval(near.recall)),
        (
            "density: density of real images around synthetic ones; 1 for real images",
            _with_interval(near.density),
        ),
        ("coverage: share of real images with a synthetic one nearby", _with_interval(near.coverage)),
    ]
    return Section(
        "Quality",
        (
            f"{found.synthetic:,} synthetic images{f' ({source})' if source else ''} of {found.size} px"
            f" against {found.real:,} real ones of {found.patients:,} patients, compared by"
            f" {found.features} (digest {found.features_digest}).",
            "The Fréchet distance of two small sets is large for any content: compare the last two rows of"
            " its table with each other. Values in features of other networks, such as Inception, are on"
            " another scale.",
            f"Intervals are 95 % and resample patients. The neighborhood is the {NEAREST}rd nearest image"
            f" (precision, recall) or the {NEAREST_DENSE}th (density, coverage).",
        ),
        figures=(Figure(draw(lambda axes: _shares(axes, found), width=8.4, height=1.9), "Shares of images"),),
        tables=(
            Table("Similarity to real images", ("", "value (95 % interval)"), rows),
            _distances(found),
            _variety(found),
            _agreement(found),
        ),
    )


def neighbors_section(
    real: Sample, synthetic: Sample, progress: Progress, cancellation: Cancellation
) -> Section:
    """Report section of random synthetic images with the most similar real images.

    Contains PHI.
    """
    import numpy as np

    order = np.random.default_rng(_SEED).permutation(len(synthetic.images))
    chosen = np.sort(order[:ROWS])
    progress.stage("neighbors", len(chosen) + len(real.images))
    theirs = features_of(synthetic.images[chosen], progress, cancellation)
    ours = features_of(real.images, progress, cancellation)
    pictures = []
    for number, (place, near) in enumerate(zip(chosen, closest(theirs, ours, NEIGHBORS), strict=True), 1):
        row = [synthetic.images[place], *real.images[near]]
        caption = f"synthetic image {number} and the nearest real ones"
        pictures.append(Picture(png_of(np.concatenate(row, axis=1)), caption, wide=True))
    return Section(
        "Nearest real images",
        (
            f"{len(chosen)} random synthetic images, each to the left of the {NEIGHBORS} real images that"
            " are nearest in features, among those that quality is measured against. Contains PHI: never"
            " publish it.",
        ),
        pictures=tuple(pictures),
    )


def png_of(image: NDArray[np.uint8]) -> bytes:
    """Encode a grayscale image as PNG, deterministically."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


def _with_interval(measure: Estimate, digits: int = 3) -> str:
    return f"{measure.value:.{digits}f} ({measure.low:.{digits}f} to {measure.high:.{digits}f})"


def _distances(found: Quality) -> Table:
    one = found.frechet
    rows = [
        (
            "all real and all synthetic images",
            f"{found.real:,} / {found.synthetic:,}",
            _with_interval(one.distance, 4),
        ),
        (
            "half of the real images and as many synthetic ones",
            f"{one.size:,} / {one.size:,}",
            f"{one.matched:.4f}",
        ),
        ("two halves of the real images", f"{one.size:,} / {one.size:,}", f"{one.real:.4f}"),
    ]
    return Table("Fréchet distance", ("", "images", "distance"), rows)


def _variety(found: Quality) -> Table:
    rows = [
        (name, f"{one.images:,}", _with_interval(one.ssim), _with_interval(one.distance))
        for name, one in (("real", found.diversity_real), ("synthetic", found.diversity_synthetic))
    ]
    head = ("", "images", "structural similarity", "distance of features")
    return Table("Variety, over all pairs of some images", head, rows)


def _agreement(found: Quality) -> Table:
    caption = "Class agreement of a linear classifier of the features"
    if not found.agreement:
        return Table(caption, ("",), [(f"Not run: {found.agreement_not_run}.",)])
    rows = [
        (
            f"{_TITLES[one.trained_on]}",
            f"{_TITLES[one.tested_on]}" + (" of other patients" if one.trained_on == one.tested_on else ""),
            f"{one.images:,}",
            _with_interval(one.accuracy),
            _with_interval(one.balanced),
            _with_interval(one.f1),
        )
        for one in found.agreement
    ]
    head = ("trained on", "tested on", "images", "accuracy", "balanced accuracy", "F1")
    return Table(caption, head, rows, 2)


def _shares(axes: Axes, found: Quality) -> None:
    near = found.fidelity
    shares = {"precision": near.precision, "recall": near.recall, "coverage": near.coverage}
    for one in found.agreement:
        shares[f"accuracy, {one.trained_on} on {one.tested_on}"] = one.accuracy
    for place, share in enumerate(shares.values()):
        axes.plot([share.low, share.high], [place, place], color=MARK, linewidth=1.6)
        axes.plot(share.value, place, "o", color=MARK)
    axes.set(xlim=(0, 1.02), yticks=range(len(shares)), yticklabels=list(shares))
    axes.set_ylim(len(shares) - 0.5, -0.5)
