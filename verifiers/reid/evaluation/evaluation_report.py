"""The evaluation as an HTML page: metrics, curves and subgroups; no image, file name or patient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from medsanitize.verifiers.html.page import Figure, Page, Section, Table, render_page
from medsanitize.verifiers.html.svg import INK, MARK, SECOND, draw
from medsanitize.verifiers.reid.evaluation.bootstrap import Interval
from medsanitize.verifiers.reid.evaluation.evaluate import Evaluation, VerificationMetrics
from medsanitize.verifiers.reid.evaluation.retrieval_metrics import RetrievalMetrics
from medsanitize.verifiers.reid.evaluation.subgroups import Subgroup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INTERVALS = (
    "Intervals are 95 %, from 10,000 bootstrap draws of patients, because images of one patient are not"
    " independent."
)


def evaluation_page(found: Evaluation) -> bytes:
    """Render the page as HTML."""
    pairs = found.verification
    left = " ".join(excluded_lines(found.excluded))
    page = Page(
        kind="Evaluation",
        title="Re-identification of patients by their images",
        lede=f"Measured with: {found.models['retrieval']} ({found.models['modality']})"
        + (", pairs scored by a verification model." if pairs.score == "verifier" else "."),
        tiles=(
            ("Images", f"{found.images:,}"),
            ("Patients", f"{found.patients:,}"),
            ("P@1", f"{found.retrieval.precision_at_1:.3f}"),
            ("mAP@R", f"{found.retrieval.map_at_r:.3f}"),
            ("AUC", f"{pairs.auc:.3f}"),
        ),
        sections=(
            _search(found),
            _pairs(pairs),
            *_parts(found.subgroups),
        ),
        notice=("care", left) if left else None,
    )
    return render_page(page)


def _search(found: Evaluation) -> Section:
    ways = {
        "all mates": found.retrieval,
        "only mates of another day": found.retrieval_other_day,
        "all mates, by the verifier's score": found.retrieval_by_score,
        "all mates, by both models and re-ranked": found.search,
    }
    rows = [_retrieval_row(name, one) for name, one in ways.items() if one is not None]
    return Section(
        "Search with one image",
        (
            "Every image that has a mate (another image of its patient) is compared with all others. P@1:"
            " the nearest is a mate. R-precision: share of mates among the R nearest, of R mates. mAP@R: the"
            " same, with more weight for the first.",
            _INTERVALS,
        ),
        tables=(Table("Retrieval, with intervals", ("", "queries", "P@1", "mAP@R", "R-precision"), rows),),
    )


def _retrieval_row(name: str, found: RetrievalMetrics) -> tuple[str, ...]:
    values = (
        number(getattr(found, one), found.intervals.get(one))
        for one in ("precision_at_1", "map_at_r", "r_precision")
    )
    return (name, f"{found.queries:,}", *values)


def _pairs(found: VerificationMetrics) -> Section:
    text = [
        f"All {found.genuine_pairs:,} pairs of one patient against all {found.impostor_pairs:,} pairs of two."
        f" AUC {number(found.auc, found.intervals.get('auc'))}.",
    ]
    tables = []
    if (made := found.decisions) is None:
        text.append("No threshold was set: too few patients have two images.")
    else:
        source = (
            "the model's calibration" if made.calibrated_on == "model" else "the other half of the patients"
        )
        text.append(
            f"The threshold was set by {source} for a false match rate of {made.target:g} between patients."
            " Below, pairs of one patient and of two have equal weight."
        )
        if made.insufficient_data:
            text.append(f"That rate is an estimate without a bound: {made.insufficient_data}.")
        names = {"accuracy": "accuracy", "specificity": "specificity", "recall": "recall"}
        names |= {"precision": "precision", "f1": "F1"}
        rows = [(title, number(getattr(made, one), made.intervals.get(one))) for one, title in names.items()]
        tables.append(Table("Decisions at the threshold, with intervals", ("", "value"), rows))
    return Section(
        "Comparison of two images",
        tuple(text),
        figures=(
            Figure(draw(lambda axes: _trade(axes, found)), "False non-match rate by false match rate"),
            Figure(draw(lambda axes: _rates(axes, found)), "Both error rates by threshold"),
        ),
        tables=tuple(tables),
    )


def _trade(axes: Axes, found: VerificationMetrics) -> None:
    # A rate of zero has no place on a logarithmic axis.
    least = 0.5 / found.impostor_pairs
    axes.plot(
        [max(false, least) for _, false, _ in found.curve],
        [missed for _, _, missed in found.curve],
        color=MARK,
        drawstyle="steps-post",
    )
    if found.decisions is not None:
        axes.plot(
            max(1 - found.decisions.specificity, least),
            1 - found.decisions.recall,
            "o",
            color=SECOND,
            label="threshold",
        )
        axes.legend()
    axes.set(xscale="log", xlabel="false match rate", ylabel="false non-match rate", ylim=(-0.02, 1.02))


def _rates(axes: Axes, found: VerificationMetrics) -> None:
    thresholds = [threshold for threshold, _, _ in found.curve]
    axes.plot(thresholds, [false for _, false, _ in found.curve], color=SECOND, label="false match rate")
    axes.plot(thresholds, [missed for _, _, missed in found.curve], color=MARK, label="false non-match rate")
    for threshold in found.decisions.thresholds if found.decisions else ():
        axes.axvline(threshold, color=INK, linewidth=0.8, linestyle="--")
    axes.set(xlabel=f"threshold ({found.score}; higher is more alike)", ylabel="rate", ylim=(-0.02, 1.02))
    axes.legend()


def _parts(found: tuple[Subgroup, ...]) -> list[Section]:
    sections = []
    for kind in dict.fromkeys(one.kind for one in found):
        parts = [one for one in found if one.kind == kind]
        of_queries = parts[0].auc is None
        names = ("precision_at_1", "map_at_r") if of_queries else ("auc", "recall")
        head = ("P@1", "mAP@R") if of_queries else ("AUC", "recall at the threshold")
        rows = [(one.name, f"{one.count:,}", *(_value(one, name) for name in names)) for one in parts]
        table = Table(kind.capitalize(), ("", "queries" if of_queries else "pairs", *head), rows)
        figure = Figure(_by_part(parts, names[0], head[0]), f"{head[0]} by {kind}, with 95 % intervals")
        sections.append(Section(f"By {kind}", figures=(figure,) if len(parts) > 1 else (), tables=(table,)))
    return sections


def _value(one: Subgroup, name: str) -> str:
    value = getattr(one, name)
    return "–" if value is None else number(value, one.intervals.get(name))


def _by_part(parts: list[Subgroup], name: str, label: str) -> str:
    def paint(axes: Axes) -> None:
        for place, one in enumerate(parts):
            value = getattr(one, name)
            low, high = one.intervals.get(name, (value, value))
            axes.plot([low, high], [place, place], color=MARK, linewidth=1.6)
            axes.plot(value, place, "o", color=MARK)
        axes.set(xlabel=label, yticks=range(len(parts)), yticklabels=[one.name for one in parts])
        axes.set_ylim(len(parts) - 0.5, -0.5)

    return draw(paint, width=8.4, height=0.7 + 0.3 * len(parts))


def number(value: float, interval: Interval | None = None) -> str:
    """Format a rate with its interval, four decimals each."""
    return f"{value:.4f}" + (f" ({interval[0]:.4f} to {interval[1]:.4f})" if interval else "")


def excluded_lines(excluded: Mapping[str, int]) -> list[str]:
    """Return one line on the images that were left out; none if there are none."""
    if not excluded:
        return []
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in excluded.items())
    return [f"Excluded: {sum(excluded.values()):,} ({reasons})."]
