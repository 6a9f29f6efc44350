"""Elements, items and sequences in bytes, and skipping of those that are not kept (PS3.5 section 7)."""

from __future__ import annotations

from medsanitize.sanitize.formats.dicom.transfer_syntax import (
    IMPLICIT_LITTLE,
    LONG_VRS,
    MISSING_VRS,
    SHORT_VRS,
    UNDEFINED,
    Layout,
)
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.quarantine import Quarantined

ITEM, ITEM_END, SEQUENCE_END = 0xFFFEE000, 0xFFFEE00D, 0xFFFEE0DD


def read_element_header(buf: Buffer, pos: int, end: int, layout: Layout) -> tuple[int, bytes, int, int]:
    """Return tag, VR (empty in implicit VR), length and start of the value of the element at ``pos``.

    Raises
    ------
    Quarantined
        ``truncated`` or ``malformed-vr``.
    """
    if end - pos < 8:
        raise Quarantined("truncated")
    if not layout.explicit:
        group, number, length = layout.tag.unpack_from(buf, pos)
        return group << 16 | number, b"", length, pos + 8
    group, number, vr, length = layout.short.unpack_from(buf, pos)
    tag = group << 16 | number
    # Items and delimiters have no VR, also in explicit syntaxes (PS3.5 7.5).
    if group == 0xFFFE:
        return tag, b"", layout.length.unpack_from(buf, pos + 4)[0], pos + 8
    if vr in LONG_VRS:
        if end - pos < 12:
            raise Quarantined("truncated")
        return tag, vr, layout.length.unpack_from(buf, pos + 8)[0], pos + 12
    if vr in MISSING_VRS:
        return tag, b"UN", length, pos + 8
    if vr not in SHORT_VRS:
        raise Quarantined("malformed-vr")
    return tag, vr, length, pos + 8


def item_layout(
    vr: bytes, source: Layout, buf: Buffer, start: int, length: int, end: int, depth: int
) -> Layout:
    """Return the layout inside the items of a sequence that has VR ``vr``.

    Parameters
    ----------
    vr : bytes
    source : Layout
        Layout of the data set.
    buf : Buffer
    start, length, end : int
        Start and length of its value, and where the data set ends.
    depth : int
        How many sequences may be nested.

    Notes
    -----
    A sequence written as UN has implicit VR little endian items (PS3.5 6.2.2 note 2). Some writers give them
    the VR of the data set: this is believed only where it reads every byte, and the rule reads them not.
    """
    if vr != b"UN":
        return source
    if source.explicit and not source.big:
        stop = end if length == UNDEFINED else start + length
        as_stated, as_written = (
            _is_sequence(buf, start, stop, one, depth, delimited=length == UNDEFINED)
            for one in (IMPLICIT_LITTLE, source)
        )
        if as_written and as_stated:
            # Each reading would show other values.
            raise Quarantined("malformed-vr")
        if as_written:
            return source
    return IMPLICIT_LITTLE


def _is_sequence(buf: Buffer, pos: int, end: int, items: Layout, depth: int, *, delimited: bool) -> bool:
    """Report whether the bytes are items of elements of one layout, at every depth, and at least one element.

    A sequence without elements reads alike in every layout: it counts as one of none.
    """
    try:
        return _read_items(buf, pos, end, items, depth, delimited=delimited)[1] > 0
    except Quarantined:
        return False


def _read_items(
    buf: Buffer, pos: int, end: int, items: Layout, depth: int, *, delimited: bool
) -> tuple[int, int]:
    """Return where a sequence ends, and how many elements it has; raise if a byte belongs to none."""
    if depth < 0:
        raise Quarantined("too-deep", "sequences")
    elements = 0
    while pos < end:
        tag, _, length, start = read_element_header(buf, pos, end, IMPLICIT_LITTLE)
        if tag == SEQUENCE_END and delimited:
            return start, elements
        stop = end if length == UNDEFINED else start + length
        if tag != ITEM or stop > end:
            raise Quarantined("malformed-sequence")
        pos, found = _read_elements(buf, start, stop, items, depth, delimited=length == UNDEFINED)
        elements += found
    if delimited:
        raise Quarantined("truncated")
    return pos, elements


def _read_elements(
    buf: Buffer, pos: int, end: int, items: Layout, depth: int, *, delimited: bool
) -> tuple[int, int]:
    elements = 0
    while pos < end:
        tag, vr, length, start = read_element_header(buf, pos, end, items)
        if tag == ITEM_END and delimited:
            return start, elements
        # A VR that is written nowhere proves nothing.
        if tag >> 16 == 0xFFFE or (items.explicit and buf[pos + 4 : pos + 6] in MISSING_VRS):
            raise Quarantined("malformed-vr")
        elements += 1
        if length == UNDEFINED:
            inner = item_layout(vr, items, buf, start, length, end, depth - 1)
            pos, _ = _read_items(buf, start, end, inner, depth - 1, delimited=True)
        else:
            pos = start + length
            if pos > end:
                raise Quarantined("length-past-end")
    if delimited:
        raise Quarantined("truncated")
    return pos, elements


def item_headers(source: Layout) -> Layout:
    """Return the layout of item headers in a data set of layout ``source``."""
    # Item headers carry no VR in any transfer syntax; IMPLICIT_LITTLE reads those of little endian.
    return source if source.big else IMPLICIT_LITTLE


def skip_stray_item(buf: Buffer, pos: int, end: int, source: Layout) -> int:
    """Return where an item or delimiter ends that stands at ``pos`` outside of a sequence.

    Of an item whose length says nothing, only the header is skipped: its elements are those that follow.
    """
    tag, _, length, start = read_element_header(buf, pos, end, item_headers(source))
    if tag == ITEM and length != UNDEFINED:
        return _skip_value(buf, start, end, b"", length, source, 0)
    return start


def skip_undefined(buf: Buffer, start: int, end: int, vr: bytes, source: Layout, depth: int) -> int:
    """Return where the value of undefined length ends that starts at ``start``: a sequence, even if UN.

    Raises
    ------
    Quarantined
        As `skip_sequence`.
    """
    items = item_layout(vr, source, buf, start, UNDEFINED, end, depth)
    return skip_sequence(buf, start, end, items, depth)


def skip_sequence(buf: Buffer, pos: int, end: int, source: Layout, depth: int) -> int:
    """Return where the undefined-length sequence ends whose first item starts at ``pos``.

    Raises
    ------
    Quarantined
        ``too-deep`` if more than ``depth`` sequences are nested, ``malformed-sequence``, ``truncated`` or
        another rule of ``read_element_header``.
    """
    if depth < 0:
        raise Quarantined("too-deep", "sequences")
    while pos < end:
        tag, _, length, pos = read_element_header(buf, pos, end, item_headers(source))
        if tag == SEQUENCE_END:
            return pos
        if tag != ITEM:
            raise Quarantined("malformed-sequence")
        # Items of defined length are skipped without parsing: nothing in them is released.
        pos = _skip_item(buf, pos, end, source, depth) if length == UNDEFINED else pos + length
    raise Quarantined("truncated")


def _skip_item(buf: Buffer, pos: int, end: int, source: Layout, depth: int) -> int:
    while pos < end:
        tag, vr, length, pos = read_element_header(buf, pos, end, source)
        if tag == ITEM_END:
            return pos
        pos = _skip_value(buf, pos, end, vr, length, source, depth)
    raise Quarantined("truncated")


def _skip_value(buf: Buffer, pos: int, end: int, vr: bytes, length: int, source: Layout, depth: int) -> int:
    if length == UNDEFINED:
        return skip_undefined(buf, pos, end, vr, source, depth - 1)
    if pos + length > end:
        raise Quarantined("length-past-end")
    return pos + length


def skip_elements(buf: Buffer, pos: int, end: int, source: Layout, depth: int) -> None:
    """Require that the bytes up to ``end`` are elements; their values are not kept."""
    while pos < end:
        _, vr, length, pos = read_element_header(buf, pos, end, source)
        pos = _skip_value(buf, pos, end, vr, length, source, depth)
