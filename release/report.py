"""The report: one HTML file without scripts, network access or identifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.policies.tables.standard import sop_class_names
from medsanitize.release.atomic_io import write_atomic
from medsanitize.release.summary import Summary, SyntheticSummary

if TYPE_CHECKING:
    from jinja2 import Template

_OUTCOMES: Final = ("released", "dropped", "quarantined")
_ACTIONS: Final = (
    ("replaced", "D", "Replaced by a dummy value that is valid for the attribute"),
    ("emptied", "Z", "Emptied, or replaced by a dummy value where a value is required"),
    ("removed", "X", "Removed, including nested items"),
    ("cleaned", "C", "Cleaned: replaced by a value of similar meaning without identifying content"),
    ("uid", "U", "UID consistently replaced by a new UID"),
    ("kept", "K", "Kept by the policy; sequences were still processed item by item"),
)
_CHECKS: Final = {
    "pixels": "Burned-in text, where the header indicates a risk",
    "faces": "Faces in CT, MR and PET heads and in photographs",
    "identifiers": "Known identifiers in the bytes",
    "duplicates": "Duplicates within the release",
    "registry": "Duplicates in earlier releases",
    "overlap": "Same patient in other releases",
}
_KINDS: Final = {"dicom": "DICOM objects", "raster": "PNG, JPEG and TIFF images", "slide": "Slides"}
# Of values that are not from a short list, such as manufacturers.
_MOST_VALUES: Final = 12
_RESULTS: Final = ("passed", "flagged", "not_run", "not_applicable")
_SIGNS: Final = {"passed": "✓", "flagged": "!", "failed": "✕", "not_run": "–", "not_applicable": "·"}


@dataclass(frozen=True, slots=True)
class ObjectRelation:
    """A relation between objects that only the data controller may see: a duplicate, an object of another
    release.

    ``here`` and ``there`` are paths or names of released objects; ``relation`` is how they are related.
    """

    here: str
    relation: str
    there: str


@dataclass(frozen=True, slots=True)
class _Bar:
    """A line of a bar chart; ``share`` is relative to the longest bar or to the whole, from 0 to 100."""

    name: str
    count: int
    share: float
    note: str = ""


def render_report(
    summary: Summary, *, signer: str | None, links: Sequence[ObjectRelation] | None = None
) -> bytes:
    """Render the report as a self-contained HTML page.

    Parameters
    ----------
    summary : Summary
        The public account of the run.
    signer : str or None
        Key id of the signer; None if the release is unsigned.
    links : sequence of ObjectRelation or None
        Only for the version of the data controller, which then states that it must not be published.

    Returns
    -------
    bytes
        HTML in UTF-8.
    """
    shown = {"s": summary, "r": summary.release, "signer": signer, "links": links, **_view(summary)}
    return _template().render(shown).encode("utf-8")


@cache
def _template() -> Template:
    """Compile the page once for both versions of the report."""
    from jinja2 import Environment, StrictUndefined

    # Autoescape, because names and descriptions of the policy are shown; strict, so that typos fail.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"count": _count, "size": _size, "sign": _SIGNS.__getitem__, "words": _words}
    return environment.from_string(files("medsanitize.release").joinpath("report.html").read_text("utf-8"))


def write_controller_report(
    path: Path, summary: Summary, *, links: Sequence[ObjectRelation], signer: str | None = None
) -> None:
    """Write the report of the data controller, which also shows relations to other objects and releases.

    Parameters
    ----------
    path : Path
        The file to write. It must not be published.
    summary : Summary
        The public account of the run.
    links : sequence of ObjectRelation
        Relations to show.
    signer : str, optional
        Key id of the signer; None if the release is unsigned.

    Raises
    ------
    EnvironmentFailure
        The disk is full or fails.
    """
    write_atomic(path, render_report(summary, signer=signer, links=links))


def report_verdict(summary: Summary) -> tuple[str, str]:
    """Return the tone (``good``, ``care`` or ``bad``) and the first sentence of the report."""
    by_result: dict[str, list[str]] = {}
    for gate in summary.gates:
        by_result.setdefault(gate.result, []).append(gate.name)
    # The sentence states only the most severe result; the page lists all.
    if "failed" in by_result:
        return "bad", f"Failed: {', '.join(by_result['failed'])}. Nothing may be published."
    # Checks that did not run come before flagged ones: nothing is claimed about their objects.
    if unread := _results(summary, "pixels")["not_run"]:
        objects = "1 object was" if unread == 1 else f"{_count(unread)} objects were"
        return "care", f"Released. {objects} not checked for burned-in text."
    if faces := _results(summary, "faces")["flagged"]:
        objects = "1 object" if faces == 1 else f"{_count(faces)} objects"
        return "care", f"Released. {objects} may show a face."
    open_ = [*by_result.get("flagged", ()), *by_result.get("not_run", ())]
    if open_:
        return "care", f"Released. Some checks were not run or were flagged: {', '.join(open_)}."
    return "good", "Released. Every gate passed."


def _view(summary: Summary) -> dict[str, Any]:
    tone, sentence = report_verdict(summary)
    found = sum(summary.outcomes.values())
    return {
        "tone": tone,
        "sentence": sentence,
        "found": found,
        "outcomes": [
            _Bar(name, summary.outcomes.get(name, 0), _share(summary.outcomes.get(name, 0), found))
            for name in _OUTCOMES
        ],
        "modalities": _bars({name or "none stated": n for name, n in summary.modalities.items()}),
        "sop_classes": _bars(summary.sop_classes, sop_class_names()),
        "kinds": _bars(summary.kinds, _KINDS),
        "distributions": {title: _in_order(found) for title, found in summary.distributions.items()},
        "actions": _actions(summary.actions),
        "rules": _bars(summary.rules, summary.meanings),
        "dropped": _bars(summary.dropped, summary.meanings),
        "quarantined": _bars(summary.quarantined, summary.meanings),
        "checks": [
            (label, [results[result] for result in _RESULTS])
            for label, results in ((label, _results(summary, name)) for name, label in _CHECKS.items())
        ],
        "results": _RESULTS,
        "pixels_unchecked": _results(summary, "pixels")["not_run"],
        "faces": _results(summary, "faces")["flagged"],
        "faces_unchecked": _results(summary, "faces")["not_run"],
        "missing": summary.missing_metadata(),
        "bounds": _bounds(summary.synthetic),
    }


def _bounds(made: SyntheticSummary | None) -> list[tuple[str, str]]:
    """Describe the upper bounds of matches and copies; empty if the gate established none."""
    if made is None or made.bound is None:
        return []
    rows = [("Match a training patient, of all generated images", f"{made.bound:.3%}")]
    if made.copy_rate is not None:
        rows.append(("Copies of training images, of all generated images", f"{made.copy_rate:.3%}"))
    if made.residual is not None:
        rows.append(("Copies of training images, after matches are removed", f"{made.residual:.4%}"))
    return rows


def _results(summary: Summary, check: str) -> dict[str, int]:
    """Return the number of objects by result of a check."""
    stated = summary.checks.get(check, {})
    results = {result: stated.get(result, 0) for result in _RESULTS}
    # Objects without a result count as not run: the report never claims more than was recorded.
    results["not_run"] += max(0, summary.objects - sum(results.values()))
    return results


def _actions(actions: Mapping[str, int]) -> list[tuple[str, _Bar]]:
    longest = max(actions.values(), default=0)
    return [
        (letter, _Bar(name, actions.get(name, 0), _share(actions.get(name, 0), longest), meaning))
        for name, letter, meaning in _ACTIONS
    ]


def _in_order(counts: Mapping[str, int]) -> list[_Bar]:
    """Return bars of the most frequent values: ages by age, others by length."""
    bars = _bars(counts)[:_MOST_VALUES]
    ages = all(bar.name[:1].isdecimal() for bar in bars)
    return sorted(bars, key=lambda bar: int(re.split(r"\D", bar.name)[0])) if ages else bars


def _bars(counts: Mapping[str, int], notes: Mapping[str, str] | None = None) -> list[_Bar]:
    """Return bars ordered by length, then by name."""
    longest = max(counts.values(), default=0)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        _Bar(name, count, _share(count, longest), (notes or {}).get(name, ""))
        for name, count in ordered
        if count
    ]


def _share(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def _count(number: int) -> str:
    return f"{number:,}"


def _size(number: int) -> str:
    size, units = float(number), ["bytes", "kB", "MB", "GB", "TB", "PB"]
    # Decimal units (SI): a kB is 1000 bytes.
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "bytes" or size >= 100 else f"{size:.1f} {units[0]}"


def _words(term: str) -> str:
    """Format a result for readers: ``not_run`` as "not run"."""
    return term.replace("_", " ")
