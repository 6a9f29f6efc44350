"""Assembly of a released object: elements added at the end, and the pieces of the file."""

from __future__ import annotations

from itertools import islice

from medsanitize.sanitize.formats.dicom.elements import read_element_header
from medsanitize.sanitize.formats.dicom.file import DicomFile, deflate
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout
from medsanitize.sanitize.pieces import Copy, Piece


def put_element(out: list[bytes], layout: Layout, tag: int, chunk: bytes | None) -> None:
    """Replace, add or remove one top-level element of a rewritten data set.

    Parameters
    ----------
    out : list of bytes
        The rewritten elements in ascending order of their tags; changed in place.
    layout : Layout
    tag : int
    chunk : bytes or None
        The encoded element; None removes it.
    """
    place, there = _find(out, layout, tag)
    out[place : place + there] = [chunk] if chunk is not None else []


def first_text(out: list[bytes], layout: Layout, tag: int) -> str:
    """Return the first value of ``tag`` in a rewritten data set as text; empty when it is absent."""
    place, there = _find(out, layout, tag)
    if not there:
        return ""
    start = read_element_header(out[place], 0, len(out[place]), layout)[3]
    return out[place][start:].decode("latin-1").split("\\")[0].strip(" \0")


def values_between(out: list[bytes], layout: Layout, first: int, last: int) -> dict[int, bytes]:
    """Return the encoded values of a rewritten data set from tag ``first`` to ``last``, in one search."""
    found: dict[int, bytes] = {}
    for chunk in islice(out, _find(out, layout, first)[0], None):
        tag, _, _, start = read_element_header(chunk, 0, len(chunk), layout)
        if tag > last:
            break
        found[tag] = chunk[start:]
    return found


def raw_value(out: list[bytes], layout: Layout, tag: int) -> bytes:
    """Return the encoded value of ``tag`` in a rewritten data set; empty when it is absent."""
    place, there = _find(out, layout, tag)
    if not there:
        return b""
    return out[place][read_element_header(out[place], 0, len(out[place]), layout)[3] :]


def elements_of(out: list[bytes], layout: Layout, tags: frozenset[int]) -> dict[int, tuple[bytes, int]]:
    """Return the encoded elements of some tags in a rewritten data set, and where their values start."""
    found: dict[int, tuple[bytes, int]] = {}
    last = max(tags)
    for chunk in out:
        tag = _tag_of(chunk, layout)
        if tag > last:
            break
        if tag in tags:
            found[tag] = chunk, read_element_header(chunk, 0, len(chunk), layout)[3]
    return found


def _tag_of(chunk: bytes, layout: Layout) -> int:
    group, number, _ = layout.tag.unpack_from(chunk)
    return int(group) << 16 | int(number)


def _find(out: list[bytes], layout: Layout, tag: int) -> tuple[int, bool]:
    """Index of ``tag`` in a rewritten data set, or where to insert it, and whether it is present."""
    low, high = 0, len(out)
    while low < high:
        middle = (low + high) // 2
        if _tag_of(out[middle], layout) < tag:
            low = middle + 1
        else:
            high = middle
    return low, low < len(out) and _tag_of(out[low], layout) == tag


def file_pieces(
    container: DicomFile, meta: bytes, out: list[bytes], pixels: list[Piece]
) -> tuple[Piece, ...]:
    """Return the released file: adjacent byte strings joined, byte ranges of the source between them.

    Parameters
    ----------
    container : DicomFile
        Gives the transfer syntax.
    meta : bytes
        Preamble and File Meta Information.
    out : list of bytes
        The rewritten elements up to the pixel data.
    pixels : list of Piece
        The pixel data element.
    """
    # A deflated data set is one compressed stream, so that nothing can be copied from the source.
    if container.syntax.deflated:
        body = b"".join([*out, *(piece for piece in pixels if isinstance(piece, bytes))])
        return (meta + deflate(body),)
    pieces: list[Piece] = []
    run = [meta, *out]
    for piece in pixels:
        if isinstance(piece, Copy):
            pieces += [b"".join(run), piece]
            run = []
        else:
            run.append(piece)
    if run:
        pieces.append(b"".join(run))
    return tuple(pieces)
