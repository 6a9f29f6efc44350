"""Wiping a TIFF slide in place: tiles stay where they are, everything else is written anew or zeroed.

Comments inside tiles stay as well, since no tile is read: what is wiped is no release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.dicom.refusal import Refused
from medsanitize.sanitize.wsi import plan_edits
from medsanitize.sanitize.wsi.plan import Copy, Piece
from medsanitize.sanitize.wsi.rewrite import Page, directories_behind
from medsanitize.sanitize.wsi.view import SlideName, SlideView


@dataclass(frozen=True, slots=True)
class Wipe:
    """What to do, in this order: write ``behind`` at ``end``, write ``head`` at 0, zero the ``gaps``.

    Killed in between, the file can still be read, and wiping it again finishes.
    """

    end: int
    behind: bytes
    head: bytes
    gaps: tuple[tuple[int, int], ...]


def plan_wipe(view: SlideView, rules: WholeSlides) -> Wipe:
    """What makes a TIFF slide forget all but its tissue.

    Parameters
    ----------
    view : SlideView
        The slide, with ``untouched`` set.

    Raises
    ------
    Refused
        ``slide-not-supported``: it is no TIFF; or what the vendor's module names.
    """
    plan = plan_edits(view, rules, SlideName("slide", b""))
    file = plan.files[0]
    if not file.pages or not view.untouched:
        raise Refused("slide-not-supported", "structure")
    placed: dict[tuple[Piece, ...], int] = {}
    new = bytearray()
    end = len(view.data) + len(view.data) % 2
    for segment in _segments(file.pages):
        first = segment[0] if segment else None
        if isinstance(first, Copy):
            placed[segment] = first.offset
        elif isinstance(first, bytes):
            placed[segment] = end + len(new)
            new += first + b"\0" * (len(first) % 2)
    written, head = directories_behind(view.tiff.dialect, file.pages, placed, end + len(new))
    kept = [(at, at + _length(segment)) for segment, at in placed.items() if at < len(view.data)]
    return Wipe(end, bytes(new) + written, head, tuple(_gaps(sorted(kept), len(head), len(view.data))))


def _segments(pages: Sequence[Page]) -> Iterator[tuple[Piece, ...]]:
    for page in pages:
        yield from page.segments
        yield from _segments(page.subs)


def _length(segment: tuple[Piece, ...]) -> int:
    return sum(piece.length for piece in segment if isinstance(piece, Copy))


def _gaps(kept: Sequence[tuple[int, int]], start: int, size: int) -> Iterator[tuple[int, int]]:
    """What lies between the runs that are kept, from ``start`` to the end of the file."""
    reached = start
    for begin, end in (*kept, (size, size)):
        if begin > reached:
            yield reached, begin
        reached = max(reached, end)
