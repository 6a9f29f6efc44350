"""Rewriting of a data set, element by element, at every depth.

Every byte of the source belongs to an element to which a rule applied; otherwise the object is quarantined.
Sequences are written with defined length; the encoding does not change otherwise.
"""

from __future__ import annotations

from functools import cache

from medsanitize.sanitize.dicom.actions import apply_rule
from medsanitize.sanitize.dicom.coded_entries import CODE_MEANING, CODE_VALUE, CONTEXT_GROUP, code_value
from medsanitize.sanitize.dicom.object_state import Piece
from medsanitize.sanitize.dicom.private_attributes import (
    PRIVATE,
    SAFE_PRIVATE,
    PrivateBlocks,
    is_safe_sequence,
    private_element,
)
from medsanitize.sanitize.dicom.rules import Rule, Scope
from medsanitize.sanitize.dicom.sample_data import COUNTS, DATA, LOOKUP_TABLES, spells_text
from medsanitize.sanitize.dicom.sibling_elements import (
    HELD,
    code_context,
    collect_overlay,
    content_item_exclusion,
    context_group_goes,
    renumber_reference,
    times_of_date,
    trim_to_sibling_counts,
)
from medsanitize.sanitize.dicom.sr_content import CONTENT_SEQUENCE, REFERENCED_PLACE
from medsanitize.sanitize.dicom.walk_state import WalkState
from medsanitize.sanitize.formats.dicom.charset import charset_terms
from medsanitize.sanitize.formats.dicom.dictionary import dictionary, effective_vr, times_of_dates
from medsanitize.sanitize.formats.dicom.elements import (
    ITEM,
    ITEM_END,
    SEQUENCE_END,
    item_headers,
    item_layout,
    read_element_header,
    skip_sequence,
    skip_stray_item,
)
from medsanitize.sanitize.formats.dicom.transfer_syntax import (
    IMPLICIT_LITTLE,
    LONG_VRS,
    MISSING_VRS,
    NUMBER_SIZES,
    SHORT_VRS,
    STRING_VRS,
    UNDEFINED,
    Layout,
    encode_element,
)
from medsanitize.sanitize.quarantine import Quarantined, tag_path_text

_CHARSET, _LENGTH_TO_END = 0x00080005, 0x00080001
_NOT_CACHED = COUNTS | DATA | CONTEXT_GROUP | {CODE_VALUE, CODE_MEANING, CONTENT_SEQUENCE, REFERENCED_PLACE}
"""Elements whose result depends on other elements of the data set, so that it must not be cached."""
_SPACE_PADDED = STRING_VRS - {b"UI"}
"""Text VRs: some writers pad them with null bytes, which only UI allows (PS3.5 6.2)."""
_PIXELS = 0x7FE00001
_PAST_LAST_TAG = 1 << 33  # above every tag, which has 32 bits
# Bounds of the cache of one scope: bytes of an element, and number of elements.
_MAX_CACHED_BYTES = 2048
_MAX_CACHED_VALUES = 4096

_REMOVED_UNKNOWN: Piece = (b"", ("X:unknown-attribute",), ())
_GROUP_LENGTH: Piece = (b"", ("X:group-length",), ())
_REMOVED_LINK: Piece = (b"", ("X:dangling-reference",), ())
_WRONG_VR: Piece = (b"", ("X:wrong-vr",), ())
_REMOVED_CONTEXT: Piece = (b"", ("X:not-a-defined-term",), ())


def walk_dataset(
    walk: WalkState,
    scope: Scope,
    pos: int,
    end: int,
    source: Layout,
    out: list[bytes],
    *,
    delimited: bool = False,
    inserts: list[tuple[int, Piece]] | None = None,
) -> int:
    """Rewrite the elements of a data set or an item.

    Parameters
    ----------
    walk : WalkState
        Its rules, links and captured values are extended.
    scope : Scope
    pos, end : int
        Where the elements start and where they must end at the latest.
    source : Layout
        Layout of the elements.
    out : list of bytes
        Receives the rewritten elements.
    delimited : bool
        Whether the item ends with an Item Delimitation Item (PS3.5 7.5).
    inserts : list of (int, Piece), optional
        Elements that replace those of the source or are added, in descending order of their tags. Given for
        the top level only, which ends before the pixel data.

    Returns
    -------
    int
        Where the data set or item ended.

    Raises
    ------
    Quarantined
        The data set is malformed or exceeds a limit.
    """
    buf, rules, links, job = walk.buf, walk.rules, walk.links, walk.job
    unpack, long_unpack, explicit = source.short.unpack_from, source.length.unpack_from, source.explicit
    top = inserts is not None
    pending = inserts if inserts is not None else []
    due = pending[-1][0] if pending else _PAST_LAST_TAG
    outer_charset, outer_counts = job.charset, walk.counts
    job.code, walk.counts = None, {}
    memory = _memory(walk, scope, source)
    privates: PrivateBlocks | None = None
    not_cached = _not_cached(walk.shifts_times)
    # Inside UN elements the layout differs from that of the data set: private elements are removed unread.
    private = bool(walk.safe_private) and source is walk.target
    previous, ordered, capture = -1, True, walk.capture if top else frozenset()
    while pos < end:
        if explicit:
            if end - pos < 8:
                raise Quarantined("truncated", tag_path_text(scope.path))
            group, number, vr, length = unpack(buf, pos)
            start = pos + 8
            if vr in LONG_VRS:
                if end - pos < 12:
                    raise Quarantined("truncated", tag_path_text(scope.path))
                # Two reserved bytes and a 32-bit length (PS3.5 7.1.2).
                length = long_unpack(buf, start)[0]
                start = pos + 12
            elif vr in MISSING_VRS:
                vr = b"UN"
            elif vr not in SHORT_VRS:
                # Item Delimitation Item, which has no VR in any layout (PS3.5 7.5).
                if group == 0xFFFE and number == 0xE00D and delimited:
                    pos += 8
                    break
                if group != 0xFFFE:
                    raise Quarantined("malformed-vr", tag_path_text(scope.path))
                pos = skip_stray_item(buf, pos, end, source)
                rules.append("X:stray-item")
                continue
            tag = group << 16 | number
        else:
            tag, vr, length, start = read_element_header(buf, pos, end, source)
            if tag == ITEM_END and delimited:
                pos = start
                break
            group, number = tag >> 16, tag & 0xFFFF
        if tag <= previous:
            ordered = False
        previous = tag
        if top:
            # `write_pixels` writes the pixel data and checks what follows it.
            if tag >= _PIXELS and group >= 0x7FE0:
                break
            # The first of two equal tags counts, as in `_put_in_order`.
            if tag in capture:
                walk.captured.setdefault(tag, (start, start + length))
            if tag >= due:
                due = _insert(walk, pending, tag, out)
                if tag in job.replaced:
                    pos = _skip(walk, scope, tag, vr, length, start, end, source)
                    continue
        safe = False
        if group & 1 and private:
            privates = privates or PrivateBlocks()
            safe = is_safe_sequence(walk, privates, tag, vr)
        if length == UNDEFINED:
            piece, pos = _undefined(walk, scope, tag, vr, start, end, source, safe=safe)
        else:
            stop = start + length
            if stop > end:
                raise Quarantined("length-past-end", tag_path_text(scope.path))
            if tag == _CHARSET:
                piece = _charset(walk, buf[start:stop])
                memory = _memory(walk, scope, source)  # texts now decode differently
            elif safe:
                piece = _sequence_piece(walk, scope, SAFE_PRIVATE, tag, vr, start, stop, source)
            elif group & 1:
                piece = (
                    private_element(walk, scope, privates, tag, vr, start, stop, out) if privates else PRIVATE
                )
            elif length <= _MAX_CACHED_BYTES:
                raw = buf[pos:stop]
                found = memory.get(raw)
                if found is None:
                    review_items = len(job.review_items)
                    piece = _settle(walk, scope, tag, vr, raw, start, stop, end, source)
                    # A cached result would raise its review item for the first object only.
                    if tag not in not_cached and piece is not HELD and len(job.review_items) == review_items:
                        if len(memory) > _MAX_CACHED_VALUES:
                            memory.clear()
                        memory[raw] = piece
                else:
                    piece = found
            else:
                piece = _settle(walk, scope, tag, vr, buf[pos:stop], start, stop, end, source)
            pos = stop
        if privates is not None and group & 1:
            if safe and piece[0]:
                privates.write_creator(tag, out)
            # The creator of a second block is written after the attributes of the first.
            ordered = ordered and not privates.written
        if piece[0]:
            out.append(piece[0])
        rules += piece[1]
        if piece[2]:
            links += piece[2]
    else:  # no break: the delimiter of the item is missing
        if delimited:
            raise Quarantined("truncated", tag_path_text(scope.path))
    # Private creators apply no rule, but take memory as well.
    if len(rules) + (len(privates.creators) if privates else 0) > walk.limits.elements:
        raise Quarantined("too-many-elements")
    _insert(walk, pending, _PAST_LAST_TAG, out)
    if not ordered:
        _put_in_order(walk, out)
    if not top:
        job.charset, walk.counts = outer_charset, outer_counts
    return pos


@cache
def _not_cached(shifts_times: bool) -> frozenset[int]:
    return _NOT_CACHED | times_of_dates().keys() if shifts_times else _NOT_CACHED


def _memory(walk: WalkState, scope: Scope, source: Layout) -> dict[bytes, Piece]:
    # Scopes live as long as the rules and layouts are constants, so that no id is reused.
    key = (id(scope), walk.job.charset, id(source), id(walk.target))
    memory = walk.job.subject.memory
    found = memory.get(key)
    if found is None:
        found = memory[key] = {}
    return found


def _insert(walk: WalkState, pending: list[tuple[int, Piece]], tag: int, out: list[bytes]) -> int:
    """Write the inserts with tags up to ``tag`` and return the tag of the next one."""
    while pending and pending[-1][0] <= tag:
        _, piece = pending.pop()
        if piece[0]:
            out.append(piece[0])
        walk.rules += piece[1]
        walk.links += piece[2]
    return pending[-1][0] if pending else _PAST_LAST_TAG


def _put_in_order(walk: WalkState, out: list[bytes]) -> None:
    """Sort elements by tag and remove duplicates, as PS3.5 7.1 requires; the first one is kept."""
    byte_order = "big" if walk.target.big else "little"

    def tag_of(chunk: bytes) -> tuple[int, int]:
        return int.from_bytes(chunk[:2], byte_order), int.from_bytes(chunk[2:4], byte_order)  # type: ignore[arg-type]

    first: dict[tuple[int, int], bytes] = {}
    for chunk in out:
        if first.setdefault(tag_of(chunk), chunk) is not chunk:
            walk.rules.append("X:duplicate-element")
    out[:] = [first[tag] for tag in sorted(first)]


def _skip(
    walk: WalkState, scope: Scope, tag: int, vr: bytes, length: int, start: int, end: int, source: Layout
) -> int:
    if length == UNDEFINED:
        return _undefined(walk, scope, tag, vr, start, end, source, safe=False)[1]
    if start + length > end:
        raise Quarantined("length-past-end", tag_path_text(scope.path))
    return start + length


def _charset(walk: WalkState, value: bytes) -> Piece:
    """Set the character set (PS3.3 C.12.1.1.2); an undefined one is removed, and text is then ASCII."""
    walk.job.charset = value.rstrip(b" \0")
    terms = charset_terms(walk.job.charset)
    if terms is None:
        return b"", ("X:unknown-character-set",), ()
    stated = "\\".join(terms).encode("ascii")
    return encode_element(walk.target, _CHARSET, b"CS", stated), ("K:unchanged",), ()


def _settle(
    walk: WalkState,
    scope: Scope,
    tag: int,
    vr: bytes,
    raw: bytes,
    start: int,
    stop: int,
    end: int,
    source: Layout,
) -> Piece:
    """Rewrite a public element of defined length."""
    group = tag >> 16
    # Group lengths (retired, PS3.5 7.2) and Length to End would be wrong after rewriting.
    if not tag & 0xFFFF or tag == _LENGTH_TO_END:
        return _GROUP_LENGTH
    if 0x6000 <= group <= 0x60FF or 0x5000 <= group <= 0x50FF:
        return collect_overlay(walk, scope, tag, raw[len(raw) - (stop - start) :])
    # Attributes that are not in the dictionary may contain anything; command elements are no part of an
    # object.
    known = dictionary().get(tag)
    if known is None or group < 8 or group == 0xFFFE:
        return _REMOVED_UNKNOWN
    rule = walk.book.rule(scope, tag)
    read_as = effective_vr(tag, vr)
    if read_as is None:
        return _wrong_vr(walk, rule, known[0], tag)
    if read_as == b"SQ":
        return _sequence_piece(walk, scope, rule, tag, vr, start, stop, source)
    value = raw[len(raw) - (stop - start) :]
    if value[-1:] == b"\0" and read_as in _SPACE_PADDED:
        value = value.rstrip(b"\0")
    if tag == REFERENCED_PLACE and scope.path:
        there = renumber_reference(walk, value, big=source.big)
        return (encode_element(walk.target, tag, b"UL", there), ("C:place",), ()) if there else _REMOVED_LINK
    # Bytes beyond the stated number of samples are shown by no viewer and could hide anything.
    covered = trim_to_sibling_counts(walk, tag, value, source)
    if covered is None:
        return b"", ("X:uncounted",), ()
    if tag in LOOKUP_TABLES and spells_text(covered, walk.job.subject.ban.words):
        return b"", ("X:text-in-numbers",), ()
    beyond, value = len(covered) < len(value), covered
    # UN elements contain little endian data (PS3.5 6.2.2) even in big endian objects; they are not swapped.
    if source is not walk.target and source.big != walk.target.big and read_as in NUMBER_SIZES:
        return b"", ("X:foreign-byte-order",), ()
    if tag == CODE_VALUE and rule.action != "X":
        out_vr, new, why, links = code_value(
            walk.job, tag, read_as, value, *code_context(walk.buf, stop, end, source)
        )
    elif tag in CONTEXT_GROUP and context_group_goes(walk, scope, stop, end, source):
        return _REMOVED_CONTEXT
    else:
        dated = walk.shifts_times and tag in times_of_dates()
        walk.job.times = times_of_date(walk, scope, tag, stop, end, source) if dated else ()
        out_vr, new, why, links = apply_rule(walk.job, scope, rule, tag, read_as, value)
    if new is None:
        return b"", (why,), links
    unchanged = new is value and out_vr == (vr or out_vr) and source is walk.target and not len(value) & 1
    unchanged = unchanged and len(value) == stop - start
    if beyond:
        unchanged, why = False, "C:beyond-its-count"
    if unchanged and vr in LONG_VRS and raw[6:8] != b"\0\0":
        unchanged = False  # reserved bytes of the header (PS3.5 7.1.2) must not carry data
    return (raw if unchanged else encode_element(walk.target, tag, out_vr, new)), (why,), links


def _wrong_vr(walk: WalkState, rule: Rule, vr: bytes, tag: int) -> Piece:
    """Remove an element whose VR cannot encode its attribute, or empty it where the IOD requires it."""
    if rule.type not in ("2", "2C") or rule.action == "X":
        return _WRONG_VR
    return encode_element(walk.target, tag, vr, b""), ("Z:wrong-vr",), ()


def _undefined(
    walk: WalkState, scope: Scope, tag: int, vr: bytes, start: int, end: int, source: Layout, *, safe: bool
) -> tuple[Piece, int]:
    """Rewrite an element of undefined length, which is a sequence even if its VR is UN (PS3.5 6.2.2)."""
    depth = walk.limits.depth - len(scope.path)
    items = item_layout(vr, source, walk.buf, start, UNDEFINED, end, depth)
    group = tag >> 16
    removed = PRIVATE if group & 1 else _REMOVED_UNKNOWN
    if not safe and (group & 1 or dictionary().get(tag, (b"",))[0] != b"SQ"):
        return removed, skip_sequence(walk.buf, start, end, items, depth)
    rule = SAFE_PRIVATE if safe else walk.book.rule(scope, tag)
    if rule.action in ("X", "Z"):
        stop = skip_sequence(walk.buf, start, end, items, depth)
        return _sequence_piece(walk, scope, rule, tag, vr, start, start, source), stop
    # The sequence gets rules and links of its own, which the caller adds to those of the data set.
    rules, links, charset, counts = walk.rules, walk.links, walk.job.charset, walk.counts
    walk.rules, walk.links = _mends(vr, items), []
    try:
        content, stop = _items(walk, scope.child(tag, _is_strict(rule)), start, end, items, delimited=True)
        if tag == CONTENT_SEQUENCE and not content:
            return (b"", (*walk.rules, "X:nothing-left"), tuple(walk.links)), stop
        return (encode_element(walk.target, tag, b"SQ", content), tuple(walk.rules), tuple(walk.links)), stop
    except Quarantined as refused:
        if not safe or refused.rule == "too-deep":
            raise
        walk.job.charset, walk.counts = charset, counts
        return PRIVATE, skip_sequence(walk.buf, start, end, items, depth)
    finally:
        walk.rules, walk.links = rules, links


def _mends(vr: bytes, items: Layout) -> list[str]:
    """The mend of a sequence that is written as UN, and yet in explicit VR."""
    return ["C:explicit-items-of-un"] if vr == b"UN" and items.explicit else []


def _is_strict(rule: Rule) -> bool:
    # D of the table keeps a sequence only because the IOD requires one; D of the policy is a choice.
    return rule.action == "D" and rule.source != "policy"


def _sequence_piece(
    walk: WalkState, scope: Scope, rule: Rule, tag: int, vr: bytes, start: int, stop: int, source: Layout
) -> Piece:
    """Rewrite a sequence of defined length; the result includes the rules and links of its items."""
    if rule.action == "X":
        return b"", (f"X:{rule.source}",), ()
    if rule.action == "Z":
        return encode_element(walk.target, tag, b"SQ", b""), (f"Z:{rule.source}",), ()
    rules, links, charset, counts = walk.rules, walk.links, walk.job.charset, walk.counts
    depth = walk.limits.depth - len(scope.path)
    items = item_layout(vr, source, walk.buf, start, stop - start, stop, depth)
    walk.rules, walk.links = _mends(vr, items), []
    try:
        content, _ = _items(walk, scope.child(tag, _is_strict(rule)), start, stop, items, delimited=False)
        # The attribute requires at least one item (PS3.3 C.17.3).
        if tag == CONTENT_SEQUENCE and not content:
            return b"", (*walk.rules, "X:nothing-left"), tuple(walk.links)
        return encode_element(walk.target, tag, b"SQ", content), tuple(walk.rules), tuple(walk.links)
    except Quarantined as refused:
        # The value of a UN or private element may be no sequence: such bytes are removed, not the object.
        if (items is not IMPLICIT_LITTLE or not walk.target.explicit) and rule is not SAFE_PRIVATE:
            raise
        if refused.rule == "too-deep":
            raise
        # The inner walk was interrupted before it could restore them.
        walk.job.charset, walk.counts = charset, counts
        return b"", ("X:unreadable-sequence",), ()
    finally:
        walk.rules, walk.links = rules, links


def _items(
    walk: WalkState, scope: Scope, pos: int, end: int, source: Layout, *, delimited: bool
) -> tuple[bytes, int]:
    """Rewrite the items of a sequence; return them and where the sequence ended."""
    if len(scope.path) > walk.limits.depth:
        raise Quarantined("too-deep", "sequences")
    pieces: list[bytes] = []
    in_tree, above, ordinal = scope.path[-1] == CONTENT_SEQUENCE, walk.tree.here, 0
    while pos < end:
        tag, _, length, start = read_element_header(walk.buf, pos, end, item_headers(source))
        if tag == SEQUENCE_END and delimited:
            return b"".join(pieces), start
        if tag != ITEM:
            raise Quarantined("malformed-sequence", tag_path_text(scope.path))
        out: list[bytes] = []
        if in_tree:
            # Positions are those of the source; references are renumbered once all removals are known.
            ordinal += 1
            walk.tree.here = (*above, ordinal)
        if length == UNDEFINED:
            pos = walk_dataset(walk, scope, start, end, source, out, delimited=True)
        else:
            if start + length > end:
                raise Quarantined("length-past-end", tag_path_text(scope.path))
            pos = walk_dataset(walk, scope, start, start + length, source, out)
        if in_tree:
            rule = content_item_exclusion(walk, out, start, pos, source)
            walk.tree.here = above
            if rule:
                walk.rules.append(rule)
                continue
        body = b"".join(out)
        pieces.append(walk.target.tag.pack(0xFFFE, 0xE000, len(body)) + body)
    if delimited:
        raise Quarantined("truncated", tag_path_text(scope.path))
    return b"".join(pieces), pos
