"""Plot of the score distributions behind a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from medsanitize.generators.privacy_gate.verdict import Scores
from medsanitize.verifiers.html.svg import INK, MARK, SECOND, draw

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

# Percentiles instead of values: the plot is published and must not show the score of an individual.
_STEPS: Final = 101
# Scores of exactly 0 and 1 have no log-odds.
_CLIP: Final = 1e-7


def score_curves(scores: Scores, threshold: float) -> str:
    """Plot the share of patients or images that reach each score, as an SVG element.

    Solid: synthetic images with training and with holdout. Dashed: real images of the holdout with training,
    and positive controls, which the threshold must match. Vertical line: the threshold.
    """

    def paint(axes: Axes) -> None:
        _curve(axes, scores.training, "synthetic to training", color=MARK)
        _curve(axes, scores.equal, "synthetic to as many of training", color=MARK, linestyle=":")
        _curve(axes, scores.holdout, "synthetic to holdout", color=SECOND)
        _curve(axes, scores.strangers, "real strangers to training", color=INK, linestyle="--")
        for shade, (name, each) in zip(
            _shades(len(scores.controls)), sorted(scores.controls.items()), strict=True
        ):
            _curve(axes, each, f"copies, {name}", color=shade, linestyle="--", linewidth=0.9)
        axes.axvline(float(_stretched(threshold)), color=INK, linewidth=0.8)
        ticks = [0.001, 0.1, 0.5, 0.9, 0.999, 0.99999]
        axes.set_xticks([float(_stretched(tick)) for tick in ticks], [f"{tick:g}" for tick in ticks])
        axes.set_xlabel("score (log-odds)")
        axes.set_ylabel("share at or above it")
        axes.set_ylim(0, 1.02)
        axes.legend(fontsize=6.5, loc="center left", bbox_to_anchor=(1.0, 0.5))

    return draw(paint, width=7.4, height=3.6)


def _curve(axes: Axes, scores: NDArray[np.float64], label: str, **style: Any) -> None:
    import numpy as np

    if len(scores):
        shares = np.linspace(0, 1, _STEPS)
        axes.step(_stretched(np.quantile(scores, shares)), 1 - shares, label=label, **style)


def _stretched(scores: Any) -> Any:
    """Log-odds: they separate scores that crowd at 0 and 1."""
    import numpy as np

    inside = np.clip(scores, _CLIP, 1 - _CLIP)
    return np.log(inside) - np.log1p(-inside)


def _shades(count: int) -> list[str]:
    shades = ["#7a8b86", "#9a7aa0", "#6f8f4f", "#b08a3c", "#5f7fa8", "#a0626a"]
    return [shades[place % len(shades)] for place in range(count)]
