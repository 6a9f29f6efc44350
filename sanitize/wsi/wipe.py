"""In-place wiping of TIFF slides: tiles stay where they are, everything else is rewritten or zeroed.

Tiles are not read, so metadata inside them stays as well: a wiped slide is not a release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import TiffFile
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import TILE_COUNTS, TILE_OFFSETS
from medsanitize.sanitize.formats.tiff.writer import append_directories
from medsanitize.sanitize.formats.tiff_directory import Dialect
from medsanitize.sanitize.pieces import Copy, Piece
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.registry import plan_edits
from medsanitize.sanitize.wsi.source import SlideName, SlideView

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FORMS = {3: "u2", 4: "u4", 16: "u8"}


@dataclass(frozen=True, slots=True)
class Wipe:
    """Changes to a file, to be applied in this order: ``behind``, ``head``, ``gaps``.

    The file is readable after each step, so an interrupted wipe can be repeated.

    Attributes
    ----------
    end : int
        Offset at which ``behind`` is written.
    behind : bytes
        New data and directories, appended to the file.
    head : bytes
        New file header, written at offset 0.
    gaps : tuple of (int, int)
        Begin and end of the runs to be overwritten with zeros.
    """

    end: int
    behind: bytes
    head: bytes
    gaps: tuple[tuple[int, int], ...]


def plan_wipe(view: SlideView, rules: WholeSlides) -> Wipe:
    """Plan the in-place removal of everything but the tissue from a TIFF slide.

    Parameters
    ----------
    view : SlideView
        The slide, with ``untouched`` set.
    rules : WholeSlides
        The policy's section ``wsi``.

    Returns
    -------
    Wipe

    Raises
    ------
    Quarantined
        ``slide-not-supported`` if the slide is not a TIFF; ``tiff-overlapping-data`` if tiles overlap each
        other or the header; otherwise as documented in the module of the format.
    """
    # A wiped file keeps its name: no pseudonym and no key are needed.
    plan = plan_edits(view, rules, SlideName("slide", b""))
    file = plan.files[0]
    if not isinstance(file, TiffFile) or not file.pages or not view.untouched:
        raise Quarantined("slide-not-supported", "structure")
    placed: dict[tuple[Piece, ...], int] = {}
    new = bytearray()
    # TIFF 6.0 section 2: directories begin on a word boundary.
    end = len(view.data) + len(view.data) % 2
    for segment in _segments(file.pages):
        first = segment[0] if segment else None
        if isinstance(first, Copy):
            placed[segment] = first.offset
        elif isinstance(first, bytes):
            placed[segment] = end + len(new)
            new += first + b"\0" * (len(first) % 2)
    dialect = view.tiff.dialect
    written, head = append_directories(dialect, file.pages, placed, end + len(new))
    kept = [(at, _length(segment)) for segment, at in placed.items() if at < len(view.data)]
    gaps = _gaps(kept, list(_tiles(dialect, file.pages)), len(head), len(view.data))
    return Wipe(end, bytes(new) + written, head, gaps)


def _segments(pages: Sequence[OutputPage]) -> Iterator[tuple[Piece, ...]]:
    for page in pages:
        yield from page.segments
        yield from _segments(page.subs)


def _length(segment: tuple[Piece, ...]) -> int:
    return sum(piece.length for piece in segment if isinstance(piece, Copy))


def _tiles(dialect: Dialect, pages: Sequence[OutputPage]) -> Iterator[NDArray[np.int64]]:
    """Yield the offsets and lengths of each page's kept tiles, shape (n, 2)."""
    import numpy as np

    for page in pages:
        if page.pointers:
            columns = (
                np.frombuffer(page.pointers[tag].data, dialect.order + _FORMS[page.pointers[tag].type])
                for tag in (TILE_OFFSETS, TILE_COUNTS)
            )
            offsets, counts = (column.astype(np.int64) for column in columns)
            if len(offsets) != len(counts):
                raise Quarantined("tiff-structure", "structure")
            yield np.stack([offsets, counts], axis=1)[counts > 0]
        yield from _tiles(dialect, page.subs)


def _gaps(
    kept: Sequence[tuple[int, int]], tiles: list[NDArray[np.int64]], start: int, size: int
) -> tuple[tuple[int, int], ...]:
    """Return the runs between those that are kept, from ``start`` to ``size``, as (begin, end)."""
    import numpy as np

    # Unique, because several blank tiles may share one run.
    runs = np.unique(np.concatenate([np.array(kept, np.int64).reshape(-1, 2), *tiles]), axis=0)
    begins = np.concatenate([runs[:, 0], [size]])
    ends = np.concatenate([[start], runs[:, 0] + runs[:, 1]])
    # Runs that overlap each other or the header: zeroing between them would spare a tag or damage a tile.
    if bool((begins < ends).any()) or bool((runs < 0).any()):
        raise Quarantined("tiff-overlapping-data", "structure")
    apart = begins > ends
    return tuple(zip(ends[apart].tolist(), begins[apart].tolist(), strict=True))
