"""Decoding of frames, and encoding where a transfer syntax can store samples without loss.

Samples are those of the code stream, without color conversion or rescaling. Arrays have shape
(rows, columns) or (rows, columns, samples).
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from medsanitize.sanitize.formats.dicom import native
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
_LOSSLESS = 0xC3
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
    if syntax.codec == "jpeg2000":
        from openjpeg.utils import decode as decode_stream

        return np.asarray(decode_stream(frame))
    if syntax.codec == "jpeg-ls":
        return _jpeg_ls(frame, geometry, stated)
    if stated.process in _DCT and stated.bits == 8:
        return _jpeg(frame, stated)
    if stated.process == _LOSSLESS or (stated.process == 0xC1 and stated.bits == 12):
        return _gdcm(frame, syntax, geometry, stated)
    raise Quarantined("pixels-undecodable", "pixels")


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


def _jpeg_ls(frame: bytes, geometry: Geometry, stated: FrameHeader) -> Samples:
    import jpeg_ls  # type: ignore[import-untyped]

    raw, facts = jpeg_ls.decode_buffer(frame)
    cells = np.frombuffer(raw, "<u1" if stated.bits <= 8 else "<u2")
    if geometry.samples == 1:
        return cells.reshape(geometry.rows, geometry.columns)
    # Mode 0 stores one scan per component.
    if facts["interleave_mode"] == 0:
        planes = cells.reshape(geometry.samples, geometry.rows, geometry.columns)
        return np.ascontiguousarray(planes.transpose(1, 2, 0))
    return cells.reshape(geometry.rows, geometry.columns, geometry.samples)


def _jpeg(frame: bytes, stated: FrameHeader) -> Samples:
    """Decode DCT frames of 8 bits; without an Adobe segment no color transform is reversed."""
    from io import BytesIO

    from PIL import Image

    with Image.open(BytesIO(frame), formats=("JPEG",)) as picture:
        if stated.samples == 3 and stated.transform is None:
            # The decoder would guess a color model; draft mode returns the stored components.
            picture.draft("YCbCr", picture.size)
        return np.asarray(picture)


def _gdcm(frame: bytes, syntax: TransferSyntax, geometry: Geometry, stated: FrameHeader) -> Samples:
    """Decode lossless JPEG and 12-bit extended JPEG. gdcm writes its warnings to stderr."""
    import gdcm  # type: ignore[import-untyped]

    image = gdcm.Image()
    _describe(gdcm, image, geometry, stated, syntax.uid)
    fragment = gdcm.Fragment()
    fragment.SetByteStringValue(frame)
    fragments = gdcm.SequenceOfFragments.New()
    fragments.AddFragment(fragment)
    data = gdcm.DataElement(gdcm.Tag(0x7FE0, 0x0010))
    data.SetValue(fragments.__ref__())
    image.SetDataElement(data)
    # gdcm's Python wrapper returns bytes as str.
    raw = image.GetBuffer().encode("utf-8", "surrogateescape")
    return native.unpack_samples(raw, _stream_geometry(geometry, stated), big=False)


def _describe(gdcm: Any, image: Any, geometry: Geometry, stated: FrameHeader, uid: str) -> None:
    """Set the frame's shape, and a color model that gdcm does not convert."""
    image.SetNumberOfDimensions(2)
    image.SetDimensions((geometry.columns, geometry.rows, 1))
    name = "RGB" if geometry.samples == 3 else "MONOCHROME2"
    kind = gdcm.PhotometricInterpretation.GetPIType(name)
    image.SetPhotometricInterpretation(gdcm.PhotometricInterpretation(kind))
    image.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.GetTSType(uid)))
    allocated = 8 if stated.bits <= 8 else 16
    signed = int(geometry.signed)
    image.SetPixelFormat(gdcm.PixelFormat(geometry.samples, allocated, stated.bits, stated.bits - 1, signed))
    if geometry.samples > 1:
        image.SetPlanarConfiguration(0)


def _stream_geometry(geometry: Geometry, stated: FrameHeader) -> Geometry:
    """Return the geometry with the smallest cell that holds the precision, and interleaved samples."""
    from dataclasses import replace

    allocated = 8 if stated.bits <= 8 else 16
    return replace(geometry, bits_allocated=allocated, planar=0, photometric="")


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
        import jpeg_ls

        size = (geometry.rows, geometry.columns, geometry.samples, stated.bits)
        return bytes(jpeg_ls.encode_buffer(samples.tobytes(), *size, interleave_mode=2))
    return _gdcm_encoded(samples, syntax, geometry, stated)


def _gdcm_encoded(samples: Samples, syntax: TransferSyntax, geometry: Geometry, stated: FrameHeader) -> bytes:
    """Encode lossless JPEG with the first-order predictor, which both lossless syntaxes allow."""
    import gdcm

    # The writer owns the image and must outlive the conversion.
    writer = gdcm.ImageWriter()
    image = writer.GetImage()
    _describe(gdcm, image, geometry, stated, _PREFIX + "1")
    data = gdcm.DataElement(gdcm.Tag(0x7FE0, 0x0010))
    data.SetByteStringValue(samples.tobytes())
    image.SetDataElement(data)
    changer = gdcm.ImageChangeTransferSyntax()
    changer.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.GetTSType(syntax.uid)))
    changer.SetInput(image)
    if not changer.Change():
        raise Quarantined("pixels-not-rewritten", "pixels")
    fragments = changer.GetOutput().GetDataElement().GetSequenceOfFragments()
    if fragments is None or fragments.GetNumberOfFragments() != 1:
        raise Quarantined("pixels-not-rewritten", "pixels")
    buffer = fragments.GetFragment(0).GetByteValue().GetBuffer()
    return bytes(buffer.encode("utf-8", "surrogateescape"))
