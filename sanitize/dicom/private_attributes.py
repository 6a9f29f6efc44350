"""Private attributes: removed, except for those that are known to be safe (PS3.15 E.3.10)."""

from __future__ import annotations

from dataclasses import dataclass, field

from medsanitize.policies.tables.safe_private import SafePrivate
from medsanitize.sanitize.dicom.actions import apply_rule
from medsanitize.sanitize.dicom.object_state import Piece
from medsanitize.sanitize.dicom.rules import Rule, Scope
from medsanitize.sanitize.dicom.walk_state import WalkState
from medsanitize.sanitize.formats.dicom.transfer_syntax import NUMBER_SIZES, encode_element

PRIVATE: Piece = (b"", ("X:private",), ())
SAFE_PRIVATE = Rule("C", "safe-private", "3")


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
    walk.job.times = ()
    out_vr, new, why, links = apply_rule(walk.job, scope, SAFE_PRIVATE, tag, read_as, value)
    if new is None:
        return b"", (why,), links
    privates.write_creator(tag, out)
    return encode_element(walk.target, tag, out_vr, new), (why,), links


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
