"""Decoding of frames, and encoding where a transfer syntax can store samples without loss.

Samples are those of the code stream, without color conversion or rescaling. Arrays have shape
(rows, columns) or (rows, columns, samples).
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from medsanitize.sanitize.formats.dicom import native
from medsanitize.sanitize.formats.dicom.codecs import LOSSLESS, CodeStream, encode_lossless_jpeg
from medsanitize.sanitize.formats.dicom.decoder_process import decode_apart
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.transfer_syntax import TransferSyntax
from medsanitize.sanitize.formats.frame_header import FrameHeader, read_frame_header
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

Samples = NDArray[Any]

_PREFIX = "1.2.840.10008.1.2."
JPEG_LOSSLESS = (_PREFIX + "4.57", _PREFIX + "4.70")
# Encapsulated syntaxes whose frames are decoded, changed and encoded again without loss.
_REVERSIBLE = frozenset([_PREFIX + "5", _PREFIX + "8.1", _PREFIX + "4.80", _PREFIX + "4.90", *JPEG_LOSSLESS])
_DCT = frozenset([0xC0, 0xC1, 0xC2])
# What the codecs raise for malformed input; MemoryError and others must not become a quarantine.
_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    SyntaxError,
)


def is_reversible(syntax: TransferSyntax) -> bool:
    """Return whether a decoded frame can be written in the same syntax without loss."""
    return syntax.codec == "native" or syntax.uid in _REVERSIBLE


def check_frame(frame: bytes, syntax: TransferSyntax, geometry: Geometry) -> FrameHeader | None:
    """Compare the frame header with the data set; nothing is decoded.

    Returns
    -------
    FrameHeader or None
        None for codecs without a frame header.

    Raises
    ------
    Quarantined
        ``pixel-geometry-differs`` if they contradict each other; ``pixels-undecodable``.
    """
    stated = read_frame_header(frame, syntax.codec)
    if stated is not None:
        size = (stated.rows, stated.columns, stated.samples)
        if (
            size != (geometry.rows, geometry.columns, geometry.samples)
            or stated.bits > geometry.bits_allocated
        ):
            raise Quarantined("pixel-geometry-differs", "pixels")
    return stated


def decode_frame(frame: bytes, syntax: TransferSyntax, geometry: Geometry) -> Samples:
    """Decode one frame.

    Parameters
    ----------
    frame : bytes
        One frame as stored (native: in the byte order of the syntax).
    syntax : TransferSyntax
    geometry : Geometry
        Attributes of the data set.

    Returns
    -------
    ndarray, shape (rows, columns) or (rows, columns, samples)
        See `medsanitize.sanitize.formats.dicom.native.unpack_samples` for 4:2:2 chroma.

    Raises
    ------
    Quarantined
        ``pixels-undecodable``, or ``pixel-geometry-differs`` before anything is decoded.
    """
    stated = check_frame(frame, syntax, geometry)
    try:
        if stated is None:
            return _plain(frame, syntax, geometry)
        found = _stream(frame, syntax, geometry, stated)
    # Messages of codecs are dropped ("from None"): they can quote values.
    except _ERRORS:
        raise Quarantined("pixels-undecodable", "pixels") from None
    wanted = (geometry.rows, geometry.columns, *((geometry.samples,) if geometry.samples > 1 else ()))
    if found.shape != wanted:
        raise Quarantined("pixel-geometry-differs", "pixels")
    return found


def encode_frame(samples: Samples, old: bytes, syntax: TransferSyntax, geometry: Geometry) -> bytes:
    """Encode ``samples`` in the syntax and precision of the frame ``old``.

    Parameters
    ----------
    samples : ndarray, shape (rows, columns) or (rows, columns, samples)
        As ``decode_frame`` returns them.
    old : bytes
        The frame to replace, for its precision.
    syntax : TransferSyntax
    geometry : Geometry
        Attributes of the data set.

    Raises
    ------
    Quarantined
        ``pixels-not-rewritten`` if the codec does not support it.
    """
    stated = read_frame_header(old, syntax.codec)
    try:
        return _encoded(np.ascontiguousarray(samples), syntax, geometry, stated)
    except _ERRORS:
        raise Quarantined("pixels-not-rewritten", "pixels") from None


def _plain(frame: bytes, syntax: TransferSyntax, geometry: Geometry) -> Samples:
    """Decode frames of codecs without a frame header: native, RLE, deflated."""
    if syntax.codec == "rle":
        return _rle(frame, geometry)
    if syntax.codec == "deflated-frame":
        return native.unpack_samples(zlib.decompress(frame, -zlib.MAX_WBITS), geometry, big=False)
    if syntax.codec == "native":
        return native.unpack_samples(frame, geometry, big=syntax.layout.big)
    raise Quarantined("pixels-undecodable", "pixels")


def _stream(frame: bytes, syntax: TransferSyntax, geometry: Geometry, stated: FrameHeader) -> Samples:
    lossy = syntax.codec == "jpeg" and stated.process in _DCT
    if lossy and stated.bits == 8:
        return _jpeg(frame, stated)
    if lossy and (stated.process != 0xC1 or stated.bits != 12):
        raise Quarantined("pixels-undecodable", "pixels")
    if syntax.codec == "jpeg" and not lossy and stated.process != LOSSLESS:
        raise Quarantined("pixels-undecodable", "pixels")
    return decode_apart(CodeStream(frame, syntax.codec, syntax.uid, geometry, stated))


def _rle(frame: bytes, geometry: Geometry) -> Samples:
    """Decode RLE, which stores one plane per sample, whatever Planar Configuration states (PS3.5 G.2)."""
    from rle.utils import decode_frame  # type: ignore[attr-defined]

    if geometry.bits_allocated not in (8, 16, 32, 64):
        raise Quarantined("pixels-undecodable", "pixels")
    raw = decode_frame(frame, geometry.rows * geometry.columns, geometry.bits_allocated, "<")
    planes = np.frombuffer(raw, native.cell_dtype(geometry)).reshape(-1, geometry.rows, geometry.columns)
    if len(planes) != geometry.samples:
        raise Quarantined("pixel-geometry-differs", "pixels")
    return planes[0] if geometry.samples == 1 else np.ascontiguousarray(planes.transpose(1, 2, 0))


def _jpeg(frame: bytes, stated: FrameHeader) -> Samples:
    """Decode DCT frames of 8 bits; without an Adobe segment no color transform is reversed."""
    from io import BytesIO

    from PIL import Image

    with Image.open(BytesIO(frame), formats=("JPEG",)) as picture:
        if stated.samples == 3 and stated.transform is None:
            # The decoder would guess a color model; draft mode returns the stored components.
            picture.draft("YCbCr", picture.size)
        return np.asarray(picture)


def _encoded(
    samples: Samples, syntax: TransferSyntax, geometry: Geometry, stated: FrameHeader | None
) -> bytes:
    if syntax.codec == "native":
        return native.pack_samples(samples, geometry, big=syntax.layout.big)
    if syntax.codec == "deflated-frame":
        deflater = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        raw = native.pack_samples(samples, geometry, big=False)
        # The uncompressed frame is padded to an even length before compression.
        return deflater.compress(raw + b"\0" * (len(raw) & 1)) + deflater.flush()
    if syntax.codec == "rle":
        from rle.utils import encode_frame  # type: ignore[attr-defined]

        size = (geometry.rows, geometry.columns, geometry.samples, geometry.bits_allocated)
        return bytes(encode_frame(samples.tobytes(), *size, "<"))
    if stated is None or not is_reversible(syntax):
        raise Quarantined("pixels-not-rewritten", "pixels")
    if syntax.codec == "jpeg2000":
        from openjpeg.utils import encode_array

        # The reversible component transform is used exactly if the data set declares it.
        mixed = geometry.photometric == "YBR_RCT"
        return bytes(encode_array(samples, stated.bits, int(mixed), use_mct=mixed))
    if syntax.codec == "jpeg-ls":
        import jpeg_ls  # type: ignore[import-untyped]

        size = (geometry.rows, geometry.columns, geometry.samples, stated.bits)
        return bytes(jpeg_ls.encode_buffer(samples.tobytes(), *size, interleave_mode=2))
    return encode_lossless_jpeg(samples, syntax.uid, geometry, stated)
