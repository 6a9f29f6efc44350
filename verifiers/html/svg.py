"""Figures as SVG: matplotlib without a display, the same bytes each time, no external reference."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK: Final = "#1c2321"
MARK: Final = "#376f8c"
SECOND: Final = "#c2571a"
_MUTED: Final = "#5a6562"
_NAMED = re.compile(r' (?:xmlns(?::\w+)?|version)="[^"]*"')
_STYLE: Final[Any] = {
    # A fixed salt, since matplotlib draws the ids of elements at random otherwise.
    "svg.hashsalt": "medsanitize",
    # Text stays text: searchable, and readable by screen readers.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": INK,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "axes.grid": True,
    "grid.color": "#e4e2da",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
}


def draw(paint: Callable[[Axes], Any], *, width: float = 4.6, height: float = 3.3) -> str:
    """Draw on one pair of axes.

    Parameters
    ----------
    paint : callable
        Draws on the axes that it is given.
    width, height : float
        Size in inches.

    Returns
    -------
    str
        The SVG element.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        # Not pyplot, which has global state and may need a display.
        FigureCanvasSVG(figure)
        paint(figure.add_subplot())
        file = io.StringIO()
        # A date would make every report different.
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=metadata, facecolor="none")
    svg = file.getvalue()
    # In HTML the XML prolog and the namespaces are superfluous, and the namespaces are external addresses.
    return _NAMED.sub("", re.sub(r"(?s)<metadata>.*?</metadata>", "", svg[svg.index("<svg") :])).strip()
