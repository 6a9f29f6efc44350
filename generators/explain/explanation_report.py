"""HTML pages of an explanation and of its evaluation."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from medsanitize.generators.explain.explain import Explanation, SimilarCase
from medsanitize.generators.explain.relevance_judgments import Ranking
from medsanitize.generators.quality.interval import Estimate
from medsanitize.verifiers.html.page import Page, Picture, Section, Table, Tone, render_page
from medsanitize.verifiers.reid.images.image import ImageArray as Image
from medsanitize.verifiers.reid.images.read import read_image

_MAX_SIDE: Final = 384
_FOR_THE_HOLDER: Final = "Contains PHI: this page shows the explained image. Never publish it."


def explanation_page(found: Explanation, image: Image, release: Path) -> bytes:
    """Render an explanation as HTML; images of the cases are read from the release. Contains PHI."""
    first = found.answers[0] if found.answers else None
    tiles = [
        ("Images compared", f"{found.images:,}"),
        ("Nearest distance", f"{_nearest(found).distance:.3f}"),
    ]
    if first is not None:
        tiles.insert(0, (f"Predicted: {first.name}", f"{first.probability:.2f}"))
    page = Page(
        kind="Explanation by example",
        title="Similar images by the model's features",
        lede=f"The nearest of {found.images:,} images, {found.synthetic:,} of them synthetic,"
        f" by {found.model}.",
        tiles=tuple(tiles),
        sections=(
            Section("The image", pictures=(Picture(_png(image), _said(found)),)),
            _ranked(
                "Nearest by features",
                "Images with similar features."
                + (" Green border: same predicted class; red border: another class." if first else ""),
                found,
                found.by_features,
                release,
            ),
            _ranked(
                "Nearest by structure",
                "For comparison: images with high structural similarity (SSIM), independent of the task.",
                found,
                found.by_structure,
                release,
            ),
            _table(found),
        ),
        notice=("care", _FOR_THE_HOLDER),
    )
    return render_page(page)


def ranking_page(found: Ranking) -> bytes:
    """Render an evaluation as HTML. Contains no images."""
    rows = [
        (f"nDCG@{one.p}", _with_interval(one.features), _with_interval(one.structure), f"{one.chance:.3f}")
        for one in found.at
    ]
    page = Page(
        kind="Explanation by example",
        title="Agreement of the rankings with a reader",
        lede=f"{found.judgments:,} judgments for {found.images:,} images, ranked by {found.model}.",
        tiles=(("Images", f"{found.images:,}"), ("Judgments", f"{found.judgments:,}")),
        sections=(
            Section(
                "Rankings",
                (
                    "1 is the reader's order, chance the mean of a random order. Intervals are 95 % and"
                    " resample images: with few images they are wide.",
                ),
                tables=(Table("", ("", "by features", "by structure", "by chance"), rows),),
            ),
        ),
    )
    return render_page(page)


def _ranked(
    title: str, text: str, found: Explanation, cases: Sequence[SimilarCase], release: Path
) -> Section:
    pictures = [
        Picture(_png(read_image(release / one.path)), f"{number}. {_caption(one)}", tone_of(found, one))
        for number, one in enumerate(cases, 1)
    ]
    return Section(title, (text,), pictures=tuple(pictures))


def _caption(case: SimilarCase) -> str:
    said = [] if case.answer is None else [f"{case.answer.name} {case.answer.probability:.2f}"]
    said += [f"class {case.label}"] if case.label else []
    said += [f"distance {case.distance:.3f}", f"SSIM {case.ssim:.3f}"]
    said += [f"{case.repeats:,} more nearly identical"] if case.repeats else []
    return ", ".join(said) + ("" if case.synthetic else ", a real image")


def tone_of(found: Explanation, case: SimilarCase) -> Tone:
    """``good`` if the classifier predicts the same class for case and image, ``bad`` if not."""
    if case.answer is None or not found.answers:
        return "plain"
    return "good" if case.answer.name == found.answers[0].name else "bad"


def _table(found: Explanation) -> Section:
    cases = {one.object_id: one for one in (*found.by_features, *found.by_structure)}
    rows = [
        (one.object_id, f"{one.rank:,}", f"{one.distance:.4f}", f"{one.structure_rank:,}", f"{one.ssim:.4f}")
        for one in sorted(cases.values(), key=lambda one: one.rank)
    ]
    head = ("object", "rank by features", "distance", "rank by structure", "SSIM")
    left = ", ".join(f"{count:,} {reason}" for reason, count in found.excluded.items())
    text = (f"Not compared: {left}.",) if left else ()
    return Section("Both rankings", text, tables=(Table("Cases shown above", head, rows),))


def _said(found: Explanation) -> str:
    if not found.answers:
        return "the image; the features have no classes"
    return "predicted: " + ", ".join(f"{one.name} {one.probability:.2f}" for one in found.answers[:3])


def _nearest(found: Explanation) -> SimilarCase:
    return found.by_features[0]


def _with_interval(measure: Estimate) -> str:
    return f"{measure.value:.3f} ({measure.low:.3f} to {measure.high:.3f})"


def _png(image: Image) -> bytes:
    """Encode an image as PNG, scaled down for the page."""
    import numpy as np
    from PIL import Image as Pillow

    small = Pillow.fromarray(np.clip(image.pixels * 255 + 0.5, 0, 255).astype(np.uint8))
    # Images are embedded in the page: full size would make it too large to open.
    small.thumbnail((_MAX_SIDE, _MAX_SIDE))
    stream = io.BytesIO()
    small.save(stream, "PNG")
    return stream.getvalue()
