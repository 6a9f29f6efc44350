"""Detection of whole-slide images, which have labels, levels and vendor keys that need other rules.

In doubt a file counts as a slide, and is not processed as an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from medsanitize.sanitize.formats.ifd import Directory, TiffHeader
from medsanitize.sanitize.formats.tiff_directory import ASCII, BYTE, UNDEFINED

_WIDTH, _HEIGHT, _SUBFILE, _TILE_WIDTH, _TILE_OFFSETS = 256, 257, 254, 322, 324
# Private tags of Hamamatsu.
_VENDOR_TAGS = range(65400, 65500)
_VENDOR_WORDS = (
    *(b"aperio", b"hamamatsu", b"ndp.scan", b"leica-microsystems", b"leica scn", b"<scn", b"dpufsimport"),
    *(b"philips dp", b"iscan", b"encodeinfo", b"perkinelmer-qpi", b"<ome", b"openmicroscopy", b"medscan"),
    *(b"3dhistech", b"trestle", b"olympus vs", b"scanscope", b"huron", b"motic", b"objectivemagnification"),
    *(b"whole slide", b"wholeslide", b"vips-properties"),
)
_MAX_TEXT_BYTES = 1 << 16
_TEXTS = frozenset([BYTE, ASCII, UNDEFINED])
# In pixels: several pages of which one is this large, or a reduced page this large, suggest a pyramid.
_LARGE_PAGE = 4096
_LARGE_THUMBNAIL = 512


def has_slide_pages(header: TiffHeader, pages: Sequence[Directory], inner: Sequence[Directory]) -> bool:
    """Return whether tiles, vendor keys, or several large pages make the file a slide.

    Parameters
    ----------
    header : TiffHeader
    pages : sequence of Directory
        The chain of pages.
    inner : sequence of Directory
        Directories that their SubIFDs point to.
    """
    everything = [*pages, *inner]
    if any(_TILE_WIDTH in page or _TILE_OFFSETS in page or _has_vendor_key(page) for page in everything):
        return True
    sizes = [_size(header, page) for page in pages]
    largest = max(sizes, key=max)
    if len(pages) > 1 and max(largest) > _LARGE_PAGE:
        return True
    small = [
        *(size for size, page in zip(sizes, pages, strict=True) if is_thumbnail(header, page)),
        *(_size(header, page) for page in inner),
    ]
    if any(max(size) > _LARGE_THUMBNAIL for size in small):
        return True
    return any(_is_layer(large, layer) for large, layer in pairwise(sizes))


def is_thumbnail(header: TiffHeader, page: Directory) -> bool:
    """Return whether a page declares itself a reduced version of another (NewSubfileType bit 0)."""
    flags = page[_SUBFILE].numbers(header) if _SUBFILE in page else ()
    return bool(flags and flags[0] & 1)


def _has_vendor_key(page: Directory) -> bool:
    if any(tag in _VENDOR_TAGS for tag in page):
        return True
    texts = (entry.value[:_MAX_TEXT_BYTES].lower() for entry in page.values() if entry.type in _TEXTS)
    return any(word in text for text in texts for word in _VENDOR_WORDS)


def _size(header: TiffHeader, page: Directory) -> tuple[int, int]:
    width, height = ((page[tag].numbers(header) if tag in page else ()) for tag in (_WIDTH, _HEIGHT))
    return (width[0] if width else 0, height[0] if height else 0)


def _is_layer(large: tuple[int, int], small: tuple[int, int]) -> bool:
    """Return whether a page has the proportions of the previous one at half its size or less."""
    if max(large) <= 1024 or not all(small) or not all(large) or small >= large:
        return False
    across, down = large[0] / small[0], large[1] / small[1]
    return across >= 1.9 and abs(across - down) < 0.05 * across
