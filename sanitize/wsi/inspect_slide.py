"""Inventory of slides: recognition, identity and identifiers that the files contain."""

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
# BYTE and UNDEFINED as well as ASCII: vendors store XML in all three field types.
_TEXTS = frozenset([1, 2, 7])
_KEYED = re.compile(
    r"(?i)\b(?:user(?:name)?|operator|patient(?:[ _]?name)?|technician|lastname|firstname|title|barcode\w*"
    r"|slide[ _]?(?:name|id)|reference|serial\w*)\b\"?\s*[=:>]+\s*\"?([^|\"<>;=\r\n]{3,60})"
)
_TECHNICAL_TEXT = re.compile(r"(?i)(?:jpe?g|j2k|rgb|q=|aperio|openslide|level|tile|image|x86|utf|iso|v\d).*")


def inspect_slide(view: SlideView) -> Inspection | None:
    """Inspect a file for the inventory.

    Parameters
    ----------
    view : SlideView
        The candidate with its companion files.

    Returns
    -------
    Inspection or None
        Kind ``slide`` with the identifiers found, or ``unreadable`` with the rule that applies;
        None if it is not a slide.
    """
    data = view.data
    named = view.files[0].name.lower().endswith(".mrxs")
    # The preamble of a DICOM file may hold a TIFF header (PS3.10 section 7.1): it is still a DICOM object.
    if bytes(data[128:132]) == b"DICM":
        return None
    try:
        vendor = vendor_of(view)
    except Quarantined as refused:
        return Inspection("unreadable", refused.rule)
    if not vendor:
        return Inspection("unreadable", "slide-file-missing") if named else None
    # Fail closed: a format of one file would ignore the others without a report.
    if len(view.files) > 1 and vendor not in _OF_SEVERAL:
        return Inspection("unreadable", "slide-not-supported")
    return Inspection("slide", known=frozenset(_known(view)))


def slide_key(view: SlideView) -> str:
    """Return a digest that identifies a slide: size, both ends and sampled windows of every file.

    Slides of many gigabytes are not read in full. Two slides with equal digests are treated as one.

    Returns
    -------
    str
        SHA-256 in hexadecimal.
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
    """Yield identifiers: file names, and the values of keys for persons and numbers."""
    for file in view.files:
        if file is view.files[0] or file.name.lower().endswith(".svs"):
            stem = file.name.rpartition("/")[2].rpartition(".")[0]
            # The audit searches all released bytes for these values: short ones would match by chance.
            if len(stem) > 5 and any(map(str.isdigit, stem)):
                yield KnownValue("id", stem)
    for text in _texts(view):
        for found in _KEYED.findall(text):
            value = found.strip()
            if len(value) > 5 and not _TECHNICAL_TEXT.match(value):
                yield KnownValue("id" if any(map(str.isdigit, value)) else "name", value)


def _texts(view: SlideView) -> Iterator[str]:
    try:
        for file in view.files:
            if looks_like_tiff(file.data):
                yield from _tiff_texts((view if file is view.files[0] else SlideView((file,))).tiff)
        if looks_like_czi(view.data):
            yield _decoded(read_czi(view.data).xml)
    except Quarantined:
        # The sanitizer parses the same bytes later and reports the rule; nothing is released unread.
        return
    for file in view.files:
        if file.name.lower().endswith((".ini", ".vms", ".vmu", ".afi")):
            yield _decoded(bytes(file.data[:_MOST_TEXT]))


def _tiff_texts(tiff: PyramidTiff) -> Iterator[str]:
    # Limits the time for files of very many pages; what is missed here is still not copied.
    for directory in tiff.directories[:64]:
        for field in directory.fields.values():
            if field.type in _TEXTS and field.size > 5:
                yield _decoded(bytes(tiff.data[field.start : field.start + min(field.size, _MOST_TEXT)]))


def _decoded(raw: bytes) -> str:
    raw = raw[:_MOST_TEXT]
    # Every second byte of Latin text in UTF-16 is zero; in UTF-8 none is.
    if raw.count(b"\0") * 3 > len(raw):
        return raw.decode("utf-16-le", "replace")
    return raw.decode("utf-8", "replace")
