"""The holder's page of a synthesis: the verdict, grids, the closest real images by score, the curves.

It shows patients. Only `montage` makes something that may be published: synthetic images side by side.
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

BANDS: Final = (0.0, 0.5, 0.9, 0.99, 0.999)
"""Lower ends of the bands of scores that pairs are shown by; above the threshold there is one more."""
_OF_BAND: Final = 6
_COLUMNS: Final = 8
_SHOWN: Final = 48
_TONES: Final[dict[str, Tone]] = {"passed": "good", "failed": "bad", "insufficient_data": "care"}
_MET: Final[dict[str, Tone]] = {"met": "good", "not_met": "bad", "alarm": "care", "not_run": "care"}
_GAP: Final = 2


@dataclass(frozen=True, slots=True, repr=False)
class ReportData:
    """What the page is about.

    Attributes
    ----------
    title
        Of the page.
    counts
        The few numbers that come first, as name and text.
    judged, images
        The verdict and the images that it is about, ``(n, size, size)``.
    training
        Side of the training images, which the pairs are made with.
    labels
        Class of each image, as text; empty where there are none.
    more
        Further sections, such as that of quality.
    """

    title: str
    counts: tuple[tuple[str, str], ...]
    judged: GateResult
    images: NDArray[np.uint8]
    training: Split
    labels: Sequence[str]
    more: tuple[Section, ...] = ()


def holder_page(shown: ReportData) -> bytes:
    """The page as one HTML file without script and network."""
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
    """Images side by side, eight a row, as PNG."""
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
    lines = statement(verdict)[1 + len(verdict.clauses) :]
    table = Table("Clause by clause", ("clause", "state", "what was found"), rows, 3)
    return Section("Verdict", lines, tables=(table,))


def _curves(judged: GateResult) -> Section:
    svg = score_curves(judged.scores, judged.verdict.threshold.value)
    caption = "Share of images or patients at each score. The upright line is the threshold."
    return Section("Scores", figures=(Figure(svg, caption),))


def _grid(shown: ReportData) -> Section:
    pictures = [
        Picture(
            png_object(shown.images[place]),
            f"{shown.labels[place] or 'image'}, {'kept' if shown.judged.kept[place] else 'removed'}",
            "plain" if shown.judged.kept[place] else "bad",
        )
        for place in _spread(len(shown.images), _SHOWN)
    ]
    return Section("Drawn images", pictures=tuple(pictures))


def _pairs(shown: ReportData) -> Section:
    """The closest training image of some synthetic ones of each band, the synthetic one on the left."""
    pictures = list(_picked(shown))
    text = (
        "On the left the synthetic image, on the right the training image that scores highest with it: of"
        " each band of scores some, the closest first. Red ones reach the threshold and were removed."
    )
    return Section("Closest real images by band of scores", (text,), pictures=tuple(pictures))


def _picked(shown: ReportData) -> Iterator[Picture]:
    import numpy as np

    score, limit = shown.judged.score, shown.judged.verdict.threshold.value
    order = np.argsort(-score, kind="stable")
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
    """Places spread evenly over so many."""
    return sorted({place * count // most for place in range(most)}) if count > most else list(range(count))
