"""Writer of new TIFF files: image data in the order of the source, then values and directories."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from medsanitize.sanitize.formats.edit_plan import TiffFile
from medsanitize.sanitize.formats.tiff.page import FieldValue, OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import (
    STRIP_COUNTS,
    STRIP_OFFSETS,
    SUB_IFDS,
    TILE_COUNTS,
    TILE_OFFSETS,
)
from medsanitize.sanitize.formats.tiff_directory import LONG, LONG8, Dialect
from medsanitize.sanitize.pieces import Copy, Piece
from medsanitize.sanitize.quarantine import Quarantined

_CLASSIC_LIMIT = 1 << 32


def integer_values(dialect: Dialect, kind: int, values: Sequence[int]) -> FieldValue:
    """Return an integer value; ``kind`` is a field type such as SHORT (3), LONG (4) or LONG8 (16)."""
    form = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}[kind]
    return FieldValue(kind, len(values), struct.pack(f"{dialect.order}{len(values)}{form}", *values))


def ascii_value(value: str) -> FieldValue:
    """Return an ASCII value, terminated by NUL."""
    data = value.encode("ascii") + b"\0"
    return FieldValue(2, len(data), data)


def segment_length(segment: tuple[Piece, ...]) -> int:
    """Return the size of an encoded tile in bytes."""
    size = 0
    for piece in segment:
        size += piece.length if isinstance(piece, Copy) else len(piece)
    return size


def tiff_file(name: str, dialect: Dialect, pages: Sequence[OutputPage]) -> TiffFile:
    """Return a released TIFF; raises as ``write_tiff``."""
    return TiffFile(name, write_tiff(dialect, pages), tuple(pages))


def append_directories(
    dialect: Dialect, pages: Sequence[OutputPage], placed: dict[tuple[Piece, ...], int], start: int
) -> tuple[bytes, bytes]:
    """Build values and directories that are appended at ``start`` and point to existing tiles.

    Parameters
    ----------
    dialect : Dialect
        Dialect of the file.
    pages : sequence of OutputPage
        The pages.
    placed : dict
        Position of each tile in the file.
    start : int
        Position of the result.

    Returns
    -------
    tuple of (bytes, bytes)
        Values and directories, and the file's header.

    Raises
    ------
    Quarantined
        ``tiff-too-large``: offsets of classic TIFF end at 4 GiB.
    """
    tail: list[bytes] = []
    places: list[int] = []
    bodies: list[tuple[OutputPage, int]] = []
    end = start
    for page in pages:
        end = _values(dialect, page, placed, end, tail, places, bodies)
    _link(dialect, places, tail, bodies)
    if end >= _CLASSIC_LIMIT and dialect.kind == "classic":
        raise Quarantined("tiff-too-large", "structure")
    return b"".join(tail), _head(dialect, places[0])


def _head(dialect: Dialect, first: int) -> bytes:
    mark = b"II" if dialect.order == "<" else b"MM"
    if dialect.kind == "big":
        return mark + struct.pack(dialect.order + "HHHQ", 43, 8, 0, first)
    if dialect.kind == "ndpi":
        return mark + struct.pack("<HQ", 42, first)
    return mark + struct.pack(dialect.order + "HI", 42, first)


def write_tiff(dialect: Dialect, pages: Sequence[OutputPage]) -> tuple[Piece, ...]:
    """Build the pieces of the whole file.

    A tile that several entries share is written once.

    Raises
    ------
    Quarantined
        ``tiff-overlapping-data`` if two tiles overlap without being equal; ``tiff-too-large``: offsets of
        classic TIFF end at 4 GiB.
    """
    start = 16 if dialect.kind == "big" else 12 if dialect.kind == "ndpi" else 8
    placed, pieces, end = _place(_every(pages), start)
    tail: list[bytes] = []
    # Directories start at even offsets (TIFF 6.0 section 2).
    if end % 2:
        tail.append(b"\0")
        end += 1
    written, head = append_directories(dialect, pages, placed, end)
    return _merged([head, *pieces, *tail, written])


def _every(pages: Sequence[OutputPage]) -> list[tuple[Piece, ...]]:
    found: list[tuple[Piece, ...]] = []
    for page in pages:
        found += page.segments
        found += _every(page.subs)
    return found


def _place(
    segments: list[tuple[Piece, ...]], start: int
) -> tuple[dict[tuple[Piece, ...], int], list[Piece], int]:
    """Return the position of each distinct tile, in source order, the pieces, and where they end."""
    # Source order keeps reading sequential and merges neighboring tiles into one run.
    distinct = sorted(dict.fromkeys(segment for segment in segments if segment), key=_order)
    placed: dict[tuple[Piece, ...], int] = {}
    pieces: list[Piece] = []
    copied: dict[int, int] = {}
    at = start
    for segment in distinct:
        placed[segment] = at
        for piece in segment:
            if isinstance(piece, Copy):
                # Of overlapping tiles one could release what was removed from the page of the other.
                if piece.offset < copied.get(piece.file, 0):
                    raise Quarantined("tiff-overlapping-data", "structure")
                copied[piece.file] = piece.offset + piece.length
        pieces += segment
        at += segment_length(segment)
    return placed, pieces, at


def _order(segment: tuple[Piece, ...]) -> tuple[int, int, int, bytes]:
    for piece in segment:
        if isinstance(piece, Copy):
            return 0, piece.file, piece.offset, b""
    # New tiles follow the copied ones, ordered by content, so that the output is deterministic.
    return 1, 0, 0, b"".join(piece for piece in segment if isinstance(piece, bytes))


def _values(
    dialect: Dialect,
    page: OutputPage,
    placed: dict[tuple[Piece, ...], int],
    end: int,
    tail: list[bytes],
    places: list[int],
    bodies: list[tuple[OutputPage, int]],
    *,
    sub: bool = False,
) -> int:
    """Append a page's values and directory to ``tail``; return the new end.

    The link to the next directory stays open: ``bodies`` stores its index in ``tail``.
    """
    sub_places: list[int] = []
    for one in page.subs:
        end = _values(dialect, one, placed, end, tail, sub_places, bodies, sub=True)
    values = _all_values(dialect, page, placed, sub_places)
    entries: list[bytes] = []
    high: list[int] = []
    big = dialect.kind == "big"
    for tag, value in sorted(values.items()):
        inner, upper = value.data, value.high
        if len(inner) > dialect.inline:
            # NDPI stores the upper 32 bits of offsets after the directory.
            inner, upper = (
                struct.pack(dialect.order + ("Q" if big else "I"), end % _CLASSIC_LIMIT if not big else end),
                end >> 32,
            )
            padded = value.data + b"\0" * (len(value.data) % 2)
            tail.append(padded)
            end += len(padded)
        form = "HHQ" if big else "HHI"
        entries.append(
            struct.pack(dialect.order + form, tag, value.type, value.count)
            + inner.ljust(dialect.inline, b"\0")
        )
        high.append(upper if not big else 0)
    head = struct.pack(dialect.order + ("Q" if big else "H"), len(entries)) + b"".join(entries)
    places.append(end)
    tail += [head, b"\0" * (8 if big or dialect.kind == "ndpi" else 4)]
    if not sub:
        bodies.append((page, len(tail) - 1))
    end += len(head) + len(tail[-1])
    if dialect.kind == "ndpi":
        tail.append(struct.pack(f"<{len(high)}I", *high))
        end += 4 * len(high)
    if end % 2:
        tail.append(b"\0")
        end += 1
    return end


def _all_values(
    dialect: Dialect, page: OutputPage, placed: dict[tuple[Piece, ...], int], sub_places: list[int]
) -> dict[int, FieldValue]:
    """Return the values of a page, with those that point to its data and sub-directories."""
    values = dict(page.values)
    offsets = [placed[segment] if segment else 0 for segment in page.segments]
    counts = [segment_length(segment) for segment in page.segments]
    wide = LONG8 if dialect.kind == "big" else LONG
    where, sizes = (TILE_OFFSETS, TILE_COUNTS) if page.tiled else (STRIP_OFFSETS, STRIP_COUNTS)
    if page.pointers:
        values.update(page.pointers)
    else:
        values[where] = _pointers(dialect, wide, offsets)
        values[sizes] = _pointers(dialect, LONG if max(counts, default=0) < _CLASSIC_LIMIT else wide, counts)
    if sub_places:
        values[SUB_IFDS] = integer_values(dialect, 18 if dialect.kind == "big" else 13, sub_places)
    return values


def _pointers(dialect: Dialect, kind: int, values: Sequence[int]) -> FieldValue:
    # Only a single value can have upper bits in NDPI.
    if dialect.kind == "ndpi" and len(values) == 1:
        return FieldValue(LONG, 1, struct.pack("<I", values[0] % _CLASSIC_LIMIT), values[0] >> 32)
    if kind == LONG and max(values, default=0) >= _CLASSIC_LIMIT:
        raise Quarantined("tiff-too-large", "structure")
    return integer_values(dialect, kind, values)


def _link(
    dialect: Dialect, places: list[int], tail: list[bytes], bodies: list[tuple[OutputPage, int]]
) -> None:
    form = dialect.order + ("I" if dialect.kind == "classic" else "Q")
    # The last link stays zero, which ends the chain.
    for (_, index), following in zip(bodies, places[1:], strict=False):
        tail[index] = struct.pack(form, following)


def _merged(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Merge adjacent literals, and adjacent runs of the source, into one piece each."""
    merged: list[Piece] = []
    literal: list[bytes] = []
    file, begin, end = -1, 0, 0
    for piece in pieces:
        if isinstance(piece, bytes):
            literal.append(piece)
            continue
        if literal or file != piece.file or end != piece.offset:
            merged += _run(file, begin, end, literal)
            literal = []
            file, begin = piece.file, piece.offset
        end = piece.offset + piece.length
    return (*merged, *_run(file, begin, end, literal))


def _run(file: int, begin: int, end: int, literal: list[bytes]) -> Iterator[Piece]:
    """Yield a run of the source, if there was one, and the literal after it."""
    if file >= 0:
        yield Copy(begin, end - begin, file)
    if joined := b"".join(literal):
        yield joined
