"""Compare what viewers show of a released slide with its record and its source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from medsanitize.sanitize.result import Finding, SlideRecord
from medsanitize.verifiers.leaks.slide_macro import Part, is_stated

_VENDORS_NOT_RENDERED: Final = frozenset(["akoya", "ome-tiff", "zeiss"])
"""Formats that OpenSlide does not read, or reads as another format."""
_VIEWER: Final = Finding("levels", "audit:viewer")
_PIXELS: Final = Finding("pixels", "audit:pixels")
_PICTURE: Final = Finding("pictures", "audit:picture")
# Levels up to this size are compared completely, others at 36 positions.
_MAX_WHOLE_LEVEL: Final = 2048
_REGION: Final = 256
_REGIONS_PER_SIDE: Final = 6
_LETTERS, _LINE, _EDGE, _ENLARGED = 11, 14, 4, 3
"""Layout of a replaced label: letters per line, line height and margin in pixels, enlargement."""
_PROPERTIES: Final = (
    "openslide.vendor",
    "openslide.mpp-x",
    "openslide.mpp-y",
    "openslide.objective-power",
)


def differences(
    main: Path, stated: SlideRecord, sources: Sequence[Path], part: Part | None = None
) -> Iterator[Finding]:
    """Yield differences between what viewers show and what the record states or the source shows.

    ``audit:viewer``: the slide cannot be opened, or vendor, levels, resolution or magnification differ.
    ``audit:picture``: an associated image other than a thumbnail, a label with only the file's name, and the
    recorded macro image, of which ``part`` is kept. ``audit:pixels``: different pixels.

    Parameters
    ----------
    main : Path
        Main file of the released slide.
    stated : SlideRecord
        Its record.
    sources : sequence of Path
        Files of the source, the main one first; if empty, only the record is compared.
    part : Part, optional
        Part of the macro image that the policy keeps.
    """
    if stated.vendor == "zeiss":
        yield from _czi(main, sources)
    elif main.suffix == ".afi":
        yield from _channels(main, stated, sources, part)
    else:
        yield from _one(main, stated, sources, part)


def _channels(
    main: Path, stated: SlideRecord, sources: Sequence[Path], part: Part | None
) -> Iterator[Finding]:
    """Compare each SVS of an AFI, which OpenSlide cannot open, with that of the source."""
    from medsanitize.verifiers.leaks.slide_layout import MalformedSlide, channels_of

    beside = sorted(main.parent.glob(f"{main.stem}_*.svs"))
    try:
        ours = channels_of(main, beside)
        theirs = channels_of(sources[0], sources[1:]) if sources else ()
    except (MalformedSlide, OSError):
        yield _VIEWER
        return
    if sources and len(ours) != len(theirs):
        yield _VIEWER
        return
    macros = stated.macros.split(",")
    for number, path in enumerate(ours):
        # The record describes the first channel.
        own = stated if number == 0 else SlideRecord(stated.vendor, stated.levels)
        own = replace(own, macros=macros[number] if number < len(macros) else "")
        yield from _one(path, own, theirs[number : number + 1], part)


def _one(main: Path, stated: SlideRecord, sources: Sequence[Path], part: Part | None) -> Iterator[Finding]:
    from openslide import OpenSlide, OpenSlideError

    opened = None
    try:
        opened = OpenSlide(main)
        if not _shows_what_may_be(opened, stated, main, part):
            yield _PICTURE
        yield from _opened(opened, stated, sources)
    except (OpenSlideError, OSError):
        if stated.vendor not in _VENDORS_NOT_RENDERED:
            yield _VIEWER
    finally:
        if opened is not None:
            opened.close()
    if stated.vendor in _VENDORS_NOT_RENDERED:
        yield from _by_tifffile(main, stated, sources)


def _shows_what_may_be(slide: Any, stated: SlideRecord, main: Path, part: Part | None) -> bool:
    """Whether there are only a thumbnail, a label with the slide's name, and the recorded macro image."""
    beside = slide.associated_images
    if set(beside) - {"thumbnail", "label"} != ({"macro"} if stated.macros else set()):
        return False
    if "label" in beside and not _shows_only(beside["label"], main.stem):
        return False
    return "macro" not in beside or is_stated(main, beside["macro"], stated.macros, part)


def _opened(slide: Any, stated: SlideRecord, sources: Sequence[Path]) -> Iterator[Finding]:
    from openslide import OpenSlide

    if stated.vendor not in _VENDORS_NOT_RENDERED and not _as_stated(slide, stated):
        yield _VIEWER
    if not sources:
        return
    if OpenSlide.detect_format(sources[0]) is None:
        yield from () if stated.vendor in _VENDORS_NOT_RENDERED else (_VIEWER,)
        return
    with OpenSlide(sources[0]) as source:
        said = [(one.properties.get(name)) for one in (source, slide) for name in _PROPERTIES]
        if (
            said[: len(_PROPERTIES)] != said[len(_PROPERTIES) :]
            or source.level_dimensions != slide.level_dimensions
        ):
            yield _VIEWER
        elif any(
            source.read_region(*one).tobytes() != slide.read_region(*one).tobytes() for one in _regions(slide)
        ):
            yield _PIXELS


def _shows_only(label: Any, name: str) -> bool:
    """Whether an image is, pixel by pixel, the file's name in Pillow's bitmap font."""
    from PIL import Image, ImageDraw, ImageFont

    small = Image.new("L", (label.width // _ENLARGED, label.height // _ENLARGED), 255)
    pen, font = ImageDraw.Draw(small), ImageFont.load_default_imagefont()
    for at in range(0, len(name), _LETTERS):
        place = (_EDGE, _EDGE + at // _LETTERS * _LINE)
        pen.text(place, name[at : at + _LETTERS], 0, font)
    expected = small.resize(label.size, Image.Resampling.NEAREST)
    return bool(label.convert("RGB").tobytes() == expected.convert("RGB").tobytes())


def _as_stated(slide: Any, stated: SlideRecord) -> bool:
    """Whether vendor, largest level, resolution and magnification equal the record, where both state them."""
    said = slide.properties
    if said.get("openslide.vendor") != stated.vendor:
        return False
    pairs = ((stated.mpp, "openslide.mpp-x"), (stated.objective, "openslide.objective-power"))
    for value, name in pairs:
        shown = said.get(name)
        if value is not None and shown is not None and not math.isclose(float(shown), value, rel_tol=0.02):
            return False
    return True


def _regions(slide: Any) -> Iterator[tuple[tuple[int, int], int, tuple[int, int]]]:
    """Yield regions to compare: small levels completely, of others a grid; position, level, size."""
    for level, (width, height) in enumerate(slide.level_dimensions):
        scale = slide.level_downsamples[level]
        if max(width, height) <= _MAX_WHOLE_LEVEL:
            yield (0, 0), level, (width, height)
            continue
        for number in range(_REGIONS_PER_SIDE * _REGIONS_PER_SIDE):
            x = (width - _REGION) * (number % _REGIONS_PER_SIDE) // (_REGIONS_PER_SIDE - 1)
            y = (height - _REGION) * (number // _REGIONS_PER_SIDE) // (_REGIONS_PER_SIDE - 1)
            size = (min(_REGION, width), min(_REGION, height))
            yield (int(max(x, 0) * scale), int(max(y, 0) * scale)), level, size


def _by_tifffile(main: Path, stated: SlideRecord, sources: Sequence[Path]) -> Iterator[Finding]:
    """Check that every page is in the source, with equal decoded tiles."""
    import tifffile

    try:
        with tifffile.TiffFile(main) as ours:
            shapes = {page.shape[1::-1] for page in ours.pages}
            if stated.levels[0] not in shapes:
                yield _VIEWER
            if not sources:
                return
            # Opened here, not by tifffile: the target of a link may have no suffix.
            with sources[0].open("rb") as file, tifffile.TiffFile(file) as theirs:
                if not all(any(_same(page, other) for other in theirs.pages) for page in ours.pages):
                    yield _PIXELS
    except (tifffile.TiffFileError, ValueError, LookupError, RuntimeError):
        yield _VIEWER


def _same(ours: Any, theirs: Any) -> bool:
    """Whether two pages have the same shape, and a sample of their tiles decodes equally."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    count = len(ours.dataoffsets)
    if count != len(theirs.dataoffsets):
        return False
    chosen = sorted({count * step // 48 for step in range(48)})
    return all(_tile(ours, number) == _tile(theirs, number) for number in chosen)


def _tile(page: Any, number: int) -> bytes:
    handle = page.parent.filehandle
    handle.seek(page.dataoffsets[number])
    data = handle.read(page.databytecounts[number])
    decoded = page.decode(data, number, jpegtables=page.jpegtables)[0] if data else None
    return b"" if decoded is None else decoded.tobytes()


def _czi(main: Path, sources: Sequence[Path]) -> Iterator[Finding]:
    """Check that a CZI has no attachments, and that its encoded tiles equal those of the source."""
    import mmap
    import struct

    from medsanitize.verifiers.leaks.slide_layout import MalformedSlide, tiles_of

    with main.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # Attachments of a CZI include images of the label and the whole slide.
        if struct.unpack_from("<q", data, 32 + 72)[0] or b"ZISRAWATTACH" in data[: 1 << 20]:
            yield _PICTURE
        if not sources:
            return
        try:
            ours, theirs = tiles_of(main, ())[main].base, tiles_of(sources[0], ())[sources[0]].base
        except MalformedSlide:
            yield _VIEWER
            return
        with sources[0].open("rb") as other, mmap.mmap(other.fileno(), 0, access=mmap.ACCESS_READ) as given:
            # Only the end of each tile is compared: headers may differ by removed comments.
            same = len(ours) == len(theirs) and all(
                data[a + (b - a) // 2 : b][-4096:] in given[c:d]
                for (a, b), (c, d) in zip(ours, theirs, strict=True)
            )
        if not same:
            yield _PIXELS
