"""RLE Lossless frames (PS3.5 Annex G): bytes behind a segment's last run are cleared."""

from __future__ import annotations

from itertools import pairwise

from medsanitize.sanitize.quarantine import Quarantined

_HEADER = 64


def clear_slack(frame: bytes, bytes_per_segment: int, segments: int) -> bytes:
    """The frame with every byte that no run uses set to zero; the same object if there was none.

    Raises
    ------
    Quarantined
        ``rle-structure`` when the segment offsets do not hold together, or there are not exactly
        ``segments``: one a byte of a sample.
    """
    count = int.from_bytes(frame[:4], "little") if len(frame) >= _HEADER else 0
    if count != segments or not 1 <= count <= 15:
        raise Quarantined("rle-structure", "pixels")
    offsets = [int.from_bytes(frame[4 + 4 * i : 8 + 4 * i], "little") for i in range(count)] + [len(frame)]
    if offsets[0] < _HEADER or any(a > b for a, b in pairwise(offsets)):
        raise Quarantined("rle-structure", "pixels")
    used = [(_HEADER, offsets[0])] if offsets[0] > _HEADER else []
    used.append((4 + 4 * count, _HEADER))
    for start, end in pairwise(offsets):
        used.append((_run_end(frame, start, end, bytes_per_segment), end))
    slack = [(start, end) for start, end in used if frame[start:end].strip(b"\0")]
    if not slack:
        return frame
    cleared = bytearray(frame)
    for start, end in slack:
        cleared[start:end] = bytes(end - start)
    return bytes(cleared)


def _run_end(frame: bytes, pos: int, end: int, wanted: int) -> int:
    """Where the runs that make ``wanted`` bytes end (PS3.5 G.3.2)."""
    made = 0
    while made < wanted and pos < end:
        control = frame[pos]
        if control < 128:
            made += control + 1
            pos += control + 2
        elif control == 128:
            pos += 1
        else:
            made += 257 - control
            pos += 2
        if made > wanted and control < 128:
            pos -= made - wanted
    return min(pos, end)
