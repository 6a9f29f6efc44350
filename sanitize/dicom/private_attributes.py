"""Private attributes: removed, except for those that are known to be safe (PS3.15 E.3.10)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from medsanitize.policies.tables.safe_private import SafePrivate
from medsanitize.sanitize.dicom.actions import apply_rule
from medsanitize.sanitize.dicom.object_state import Piece
from medsanitize.sanitize.dicom.rules import Rule, Scope
from medsanitize.sanitize.dicom.walk_state import WalkState
from medsanitize.sanitize.formats.dicom.transfer_syntax import NUMBER_SIZES, encode_element

PRIVATE: Piece = (b"", ("X:private",), ())
_LONG_NUMBER: Piece = (b"", ("X:long-number",), ())
SAFE_PRIVATE = Rule("C", "safe-private", "3")
_DIGITS = re.compile(rb"\d*")
_MOST_DIGITS = 5
"""Digits before the point of a number that is kept. The listed attributes are doses, times, lengths, angles,
speeds, factors and counts: a longer number is none of these, but may be that of a patient or of an order."""
_B_VALUE = (0x0043, "GEMS_PARM_01", 0x39)
_B_VALUE_BASES = (1_000_000_000, 1 << 28)
"""GE adds one of these to the b-value, which says how the series was prescribed."""
_LARGEST_B_VALUE = 20_000


@dataclass(slots=True)
class PrivateBlocks:
    """Private blocks (PS3.5 7.8.1) of one data set.

    ``creators`` maps a block to its Private Creator and the encoded element; ``written`` are the blocks of
    which an attribute is kept.
    """

    creators: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)

    def write_creator(self, tag: int, out: list[bytes]) -> None:
        """Append the Private Creator of a kept attribute, if it is the first one of its block."""
        block = _block(tag)
        if block not in self.written:
            self.written.add(block)
            out.append(self.creators[block][1])


def is_safe_sequence(walk: WalkState, privates: PrivateBlocks, tag: int, vr: bytes) -> bool:
    """Whether a private element is a sequence that the list of safe attributes of its creator names."""
    safe = _listed(walk, privates, tag)
    return safe is not None and safe.care == "items" and vr in (b"", b"UN", b"SQ")


def private_element(
    walk: WalkState,
    scope: Scope,
    privates: PrivateBlocks,
    tag: int,
    vr: bytes,
    start: int,
    stop: int,
    out: list[bytes],
) -> Piece:
    """Rewrite a private element: remove it, unless the list of safe attributes of its creator names it.

    Parameters
    ----------
    walk : WalkState
    scope : Scope
    privates : PrivateBlocks
        Changed in place.
    tag : int
    vr : bytes
        As written; empty in implicit VR.
    start, stop : int
        Where the value is in the buffer of ``walk``.
    out : list of bytes
        Receives the Private Creator when the first attribute of its block is kept.

    Returns
    -------
    Piece
    """
    group, number = tag >> 16, tag & 0xFFFF
    if 0x10 <= number <= 0xFF:
        name = bytes(walk.buf[start:stop]).decode("latin-1").strip(" \0")
        chunk = encode_element(walk.target, tag, b"LO", bytes(walk.buf[start:stop]))
        # Written only once an attribute of the block is kept: a creator itself may identify a site.
        privates.creators.setdefault(group << 8 | number, (name, chunk))
        return b"", (), ()
    safe = _listed(walk, privates, tag)
    # Implicit VR and UN do not state the VR; any other one contradicts the list.
    if safe is None or vr not in (b"", b"UN", safe.vr.encode()):
        return PRIVATE
    value = bytes(walk.buf[start:stop])
    read_as = safe.vr.encode()
    if read_as == b"SQ" or not _has_form(read_as, vr, safe.vm, value):
        return PRIVATE
    if safe.source != "policy" and read_as in (b"DS", b"IS"):
        place = (group, privates.creators[_block(tag)][0], number & 0xFF)
        if any(_is_long(text, b_value=place == _B_VALUE) for text in value.split(b"\\")):
            return _LONG_NUMBER
    walk.job.times = ()
    out_vr, new, why, links = apply_rule(walk.job, scope, SAFE_PRIVATE, tag, read_as, value)
    if new is None:
        return b"", (why,), links
    privates.write_creator(tag, out)
    return encode_element(walk.target, tag, out_vr, new), (why,), links


def _is_long(text: bytes, *, b_value: bool) -> bool:
    """Whether a decimal or integer string is longer than any quantity of the listed attributes."""
    digits = text.strip(b" \0").lstrip(b"+-")
    before = _DIGITS.match(digits)
    if b_value and digits.isdigit() and len(digits) <= _MOST_DIGITS * 2:
        bases = (0, *_B_VALUE_BASES)
        return not any(0 <= int(digits) - base <= _LARGEST_B_VALUE for base in bases)
    try:
        large = abs(float(digits)) >= 10**_MOST_DIGITS
    except ValueError:
        large = False  # no number, which the rule of its VR removes
    return large or (before is not None and len(before[0]) > _MOST_DIGITS)


def _block(tag: int) -> int:
    return tag >> 16 << 8 | (tag & 0xFFFF) >> 8


def _listed(walk: WalkState, privates: PrivateBlocks, tag: int) -> SafePrivate | None:
    creator = privates.creators.get(_block(tag))
    return walk.safe_private.get((tag >> 16, creator[0], tag & 0xFF)) if creator else None


def _has_form(read_as: bytes, written: bytes, multiplicity: str, value: bytes) -> bool:
    """Whether the value may be the documented numbers, and is not text in their place."""
    size = NUMBER_SIZES.get(read_as)
    if size is None or not value:
        return True
    most = multiplicity.split("-")[-1]
    if most.isdigit() and len(value) > size * int(most):
        return False
    shown = value.rstrip(b"\0")
    return written == read_as or not (shown and shown.isascii() and shown.decode("ascii").isprintable())
