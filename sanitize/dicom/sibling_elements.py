"""Elements whose treatment depends on other elements: codes, dates, counts, content items, overlay planes."""

from __future__ import annotations

from struct import pack, unpack

from medsanitize.sanitize.dicom.actions import apply_rule
from medsanitize.sanitize.dicom.coded_entries import CODE_MEANING, CONTEXT_IDENTIFIER, SCHEME
from medsanitize.sanitize.dicom.object_state import Piece
from medsanitize.sanitize.dicom.overlays import is_plane, overlay_action
from medsanitize.sanitize.dicom.rules import Scope
from medsanitize.sanitize.dicom.sample_data import COUNTS, DATA, trim_to_counts, unsigned_numbers
from medsanitize.sanitize.dicom.sr_content import CONTENT_SEQUENCE, exclusion_rule, read_concept
from medsanitize.sanitize.dicom.walk_state import WalkState
from medsanitize.sanitize.formats.dicom.dictionary import times_of_dates
from medsanitize.sanitize.formats.dicom.elements import (
    ITEM,
    ITEM_END,
    item_headers,
    read_element_header,
    skip_undefined,
)
from medsanitize.sanitize.formats.dicom.transfer_syntax import UNDEFINED, Layout
from medsanitize.sanitize.formats.file_type import Buffer

REMOVED_OVERLAY: Piece = (b"", ("X:overlay",), ())
HELD: Piece = (b"", (), ())
_DATE_ITEM = 0x0040A121
_HEADER_BYTES = 8
_LAST_TAG = ITEM - 1  # items and delimiters follow all attributes


def code_context(buf: Buffer, pos: int, end: int, source: Layout) -> tuple[bytes, bytes]:
    """Read Coding Scheme Designator and Code Meaning, which follow their Code Value (PS3.3 8.8).

    Parameters
    ----------
    buf : bytes or mmap
    pos, end : int
        End of the Code Value, and of the item at the latest.
    source : Layout

    Returns
    -------
    tuple of bytes
        Encoded values; empty when absent.
    """
    found = {SCHEME: b"", CODE_MEANING: b""}
    while pos < end:
        tag, _, length, start = read_element_header(buf, pos, end, source)
        if tag > CODE_MEANING or start + length > end:
            break
        found[tag] = buf[start : start + length]
        pos = start + length
    return found[SCHEME], found[CODE_MEANING]


def context_group_goes(walk: WalkState, scope: Scope, pos: int, end: int, source: Layout) -> bool:
    """Whether the Context Identifier that follows in the item is removed, so that its group is unknown.

    Parameters
    ----------
    walk : WalkState
    scope : Scope
    pos, end : int
        End of an attribute of the group, and of the item at the latest.
    source : Layout
    """
    value, _ = _value_ahead(walk, CONTEXT_IDENTIFIER, CONTEXT_IDENTIFIER, pos, end, source)
    if value is None:
        return False
    rule = walk.book.rule(scope, CONTEXT_IDENTIFIER)
    return apply_rule(walk.job, scope, rule, CONTEXT_IDENTIFIER, b"CS", value)[1] is None


def times_of_date(
    walk: WalkState, scope: Scope, tag: int, pos: int, end: int, source: Layout
) -> tuple[str, ...]:
    """Read the times of day that belong to the date ``tag``.

    They follow it in the data set. The time of a content item DATE is that of the item TIME which directly
    follows it, as Study Time follows Study Date.

    Parameters
    ----------
    walk : WalkState
    scope : Scope
    tag : int
        A date of `times_of_dates`.
    pos, end : int
        End of the date, and of the data set at the latest.
    source : Layout

    Returns
    -------
    tuple of str
        Values of the source; empty when absent.
    """
    wanted, in_report = times_of_dates()[tag], scope.path[-1:] == (CONTENT_SEQUENCE,)
    last = _LAST_TAG if in_report else wanted
    found, pos = _value_ahead(walk, wanted, last, pos, end, source)
    if found is None and tag == _DATE_ITEM and in_report:
        end = len(walk.buf)
        if end - pos >= _HEADER_BYTES:
            item, _, _, start = read_element_header(walk.buf, pos, end, item_headers(source))
            found = _value_ahead(walk, wanted, wanted, start, end, source)[0] if item == ITEM else None
    return tuple(found.decode("latin-1").split("\\")) if found else ()


def _value_ahead(
    walk: WalkState, wanted: int, last: int, pos: int, end: int, source: Layout
) -> tuple[bytes | None, int]:
    """Return the value of an attribute and its end; ``None`` and where the search stopped if it is absent.

    The search stops at the end of the data set or item, and before the first tag above ``last``.
    """
    while pos < end:
        tag, vr, length, start = read_element_header(walk.buf, pos, end, source)
        if tag > last:
            return None, start if tag == ITEM_END else pos
        if length == UNDEFINED:
            pos = skip_undefined(walk.buf, start, end, vr, source, walk.limits.depth)
            continue
        pos = start + length
        if tag == wanted:
            return bytes(walk.buf[start:pos]), pos
    return None, pos


def trim_to_sibling_counts(walk: WalkState, tag: int, value: bytes, source: Layout) -> bytes | None:
    """Note a count, or trim sample data to its counts; ``None`` where counts are required and missing."""
    if tag in COUNTS:
        walk.counts[tag] = unsigned_numbers(tag, value, big=source.big)
    if tag not in DATA or not value:
        return value
    covered = trim_to_counts(walk.counts, tag, value, big=source.big)
    return value if covered == value else covered


def collect_overlay(walk: WalkState, scope: Scope, tag: int, value: bytes) -> Piece:
    """Collect an element of an overlay plane that the policy keeps; `put_planes` writes complete planes."""
    group = tag >> 16
    cleaned = walk.job.policy.dicom.options.clean_graphics
    if (
        scope.path
        or walk.target.big
        or not is_plane(group)
        or overlay_action(walk.book, group, cleaned=cleaned) == "X"
    ):
        return REMOVED_OVERLAY
    walk.overlays.setdefault(group, {}).setdefault(tag & 0xFFFF, value)
    return HELD


def renumber_reference(walk: WalkState, value: bytes, *, big: bool) -> bytes | None:
    """Renumber a reference to another content item for removed items (PS3.3 C.17.3.2.5).

    Returns ``None`` when the referenced item is removed.
    """
    order, tree = ">" if big else "<", walk.tree
    tree.refers = True
    ordinals = tree.renumbered(unpack(f"{order}{len(value) // 4}I", value[: len(value) // 4 * 4]))
    if ordinals is None:
        tree.dangling.add(tree.here)
        return None
    return pack(f"{'>' if walk.target.big else '<'}{len(ordinals)}I", *ordinals)


def content_item_exclusion(walk: WalkState, item: list[bytes], start: int, end: int, source: Layout) -> str:
    """Return the rule that removes the current content item, and note the removal; empty when it is kept."""
    kept, tree = walk.job.policy.dicom.options.retain_patient_characteristics, walk.tree
    concept = read_concept(walk.buf, start, end, source, walk.limits.depth)
    rule = exclusion_rule(concept, item, walk.target, ages_kept=kept)
    if tree.here in tree.dangling:
        rule = "X:dangling-reference"
    if rule:
        tree.dropped.add(tree.here)
    return rule
