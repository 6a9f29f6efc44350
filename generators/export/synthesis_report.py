"""The data controller's page of a synthesis: verdict, images, most similar real images, score plot.

The page contains PHI. Only the result of `montage` contains no real images and may be published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.diffusion.preprocess import preprocess_image
from medsanitize.generators.export.png import png_object
from medsanitize.generators.privacy_gate.score_plot import score_curves
from medsanitize.generators.privacy_gate.statement import statement
from medsanitize.verifiers.html.page import Figure, Mark, Page, Picture, Section, Table, Tone, render_page

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.privacy_gate.gate import GateResult
    from medsanitize.generators.privacy_gate.splits import Split
    from medsanitize.generators.privacy_gate.verdict import GateVerdict
    from numpy.typing import NDArray

# Lower limits of the score bands in which pairs are shown; the threshold adds one.
BANDS: Final = (0.0, 0.5, 0.9, 0.99, 0.999)
_OF_BAND: Final = 6
_COLUMNS: Final = 8
# Bounds the size of the page: images are embedded.
_MAX_SHOWN: Final = 48
_TONES: Final[dict[str, Tone]] = {"passed": "good", "failed": "bad", "insufficient_data": "care"}
_MET: Final[dict[str, Tone]] = {
    "met": "good",
    "reported": "plain",
    "not_met": "bad",
    "alarm": "care",
    "inconclusive": "care",
    "not_run": "care",
}
_GAP: Final = 2


@dataclass(frozen=True, slots=True, repr=False)
class ReportData:
    """Content of the page.

    Attributes
    ----------
    title
        Title of the page.
    counts
        Key figures at the top, as name and text.
    judged, images
        Result of the gate and its images, ``(n, size, size)``.
    training
        Training split, source of the real images.
    labels
        Class name of each image; empty strings without classes.
    more
        Further sections, such as quality.
    """

    title: str
    counts: tuple[tuple[str, str], ...]
    judged: GateResult
    images: NDArray[np.uint8]
    training: Split
    labels: Sequence[str]
    more: tuple[Section, ...] = ()


def holder_page(shown: ReportData) -> bytes:
    """Render the page as one HTML file without scripts and external resources. Contains PHI."""
    verdict = shown.judged.verdict
    return render_page(
        Page(
            "Synthetic images",
            shown.title,
            "This page shows patients next to synthetic images. It contains PHI: never publish it.",
            shown.counts,
            (_verdict(verdict), _curves(shown.judged), _grid(shown), _pairs(shown), *shown.more),
            (_TONES[verdict.state], statement(verdict)[0]),
        )
    )


def montage(images: NDArray[np.uint8]) -> bytes:
    """Arrange images in rows of eight, as PNG."""
    import numpy as np

    count, side = len(images), images.shape[1]
    columns, rows = min(count, _COLUMNS), -(-count // _COLUMNS)
    step = side + _GAP
    sheet = np.zeros((rows * step - _GAP, columns * step - _GAP), np.uint8)
    for place, image in enumerate(images):
        top, left = place // _COLUMNS * step, place % _COLUMNS * step
        sheet[top : top + side, left : left + side] = image
    return png_object(sheet)


def _verdict(verdict: GateVerdict) -> Section:
    rows = [
        (one.name, Mark(one.state.replace("_", " "), _MET[one.state]), one.sentence)
        for one in verdict.clauses
    ]
    # The headline is at the top of the page, and the clauses are a table.
    _, claim, *rest = statement(verdict)
    lines = (claim, *rest[len(verdict.clauses) :])
    table = Table("Clauses", ("clause", "result", "finding"), rows, 3)
    return Section("Verdict", lines, tables=(table,))


def _curves(judged: GateResult) -> Section:
    svg = score_curves(judged.scores, judged.verdict.threshold.value)
    caption = "Share of images or patients at each score. The vertical line is the threshold."
    return Section("Scores", figures=(Figure(svg, caption),))


def _grid(shown: ReportData) -> Section:
    pictures = [
        Picture(
            png_object(shown.images[place]),
            f"{shown.labels[place] or 'image'}, {'kept' if shown.judged.kept[place] else 'removed'}",
            "plain" if shown.judged.kept[place] else "bad",
        )
        for place in _spread(len(shown.images), _MAX_SHOWN)
    ]
    return Section("Generated images", pictures=tuple(pictures))


def _pairs(shown: ReportData) -> Section:
    """Pairs of a synthetic image (left) and its most similar training image, by score band."""
    pictures = list(_picked(shown))
    text = (
        "Left: synthetic image; right: its training image with the highest score. Examples of each score"
        " band, the closest first. Red pairs reach the threshold; their synthetic images were removed."
    )
    return Section("Closest real images by score band", (text,), pictures=tuple(pictures))


def _picked(shown: ReportData) -> Iterator[Picture]:
    import numpy as np

    score, limit = shown.judged.score, shown.judged.verdict.threshold.value
    order = np.argsort(-score, kind="stable")
    # The threshold is an edge, so that no band mixes removed and kept images.
    edges = sorted({*(edge for edge in BANDS if edge < limit), limit})
    for low, high in reversed(list(zip(edges, [*edges[1:], np.inf], strict=True))):
        inside = [int(place) for place in order if low <= score[place] < high]
        for place in inside[:_OF_BAND]:
            yield _pair(shown, place, low, len(inside))


def _pair(shown: ReportData, place: int, low: float, among: int) -> Picture:
    import numpy as np

    image = shown.images[place]
    row = int(shown.judged.nearest[place])
    other = (
        preprocess_image(shown.training.pictures[row], image.shape[0]) if row >= 0 else np.zeros_like(image)
    )
    gap = np.zeros((image.shape[0], _GAP), np.uint8)
    kept = bool(shown.judged.kept[place])
    caption = f"score {shown.judged.score[place]:.4f}, band from {low:.4g} ({among:,} images)"
    return Picture(png_object(np.hstack([image, gap, other])), caption, "plain" if kept else "bad", wide=True)


def _spread(count: int, most: int) -> list[int]:
    """Evenly spaced indices, at most ``most``."""
    return sorted({place * count // most for place in range(most)}) if count > most else list(range(count))
