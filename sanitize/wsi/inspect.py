"""Is a file a slide, which slide is it, and what does it say of people?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256

from medsanitize.sanitize.context import Inspection, KnownValue
from medsanitize.sanitize.formats.czi import looks_like_czi, read_czi
from medsanitize.sanitize.formats.tiff.pyramid import PyramidTiff, looks_like_tiff
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.registry import vendor_of
from medsanitize.sanitize.wsi.source import SlideView

_OF_SEVERAL = frozenset(["mirax", "hamamatsu", "trestle", "aperio-afi"])
_ENDS, _WINDOWS, _WINDOW = 1 << 16, 256, 1 << 10
_MOST_TEXT = 1 << 18
_TEXTS = frozenset([1, 2, 7])
_KEYED = re.compile(
    r"(?i)\b(?:user(?:name)?|operator|patient(?:[ _]?name)?|technician|lastname|firstname|title|barcode\w*"
    r"|slide[ _]?(?:name|id)|reference|serial\w*)\b\"?\s*[=:>]+\s*\"?([^|\"<>;=\r\n]{3,60})"
)
_HARMLESS = re.compile(r"(?i)(?:jpe?g|j2k|rgb|q=|aperio|openslide|level|tile|image|x86|utf|iso|v\d).*")


def inspect_slide(view: SlideView) -> Inspection | None:
    """What inventory needs of a slide; None for what is none.

    The kind is ``slide``, or ``unreadable`` with the rule why it cannot be one.
    """
    data = view.data
    named = view.files[0].name.lower().endswith(".mrxs")
    if bytes(data[128:132]) == b"DICM":
        return None
    try:
        vendor = vendor_of(view)
    except Quarantined as refused:
        return Inspection("unreadable", refused.rule)
    if not vendor:
        return Inspection("unreadable", "slide-file-missing") if named else None
    if len(view.files) > 1 and vendor not in _OF_SEVERAL:
        return Inspection("unreadable", "slide-not-supported")
    return Inspection("slide", known=frozenset(_known(view)))


def slide_key(view: SlideView) -> str:
    """A digest that tells slides apart: sizes, both ends and many windows of every file.

    A file of many gigabytes is not read whole for a name. Two files that agree in all of that are held to
    be one slide, and must give the same released bytes.
    """
    digest = sha256()
    for file in view.files:
        size = len(file.data)
        digest.update(size.to_bytes(8, "big"))
        digest.update(file.data[:_ENDS])
        digest.update(file.data[max(_ENDS, size - _ENDS) :])
        if size > 2 * _ENDS:
            for number in range(_WINDOWS):
                start = _ENDS + (size - 2 * _ENDS) * number // _WINDOWS
                digest.update(file.data[start : start + _WINDOW])
    return digest.hexdigest()


def _known(view: SlideView) -> Iterator[KnownValue]:
    """Its file names, and the values of keys that name people and numbers; as many as are plainly such."""
    for file in view.files:
        if file is view.files[0] or file.name.lower().endswith(".svs"):
            stem = file.name.rpartition("/")[2].rpartition(".")[0]
            if len(stem) > 5 and any(map(str.isdigit, stem)):
                yield KnownValue("id", stem)
    for text in _texts(view):
        for found in _KEYED.findall(text):
            value = found.strip()
            if len(value) > 5 and not _HARMLESS.match(value):
                yield KnownValue("id" if any(map(str.isdigit, value)) else "name", value)


def _texts(view: SlideView) -> Iterator[str]:
    try:
        for file in view.files:
            if looks_like_tiff(file.data):
                yield from _tiff_texts((view if file is view.files[0] else SlideView((file,))).tiff)
        if looks_like_czi(view.data):
            yield _decoded(read_czi(view.data).xml)
    except Quarantined:
        return  # the object function reads it again and names the rule
    for file in view.files:
        if file.name.lower().endswith((".ini", ".vms", ".vmu", ".afi")):
            yield _decoded(bytes(file.data[:_MOST_TEXT]))


def _tiff_texts(tiff: PyramidTiff) -> Iterator[str]:
    for directory in tiff.directories[:64]:
        for field in directory.fields.values():
            if field.type in _TEXTS and field.size > 5:
                yield _decoded(bytes(tiff.data[field.start : field.start + min(field.size, _MOST_TEXT)]))


def _decoded(raw: bytes) -> str:
    raw = raw[:_MOST_TEXT]
    if raw.count(b"\0") * 3 > len(raw):
        return raw.decode("utf-16-le", "replace")
    return raw.decode("utf-8", "replace")
