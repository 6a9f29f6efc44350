"""Putting a released object together: the last elements, the container, the pieces."""

from __future__ import annotations

from medsanitize.sanitize.formats.dicom.elements import read_element_header
from medsanitize.sanitize.formats.dicom.file import DicomFile, deflate
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout
from medsanitize.sanitize.pieces import Copy, Piece


def put_element(out: list[bytes], layout: Layout, tag: int, chunk: bytes | None) -> None:
    """Replace, add (in order) or remove one top-level element of a rewritten data set."""
    place, there = _find(out, layout, tag)
    out[place : place + there] = [chunk] if chunk is not None else []


def first_text(out: list[bytes], layout: Layout, tag: int) -> str:
    """The first value that the rewritten data set states for ``tag``, whatever rule made it."""
    place, there = _find(out, layout, tag)
    if not there:
        return ""
    start = read_element_header(out[place], 0, len(out[place]), layout)[3]
    return out[place][start:].decode("latin-1").split("\\")[0].strip(" \0")


def raw_value(out: list[bytes], layout: Layout, tag: int) -> bytes:
    """The raw value that the rewritten data set has for ``tag``; empty when it has none."""
    place, there = _find(out, layout, tag)
    if not there:
        return b""
    return out[place][read_element_header(out[place], 0, len(out[place]), layout)[3] :]


def _tag_of(chunk: bytes, layout: Layout) -> int:
    group, number, _ = layout.tag.unpack_from(chunk)
    return int(group) << 16 | int(number)


def _find(out: list[bytes], layout: Layout, tag: int) -> tuple[int, bool]:
    """Where ``tag`` is or belongs in a rewritten data set, and whether it is there."""
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
    """The released bytes: neighbouring byte strings joined, spans between them."""
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
