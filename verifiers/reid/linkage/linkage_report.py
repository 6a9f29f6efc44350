"""The linkage attack as an HTML page: Rs by number of patients and probes, and the guidelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from medsanitize.release.summary import Guideline
from medsanitize.verifiers.html.page import Figure, Mark, Page, Section, Table, Tone, render_page
from medsanitize.verifiers.html.svg import MARK, SECOND, draw
from medsanitize.verifiers.reid.calibration import Rate
from medsanitize.verifiers.reid.linkage.attack import REPEATS, LinkageAttack, SampledLinkage
from medsanitize.verifiers.reid.linkage.dataset_attack import DatasetSummary, Linkage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TONES: Final[dict[str, Tone]] = {"met": "good", "not_met": "bad", "needs_review": "care"}


def linkage_page(found: Linkage) -> bytes:
    """Render the page as HTML."""
    worst = found.worst
    page = Page(
        kind="Linkage attack",
        title="Patients linked by their images",
        lede=f"Measured with: {found.model} ({found.modality}), cosine similarity, nearest neighbor"
        " (Holub et al. 2023).",
        tiles=(
            ("Rs, whole images", f"{found.whole.rs.share:.2f}"),
            ("Rs, central crops", "–" if found.crop is None else f"{found.crop.rs.share:.2f}"),
            ("Patients that could be linked", f"{found.whole.rs.of:,}"),
            ("Images attacked", f"{found.release.images:,}"),
            ("Images of the attacker", f"{found.background.images:,}"),
        ),
        sections=(
            _rates(found),
            *(_drawn("whole images", found.whole),),
            *(() if found.crop is None else (_drawn("central crops", found.crop),)),
            _datasets(found),
            *((_guidelines(found.guidelines),) if found.guidelines else ()),
        ),
        notice=("bad" if worst.errors else "care", _verdict(worst)),
    )
    return render_page(page)


def _verdict(worst: Rate) -> str:
    return (
        f"{worst.errors:,} of {worst.of:,} patients were linked by their images only"
        f" (at most {100 * worst.upper:.1f} % at 95 % confidence). Another attack may link more."
    )


def _rates(found: Linkage) -> Section:
    mates = (
        "The dataset was attacked with itself: an image is never its own mate."
        if found.itself
        else "Patients of the background who are not in the release are included."
    )
    rows = [
        (
            name,
            f"{one.rs.share:.3f}",
            f"{one.rs.errors:,} of {one.rs.of:,}",
            _span(one.interval),
            f"{one.rs.upper:.3f}",
        )
        for name, one in (("whole images", found.whole), ("central crops", found.crop))
        if one is not None
    ]
    head = ("", "Rs", "linked", "95 % interval", "upper bound")
    return Section(
        "Rs with all images of the attacker",
        (
            "The attacker knows the patients of the background and assigns each probe to the patient of the"
            " most similar background image. Rs is the share of patients to whom a probe of theirs was"
            " assigned. " + mates,
            "The interval resamples patients (10,000 draws); the upper bound is exact (Clopper and Pearson).",
        ),
        tables=(Table("Rs", head, rows),),
    )


def _drawn(name: str, one: LinkageAttack) -> Section:
    figures = []
    # Too few patients for any draw: there is nothing to plot.
    if one.by_patients:
        figures.append(
            Figure(
                draw(lambda axes: _boxes(axes, one.by_patients, "patients")),
                "Rs by number of patients, all probes",
            )
        )
    if one.by_probes:
        figures.append(
            Figure(
                draw(lambda axes: _boxes(axes, one.by_probes, "probes")),
                f"Rs by number of probes of each of {one.by_probes[0].patients:,} patients",
            )
        )
    rows = [
        (
            f"{draws.patients:,}",
            "all" if draws.probes is None else str(draws.probes),
            f"{draws.median:.3f}",
            f"{draws.low_quartile:.3f} to {draws.high_quartile:.3f}",
            f"{draws.least:.3f} to {draws.most:.3f}",
            f"{draws.mean:.3f} ({_span(draws.interval)})",
        )
        for draws in (*one.by_patients, *one.by_probes)
    ]
    head = ("patients", "probes of each", "median", "quartiles", "range", "mean (95 % interval)")
    return Section(
        f"Random draws, {name}",
        (
            f"{REPEATS} draws of each setting: one background image of each patient, the others (or those of"
            " the other dataset) as probes. Boxes: median and quartiles; whiskers: minimum and maximum.",
        ),
        figures=tuple(figures),
        tables=(Table("Rs by patients and probes", head, rows),),
    )


def _boxes(axes: Axes, found: tuple[SampledLinkage, ...], what: str) -> None:
    boxes = [
        {
            "med": one.median,
            "q1": one.low_quartile,
            "q3": one.high_quartile,
            "whislo": one.least,
            "whishi": one.most,
        }
        for one in found
    ]
    line = {"color": MARK}
    middle = {"color": SECOND}
    axes.bxp(boxes, showfliers=False, boxprops=line, whiskerprops=line, capprops=line, medianprops=middle)
    labels = [f"{getattr(one, what):,}" for one in found]
    axes.set(xlabel=what if what == "patients" else "probes of each patient", ylabel="Rs", ylim=(-0.02, 1.02))
    axes.set_xticks(range(1, len(found) + 1), labels)
    axes.grid(visible=False, axis="x")


def _datasets(found: Linkage) -> Section:
    datasets = (
        {"attacked": found.release}
        if found.itself
        else {"attacked": found.release, "background": found.background}
    )
    rows = [(name, f"{one.images:,}", f"{one.patients:,}", _left_out(one)) for name, one in datasets.items()]
    cropped = f"{found.without_crop:,} images have no central crop."
    return Section(
        "Compared images",
        (cropped,) if found.without_crop else (),
        tables=(Table("Images compared", ("", "images", "patients", "left out"), rows),),
    )


def _left_out(one: DatasetSummary) -> str:
    return ", ".join(f"{reason}: {count:,}" for reason, count in one.excluded.items()) or "none"


def _guidelines(found: tuple[Guideline, ...]) -> Section:
    rows = [
        (f"{one.code} {one.name}", Mark(one.result.replace("_", " "), _TONES[one.result]), one.why)
        for one in found
    ]
    table = Table(
        "Guidelines and whether the release meets them", ("guideline", "result", "reason"), rows, texts=3
    )
    return Section(
        "Guidelines A1 to A7",
        (
            "Requirements for slides released as de facto anonymous data, checked by policy, manifest and"
            " attack.",
        ),
        tables=(table,),
    )


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"
