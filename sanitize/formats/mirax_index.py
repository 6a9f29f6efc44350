"""Index.dat of a MIRAX slide: linked pages of entries, in a hierarchy of levels and one of other records."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from medsanitize.sanitize.quarantine import Quarantined

# Bounds memory for crafted files.
_MOST_ENTRIES = 1 << 22


@dataclass(frozen=True, slots=True)
class DataRange:
    """A byte range: image number, offset, length, and number of the data file."""

    image: int
    offset: int
    length: int
    file: int


@dataclass(frozen=True, slots=True)
class MiraxIndex:
    """Entries of each level, and the first entry of every other record (None if it is empty)."""

    levels: tuple[tuple[DataRange, ...], ...]
    layers: tuple[DataRange | None, ...]

    @property
    def layers_in_use(self) -> list[bool]:
        """For each other record, whether it has an entry."""
        return [layer is not None for layer in self.layers]


def read_index(data: bytes, head: bytes, levels: int, layers: int) -> MiraxIndex:
    """Read the index, following every link.

    Parameters
    ----------
    data : bytes
        Contents of Index.dat.
    head : bytes
        Version and slide identifier, with which the file must start.
    levels, layers : int
        Number of levels and of other records that Slidedat.ini announces.

    Raises
    ------
    Quarantined
        ``mirax-index`` if a link points outside the file or forms a cycle, or a number is impossible.
    """
    if not data.startswith(head):
        raise _refused()
    level_root, layer_root = _ints(data, len(head), 2)
    return MiraxIndex(
        tuple(tuple(_entries(data, _int(data, level_root + 4 * number))) for number in range(levels)),
        tuple(_first(data, _int(data, layer_root + 4 * number)) for number in range(layers)),
    )


def write_index(
    head: bytes,
    levels: Sequence[Sequence[tuple[int, int, int, int]]],
    layers: Sequence[tuple[int, int, int]],
) -> bytes:
    """Build an index.

    Parameters
    ----------
    head : bytes
        Version and slide identifier.
    levels : sequence of sequence of (int, int, int, int)
        For each level, (image, offset, length, file) of its entries.
    layers : sequence of (int, int, int)
        (offset, length, file) of every other record.
    """
    # The two roots are filled in last, because they follow the records.
    out = bytearray(head + bytes(8))

    def record(body: bytes) -> int:
        page = len(out)
        out.extend(body)
        start = len(out)
        out.extend(struct.pack("<2i", 0, page))
        return start

    level_starts = [
        record(struct.pack("<2i", len(level), 0) + b"".join(struct.pack("<4i", *one) for one in level))
        for level in levels
    ]
    level_root = len(out)
    out.extend(struct.pack(f"<{len(level_starts)}i", *level_starts))
    layer_starts = [record(struct.pack("<7i", 1, 0, 0, 0, *layer)) for layer in layers]
    layer_root = len(out)
    out.extend(struct.pack(f"<{len(layer_starts)}i", *layer_starts))
    struct.pack_into("<2i", out, len(head), level_root, layer_root)
    return bytes(out)


def _entries(data: bytes, start: int) -> list[DataRange]:
    zero, page = _ints(data, start, 2)
    found: list[DataRange] = []
    seen: set[int] = set()
    while page:
        count, following = _ints(data, page, 2)
        # A record starts with a zero; pages that link in a circle would never end.
        if zero or page in seen or not 0 <= count <= _MOST_ENTRIES - len(found):
            raise _refused()
        seen.add(page)
        values = _ints(data, page + 8, 4 * count)
        found += [DataRange(*values[at : at + 4]) for at in range(0, 4 * count, 4)]
        page = following
    return found


def _first(data: bytes, start: int) -> DataRange | None:
    if start == 0:
        return None
    zero, page = _ints(data, start, 2)
    if zero:
        raise _refused()
    if page == 0:
        return None
    count, _, one, two, offset, length, file = _ints(data, page, 7)
    if count < 1 or one or two:
        raise _refused()
    # Only the first entry is read, and write_index writes one: further entries are dropped.
    return DataRange(0, offset, length, file) if length else None


def _int(data: bytes, at: int) -> int:
    return _ints(data, at, 1)[0]


def _ints(data: bytes, at: int, count: int) -> tuple[int, ...]:
    if at < 0 or at + 4 * count > len(data):
        raise _refused()
    return struct.unpack_from(f"<{count}i", data, at)


def _refused() -> Quarantined:
    return Quarantined("mirax-index", "structure")
