"""Elements whose treatment depends on other elements: codes, counts, content items, overlay planes."""

from __future__ import annotations

from struct import pack, unpack

from medsanitize.sanitize.dicom.coded_entries import CODE_MEANING, SCHEME
from medsanitize.sanitize.dicom.object_state import Piece
from medsanitize.sanitize.dicom.overlays import is_plane, overlay_action
from medsanitize.sanitize.dicom.rules import Scope
from medsanitize.sanitize.dicom.sample_data import COUNTS, DATA, trim_to_counts, unsigned_numbers
from medsanitize.sanitize.dicom.sr_content import exclusion_rule, read_concept
from medsanitize.sanitize.dicom.walk_state import WalkState
from medsanitize.sanitize.formats.dicom.elements import read_element_header
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout
from medsanitize.sanitize.formats.file_type import Buffer

REMOVED_OVERLAY: Piece = (b"", ("X:overlay",), ())
HELD: Piece = (b"", (), ())


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
