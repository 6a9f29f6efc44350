"""RLE Lossless frames (PS3.5 Annex G): clears bytes that no run uses."""

from __future__ import annotations

from itertools import pairwise

from medsanitize.sanitize.quarantine import Quarantined

_HEADER = 64


def clear_slack(frame: bytes, bytes_per_segment: int, segments: int) -> bytes:
    """Set every byte of a frame that no run uses to zero.

    Parameters
    ----------
    frame : bytes
        One frame.
    bytes_per_segment : int
        Number of bytes that each segment decodes to.
    segments : int
        Expected number of segments: one for each byte of a pixel's samples.

    Returns
    -------
    bytes
        The same object if there was nothing to clear.

    Raises
    ------
    Quarantined
        ``rle-structure`` if the segment offsets are invalid, or the number of segments differs.
    """
    count = int.from_bytes(frame[:4], "little") if len(frame) >= _HEADER else 0
    if count != segments or not 1 <= count <= 15:
        raise Quarantined("rle-structure", "pixels")
    offsets = [int.from_bytes(frame[4 + 4 * i : 8 + 4 * i], "little") for i in range(count)] + [len(frame)]
    if offsets[0] < _HEADER or any(a > b for a, b in pairwise(offsets)):
        raise Quarantined("rle-structure", "pixels")
    # Gaps, unused offsets of the header and the rest of each segment are read by no decoder.
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
    """Return where the runs end that decode to ``wanted`` bytes (PS3.5 G.3.2)."""
    made = 0
    while made < wanted and pos < end:
        control = frame[pos]
        if control < 128:
            made += control + 1
            pos += control + 2
        # 128 has no effect (PS3.5 G.3.1).
        elif control == 128:
            pos += 1
        else:
            made += 257 - control
            pos += 2
        # The rest of a literal run beyond the segment is slack too.
        if made > wanted and control < 128:
            pos -= made - wanted
    return min(pos, end)
