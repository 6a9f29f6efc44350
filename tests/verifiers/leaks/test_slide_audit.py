"""The audit of slides: clean slides pass, and hidden or changed content is found."""

from __future__ import annotations

import base64
import io
import zlib
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from medsanitize.policies.model import WholeSlides
from medsanitize.release.multi_file_objects import parts_digest
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.result import FilePart, SlideRecord
from medsanitize.sanitize.wsi.registry import plan_edits
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.verifiers.leaks.identifier_search import build_identifier_search
from medsanitize.verifiers.leaks.slide_audit import StagedSlide, audit_slide, tile_digest, tile_digests
from medsanitize.verifiers.leaks.slide_hidden_data import identifying_words
from PIL import Image

from tests.helpers import slides

NAME = SlideName("2.25.4711", b"k" * 32)
NOTHING = build_identifier_search(())
PLAIN = WholeSlides()


def saved(view: SlideView, folder: Path) -> tuple[Path, ...]:
    paths = []
    for file in view.files:
        paths.append(folder / file.name)
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_bytes(bytes(file.data))
    return tuple(paths)


def staged(kind: str, tmp_path: Path, *, behind: bytes = b"", policy: WholeSlides = PLAIN) -> StagedSlide:
    """A cleaned slide on disk next to its source; ``behind`` is appended to the main file."""
    view = slides.MAKERS[kind]()
    sources = saved(view, tmp_path / "source")
    plan = plan_edits(view, policy, NAME)
    files = slides.written(view, plan)
    first = next(iter(files))
    files[first] += behind
    parts = []
    for name, data in files.items():
        path = tmp_path / "out" / f"{NAME.instance}{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        parts.append(FilePart(name, len(data), sha256(data).hexdigest()))
    facts = plan.facts
    stated = SlideRecord(facts.vendor, facts.levels, facts.mpp, facts.objective)
    several = tuple(parts) if len(parts) > 1 else ()
    digest = parts_digest(several) if several else parts[0].sha256
    return StagedSlide(tmp_path / "out" / f"{NAME.instance}{first}", digest, stated, several, sources)


def rules(one: StagedSlide, search: object = NOTHING) -> set[str]:
    return {finding.rule for finding in audit_slide(one, search=search)}  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", slides.MAKERS)
def test_a_cleaned_slide_passes(kind: str, tmp_path: Path) -> None:
    assert rules(staged(kind, tmp_path)) == set()


def picture() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.arange(64 * 64, dtype=np.uint8).reshape(64, 64)).save(out, "JPEG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("hidden", "rule"),
    [
        (b" 2026-03-14 ", "audit:date"),
        (b" 13:37:22 ", "audit:date"),
        (b"{0f8fad5b-d9cb-469f-a165-70867728950e}", "audit:guid"),
        (base64.b64encode(b"Doe, Jane, born in Springfield"), "audit:coded-text"),
        (b"Label=" + base64.b64encode(b"Doe, Jane, born in Springfield"), "audit:coded-text"),
        (b"labelImage/" + base64.b64encode(b"Doe, Jane, born in Springfield"), "audit:coded-text"),
        (b"b64" + base64.b64encode(b"Doe, Jane, born in Springfield"), "audit:coded-text"),
        (zlib.compress(b"Doe, Jane, born in Springfield, seen by Dr Roe"), "audit:packed-text"),
        (slides.MARKER.encode(), "audit:source-text"),
        (slides.MARKER.encode("utf-16-le"), "audit:source-text"),
        (picture(), "audit:picture"),
        (b"Exif\0\0", "audit:metadata"),
        (b"<x:xmpmeta>", "audit:metadata"),
    ],
)
def test_hidden_identifiers_are_found(hidden: bytes, rule: str, tmp_path: Path) -> None:
    assert rule in rules(staged("aperio", tmp_path, behind=hidden))


def test_identifiers_known_to_the_run_are_found_everywhere(tmp_path: Path) -> None:
    search = build_identifier_search(
        [KnownValue("name", "Quixleyvane^Zyphora"), KnownValue("id", "MRN7734190")]
    )
    assert "audit:id" in rules(staged("generic", tmp_path, behind=b" MRN7734190 "), search)


@pytest.mark.parametrize("before", [b"", b"x", b"xy"])
def test_a_word_of_the_source_is_found_encoded_within_image_data(before: bytes, tmp_path: Path) -> None:
    one = staged("aperio", tmp_path)
    data = one.main.read_bytes()
    place = data.index(b"\xff\xda") + 300
    word = base64.b64encode(before + slides.MARKER.encode() + b"z")
    one.main.write_bytes(data[:place] + word + data[place + len(word) :])
    assert "audit:source-text" in rules(one)


def test_a_comment_in_a_tile_is_found(tmp_path: Path) -> None:
    view = slides.generic()
    source = saved(view, tmp_path)[0]
    facts = plan_edits(view, WholeSlides(), NAME).facts
    uncleaned = StagedSlide(
        source, sha256(source.read_bytes()).hexdigest(), SlideRecord(facts.vendor, facts.levels)
    )
    assert "audit:tile-metadata" in rules(uncleaned)


def test_a_remaining_label_is_found(tmp_path: Path) -> None:
    source = saved(slides.aperio(), tmp_path)[0]
    uncleaned = StagedSlide(
        source, sha256(source.read_bytes()).hexdigest(), SlideRecord("aperio", ((256, 256),))
    )
    assert "audit:picture" in rules(uncleaned)


@pytest.mark.parametrize(
    "stated",
    [
        SlideRecord("leica", ((256, 256),)),
        SlideRecord("aperio", ((256, 256),), 0.25),
        SlideRecord("aperio", ((256, 256),), 0.5, 40),
    ],
)
def test_a_contradicting_record_is_found(stated: SlideRecord, tmp_path: Path) -> None:
    one = staged("aperio", tmp_path)
    other = StagedSlide(one.main, one.sha256, stated, one.parts, one.sources)
    assert rules(other) == {"audit:viewer"}


def test_pixels_that_differ_from_the_source_are_found(tmp_path: Path) -> None:
    one = staged("aperio", tmp_path)
    data = bytearray(one.main.read_bytes())
    scan = data.index(b"\xff\xda") + 400
    data[scan] ^= 0x10
    one.main.write_bytes(data)
    assert rules(one) & {"audit:pixels", "audit:viewer"}


def test_a_changed_file_is_found_by_its_digest(tmp_path: Path) -> None:
    one = staged("mirax", tmp_path)
    ini = next(path for path in one.files if path.name == "Slidedat.ini")
    ini.write_bytes(ini.read_bytes() + b"\r\n")
    assert rules(one) == {"audit:digest"}


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    one = staged("vms", tmp_path)
    one.files[1].unlink()
    assert "audit:missing" in rules(one)


def test_tiles_have_one_digest_in_any_container_cleaned_or_not(tmp_path: Path) -> None:
    digests = set()
    for kind in ("aperio", "aperio-gt450", "generic", "leica", "philips", "ome", "mirax"):
        one = staged(kind, tmp_path / kind)
        digests |= {tile_digest(one.main, one.files[1:]), tile_digest(one.sources[0], one.sources[1:])}
    assert len(digests) == 1
    assert None not in digests


# -- lists of channels --------------------------------------------------------------------


def test_a_reordered_channel_list_is_found(tmp_path: Path) -> None:
    one = staged("afi", tmp_path)
    first, second = b"_1_DAPI.svs", b"_2.svs"
    listed = one.main.read_bytes().replace(first, b"#").replace(second, first).replace(b"#", second)
    one.main.write_bytes(listed)
    assert "audit:viewer" in rules(one)


def test_a_channel_list_with_another_file_is_found(tmp_path: Path) -> None:
    one = staged("afi", tmp_path)
    one.main.write_bytes(one.main.read_bytes().replace(b"_2.svs", b"_3.svs"))
    assert {"audit:viewer", "audit:structure"} <= rules(one)


def test_a_label_remaining_in_a_channel_is_found(tmp_path: Path) -> None:
    one = staged("afi", tmp_path)
    one.files[2].write_bytes(one.sources[2].read_bytes())
    assert {"audit:picture", "audit:digest", "audit:source-text"} <= rules(one)


def test_regenerated_labels_in_channels_pass(tmp_path: Path) -> None:
    assert rules(staged("afi", tmp_path, policy=WholeSlides(label="replace"))) == set()


def test_text_hidden_in_a_channel_list_is_found(tmp_path: Path) -> None:
    assert "audit:date" in rules(staged("afi", tmp_path, behind=b"<!-- 2026-03-14 -->"))


def test_channels_have_the_digests_of_their_slides(tmp_path: Path) -> None:
    one = staged("afi", tmp_path / "a")
    whole, *channels = tile_digests(one.main, one.files[1:])
    assert tile_digests(one.sources[0], one.sources[1:]) == (whole, *channels)
    assert channels == [tile_digest(path, ()) for path in one.sources[1:]]
    assert whole not in channels


def test_colors_and_pixel_types_of_channels_are_no_identifying_words_but_what_resembles_them_is() -> None:
    text = (
        b"<Color>#FF00A0F5</Color><PixelType>Gray32Float</PixelType><Comment>#FF00A0F6 Gray32Floor</Comment>"
    )
    assert identifying_words([text]) == {b"ff00a0f6", b"gray32floor"}
