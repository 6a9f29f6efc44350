"""The report: self-contained, escaped, and explicit about what was not checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from medsanitize.policies.model import Release
from medsanitize.release.report import ObjectRelation, render_report, report_verdict, write_controller_report
from medsanitize.release.summary import FigureTable, GateSummary, Guideline, SyntheticSummary

Make = Callable[..., Any]
VOID = {"meta", "br", "rect", "circle", "path", "link", "img", "input", "hr"}


class Outline(HTMLParser):
    """Collects tags and attributes, and checks that every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(page: bytes) -> Outline:
    parsed = Outline()
    parsed.feed(page.decode())
    assert parsed.open == []
    return parsed


def text(page: bytes) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.decode().split("</style>")[1]))


def test_the_page_is_well_formed_and_loads_no_resources(summary: Make) -> None:
    page = render_report(summary(), signer="ab" * 32)
    parsed = outline(page)
    assert not {"script", "link", "img", "iframe", "object", "embed", "a", "form"} & {
        tag for tag, _ in parsed.tags
    }
    assert not {"src", "href", "xlink:href", "srcset", "onload"} & {
        name for _, attrs in parsed.tags for name in attrs
    }
    assert not re.search(rb"url\(|@import|https?://", page)


def test_the_page_is_accessible_to_screen_readers(summary: Make) -> None:
    parsed = outline(render_report(summary(), signer=None))
    assert ("html", {"lang": "en"}) in parsed.tags
    tags = [tag for tag, _ in parsed.tags]
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption")
    for tag, attributes in parsed.tags:
        if tag == "svg":
            assert attributes.get("aria-hidden") == "true" or attributes.get("aria-label")
        if tag == "th":
            assert attributes.get("scope") in ("row", "col")


def test_owner_texts_cannot_become_markup(summary: Make) -> None:
    release = Release(
        name="a", version="1", mode="anonymous", description="<script>alert('x')</script>", ethics="&lt;"
    )
    gates = (GateSummary("<b>gate</b>", "passed", "<img src=x>"),)
    page = render_report(summary(release=release, gates=gates, meanings={"X:private": "<i>"}), signer="<u>")
    parsed = outline(page)
    assert not {"script", "img", "i><", "u"} & {tag for tag, _ in parsed.tags}
    assert b"&lt;script&gt;" in page


def test_unchecked_pixels_are_stated_plainly_and_first(summary: Make) -> None:
    tone, sentence = report_verdict(summary())
    assert (tone, sentence) == (
        "care",
        "Released. 6 objects were not checked for burned-in text.",
    )
    assert "Pixels: not checked." in text(render_report(summary(), signer=None))


def test_an_unmentioned_check_counts_as_not_run(summary: Make) -> None:
    assert report_verdict(summary(checks={}))[0] == "care"
    shown = text(render_report(summary(checks={}), signer=None))
    assert "Burned-in text, where the header indicates a risk 0 0 6 0" in shown


@pytest.mark.parametrize(
    ("results", "tone"),
    [
        (("passed",), "good"),
        (("passed", "not_run"), "care"),
        (("flagged",), "care"),
        (("passed", "failed"), "bad"),
    ],
)
def test_the_verdict_is_never_better_than_the_worst_gate(
    summary: Make, results: tuple[Any, ...], tone: str
) -> None:
    gates = tuple(GateSummary(f"gate {n}", result) for n, result in enumerate(results))
    assert report_verdict(summary(gates=gates, checks={"pixels": {"passed": 6}}))[0] == tone


def test_absent_metadata_is_listed_and_complete_metadata_is_not(summary: Make, complete: Make) -> None:
    assert "Metadata incomplete: date, description, creator, license, contact, ethics absent." in text(
        render_report(summary(), signer=None)
    ).replace(" :", ":")
    assert "incomplete" not in text(render_report(summary(release=complete()), signer=None))


def test_signature_and_its_absence_are_stated(summary: Make) -> None:
    assert "Unsigned." in text(render_report(summary(), signer=None))
    assert "key id " + "ab" * 32 in text(render_report(summary(), signer="ab" * 32))


def test_counts_by_outcome_rule_and_class_are_shown(summary: Make) -> None:
    shown = text(render_report(summary(meanings={"truncated": "Ends before its last element"}), signer=None))
    for part in (
        "9 files were found",
        "6 released 66.7 %",
        "Ends before its last element truncated",
        "CT Image Storage",
    ):
        assert part in shown


def test_an_empty_release_has_a_report(summary: Make) -> None:
    page = render_report(
        summary(
            objects=0, outcomes={}, modalities={}, sop_classes={}, actions={}, rules={}, gates=(), checks={}
        ),
        signer=None,
    )
    assert "0 files were found" in text(page)


def test_pseudonym_links_are_only_in_the_private_report(summary: Make, tmp_path: Path) -> None:
    write_controller_report(
        tmp_path / "h.html",
        summary(),
        links=[ObjectRelation("data/a.dcm", "equal pixels", "old 1.0: data/b.dcm")],
    )
    page = (tmp_path / "h.html").read_bytes()
    outline(page)
    assert "old 1.0: data/b.dcm" in text(page)
    assert "Do not publish it." in text(page)
    assert "Data controller's" not in text(render_report(summary(), signer=None))


def test_the_page_is_deterministic(summary: Make) -> None:
    turned = dict(reversed([("CT", 5), ("MR", 1)]))
    assert render_report(summary(modalities={"CT": 5, "MR": 1}), signer=None) == render_report(
        summary(modalities=turned), signer=None
    )


def test_guidelines_are_shown_with_status_and_reason(summary: Make) -> None:
    guidelines = (
        Guideline("A2", "Dissociate from patient records", "not_met", "The link <stays>."),
        Guideline("A7", "Contract", "needs_review", "A license is stated."),
    )
    page = render_report(summary(guidelines=guidelines), signer=None)
    outline(page)
    shown = text(page)
    assert "A2 Dissociate from patient records ✕ not met The link &lt;stays&gt;." in shown
    assert "A7 Contract ? needs review A license is stated." in shown
    assert "Guidelines A1" not in text(render_report(summary(), signer=None))


def synthetic(**changes: Any) -> SyntheticSummary:
    figures = FigureTable("Fidelity <of all>", ("", "value"), (("precision", "0.512 (0.401 to 0.623)"),))
    said = ("Measured beside 110 real images.",)
    told = SyntheticSummary(
        4, 4, 4, 0, "passed", "a label", "ab" * 32, 0.001, (), "", 0.00125, 1.6e-5, said, (figures,)
    )
    return replace(told, **changes)


def test_quality_metrics_are_tables_without_resources(summary: Make) -> None:
    page = render_report(summary(synthetic=synthetic()), signer=None)
    assert "img" not in {tag for tag, _ in outline(page).tags}
    assert "Measured beside 110 real images." in text(page)
    assert "Fidelity &lt;of all&gt; value precision 0.512 (0.401 to 0.623)" in text(page)


def test_matches_generated_and_remaining_copies_each_have_a_bound(summary: Make) -> None:
    shown = text(render_report(summary(synthetic=synthetic()), signer=None))
    assert "Match a training patient, of all generated images 0.100%" in shown
    assert "Copies of training images, of all generated images 0.125%" in shown
    assert "Copies of training images, after matches are removed 0.0016%" in shown


def test_without_a_guarantee_of_the_gate_no_bound_is_shown(summary: Make) -> None:
    made = synthetic(state="failed", bound=None, copy_rate=None, residual=None)
    assert "Are copies" not in text(render_report(summary(synthetic=made), signer=None))


def test_a_name_that_begins_with_a_raised_digit_is_no_age(summary: Make) -> None:
    shown = text(render_report(summary(distributions={"Manufacturer": {"³x": 2}}), signer=None))
    assert "³x" in shown
