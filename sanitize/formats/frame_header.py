"""Frame headers of encoded frames, read before anything is decoded."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.sanitize.quarantine import Quarantined

# Markers without a length field: TEM, RSTn and SOI (T.81 table B.1).
_NO_SEGMENT = frozenset([0x01, *range(0xD0, 0xD9)])
# Start-of-frame markers, among them SOF55 of JPEG-LS (0xF7); DHT, JPG and DAC share their range.
_SOF = frozenset([*range(0xC0, 0xD0), 0xF7]) - {0xC4, 0xC8, 0xCC}
_SOS, _APP14 = 0xDA, 0xEE
_SIZ = b"\xff\x4f\xff\x51"


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """Size and precision of an encoded frame.

    ``process`` is the second byte of the JPEG frame marker (T.81 table B.1), 0 for other codecs;
    ``transform`` is Adobe's color transform, None without an Adobe segment.
    """

    rows: int
    columns: int
    samples: int
    bits: int
    signed: bool = False
    process: int = 0
    transform: int | None = None


def read_frame_header(frame: bytes, codec: str) -> FrameHeader | None:
    """Read size and precision as the code stream states them.

    Parameters
    ----------
    frame : bytes
        One encoded frame.
    codec : str
        Codec name as in ``TransferSyntax.codec``.

    Returns
    -------
    FrameHeader or None
        None for codecs whose header is not read here.

    Raises
    ------
    Quarantined
        ``pixels-undecodable`` if the header is missing.
    """
    if codec in ("jpeg", "jpeg-ls"):
        return _jpeg(frame)
    if codec == "jpeg2000":
        return _jpeg2000(frame)
    return None


def _jpeg(frame: bytes) -> FrameHeader:
    """Read the frame header of T.81 B.2.2, which T.87 shares."""
    transform: int | None = None
    pos = 2
    while pos + 4 <= len(frame) and frame[pos] == 0xFF:
        marker = frame[pos + 1]
        if marker == 0xFF:
            # Fill bytes: any number of 0xFF may precede a marker (T.81 B.1.1.2).
            pos += 1
            continue
        if marker in _NO_SEGMENT:
            pos += 2
            continue
        length = int.from_bytes(frame[pos + 2 : pos + 4], "big")
        body = frame[pos + 4 : pos + 2 + length]
        if marker == _APP14 and body[:5] == b"Adobe" and len(body) >= 12:
            transform = body[11]
        if marker in _SOF and len(body) >= 6:
            rows, columns = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
            return FrameHeader(rows, columns, body[5], body[0], process=marker, transform=transform)
        if marker == _SOS:
            break
        pos += 2 + length
    raise Quarantined("pixels-undecodable", "pixels")


def _jpeg2000(stream: bytes) -> FrameHeader:
    """Read the SIZ segment (T.800 A.5.1), the first of every code stream."""
    if stream[:4] != _SIZ or len(stream) < 45:
        raise Quarantined("pixels-undecodable", "pixels")
    right, bottom, left, top = (int.from_bytes(stream[i : i + 4], "big") for i in (8, 12, 16, 20))
    samples = int.from_bytes(stream[40:42], "big")
    depth = stream[42]
    return FrameHeader(bottom - top, right - left, samples, (depth & 0x7F) + 1, bool(depth & 0x80))
