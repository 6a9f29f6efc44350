"""What a viewer sees of a released slide, held against its record and its source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from medsanitize.sanitize.result import Finding, SlideRecord
from medsanitize.verifiers.leaks.slide_macro import Part, is_stated

_ELSEWHERE: Final = frozenset(["akoya", "ome-tiff", "zeiss"])
"""Formats that OpenSlide reads not at all, or as something else."""
_VIEWER: Final = Finding("levels", "audit:viewer")
_PIXELS: Final = Finding("pixels", "audit:pixels")
_PICTURE: Final = Finding("pictures", "audit:picture")
_SMALL: Final = 2048
_REGION: Final = 256
_ACROSS: Final = 6
_LETTERS, _LINE, _EDGE, _ENLARGED = 11, 14, 4, 3
"""A label made again: letters a line, height of a line and margin in pixels, times enlarged."""
_SAID: Final = ("openslide.vendor", "openslide.mpp-x", "openslide.mpp-y", "openslide.objective-power")


def differences(
    main: Path, stated: SlideRecord, sources: Sequence[Path], part: Part | None = None
) -> Iterator[Finding]:
    """What a viewer sees differently from what is stated, or from the source.

    ``audit:viewer``: it does not open, or vendor, levels, resolution or magnification differ;
    ``audit:picture``: a picture beside the tissue but for a thumbnail, a label that shows the file's name
    alone, and the macro that is stated, of which ``part`` may stay; ``audit:pixels``: other pixels.
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
    """OpenSlide opens no AFI: each SVS that it names is held against that of the source's list."""
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
        # The record speaks of the first channel.
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
        if stated.vendor not in _ELSEWHERE:
            yield _VIEWER
    finally:
        if opened is not None:
            opened.close()
    if stated.vendor in _ELSEWHERE:
        yield from _by_tifffile(main, stated, sources)


def _shows_what_may_be(slide: Any, stated: SlideRecord, main: Path, part: Part | None) -> bool:
    """Whether beside the tissue nothing is shown but a thumbnail, the slide's name and the stated macro."""
    beside = slide.associated_images
    if set(beside) - {"thumbnail", "label"} != ({"macro"} if stated.macros else set()):
        return False
    if "label" in beside and not _shows_only(beside["label"], main.stem):
        return False
    return "macro" not in beside or is_stated(main, beside["macro"], stated.macros, part)


def _opened(slide: Any, stated: SlideRecord, sources: Sequence[Path]) -> Iterator[Finding]:
    from openslide import OpenSlide

    if stated.vendor not in _ELSEWHERE and not _as_stated(slide, stated):
        yield _VIEWER
    if not sources:
        return
    if OpenSlide.detect_format(sources[0]) is None:
        yield from () if stated.vendor in _ELSEWHERE else (_VIEWER,)
        return
    with OpenSlide(sources[0]) as source:
        said = [(one.properties.get(name)) for one in (source, slide) for name in _SAID]
        if said[: len(_SAID)] != said[len(_SAID) :] or source.level_dimensions != slide.level_dimensions:
            yield _VIEWER
        elif any(
            source.read_region(*one).tobytes() != slide.read_region(*one).tobytes() for one in _regions(slide)
        ):
            yield _PIXELS


def _shows_only(label: Any, name: str) -> bool:
    """Whether a picture is, to the pixel, the file's own name in Pillow's bitmap letters and nothing else."""
    from PIL import Image, ImageDraw, ImageFont

    small = Image.new("L", (label.width // _ENLARGED, label.height // _ENLARGED), 255)
    pen, font = ImageDraw.Draw(small), ImageFont.load_default_imagefont()
    for at in range(0, len(name), _LETTERS):
        place = (_EDGE, _EDGE + at // _LETTERS * _LINE)
        pen.text(place, name[at : at + _LETTERS], 0, font)
    expected = small.resize(label.size, Image.Resampling.NEAREST)
    return bool(label.convert("RGB").tobytes() == expected.convert("RGB").tobytes())


def _as_stated(slide: Any, stated: SlideRecord) -> bool:
    """Whether vendor, the largest level, resolution and magnification are the record's, as far as it says."""
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
    """All of small levels, a grid of small squares of the others: place, level, size."""
    for level, (width, height) in enumerate(slide.level_dimensions):
        scale = slide.level_downsamples[level]
        if max(width, height) <= _SMALL:
            yield (0, 0), level, (width, height)
            continue
        for number in range(_ACROSS * _ACROSS):
            x = (width - _REGION) * (number % _ACROSS) // (_ACROSS - 1)
            y = (height - _REGION) * (number // _ACROSS) // (_ACROSS - 1)
            size = (min(_REGION, width), min(_REGION, height))
            yield (int(max(x, 0) * scale), int(max(y, 0) * scale)), level, size


def _by_tifffile(main: Path, stated: SlideRecord, sources: Sequence[Path]) -> Iterator[Finding]:
    """Every page that is left is in the source, with the same encoded tiles but for their headers."""
    import tifffile

    try:
        with tifffile.TiffFile(main) as ours:
            shapes = {page.shape[1::-1] for page in ours.pages}
            if stated.levels[0] not in shapes:
                yield _VIEWER
            if not sources:
                return
            # Opened here and not by its path: what a link leads to may have no name.
            with sources[0].open("rb") as file, tifffile.TiffFile(file) as theirs:
                if not all(any(_same(page, other) for other in theirs.pages) for page in ours.pages):
                    yield _PIXELS
    except (tifffile.TiffFileError, ValueError, LookupError, RuntimeError):
        yield _VIEWER


def _same(ours: Any, theirs: Any) -> bool:
    """Whether two pages have one shape, and samples of their tiles decode alike."""
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
    """No attachment is announced; the encoded tiles are the source's but for what no decoder needs."""
    import mmap
    import struct

    from medsanitize.verifiers.leaks.slide_layout import MalformedSlide, tiles_of

    with main.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if struct.unpack_from("<q", data, 32 + 72)[0] or b"ZISRAWATTACH" in data[: 1 << 20]:
            yield _PICTURE
        if not sources:
            return
        try:
            mine, theirs = tiles_of(main, ())[main].base, tiles_of(sources[0], ())[sources[0]].base
        except MalformedSlide:
            yield _VIEWER
            return
        with sources[0].open("rb") as other, mmap.mmap(other.fileno(), 0, access=mmap.ACCESS_READ) as given:
            same = len(mine) == len(theirs) and all(
                data[a + (b - a) // 2 : b][-4096:] in given[c:d]
                for (a, b), (c, d) in zip(mine, theirs, strict=True)
            )
        if not same:
            yield _PIXELS
