"""Native codecs of JPEG 2000, JPEG-LS and lossless JPEG code streams, which trust the bytes they are given.

Streams of an export are decoded in a process of their own (`decoder_process`); only samples that this program
computed are encoded in its own process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from medsanitize.sanitize.formats.dicom import native
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.frame_header import FrameHeader
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

Samples = NDArray[Any]

LOSSLESS = 0xC3
"""Second byte of the frame marker of lossless JPEG with Huffman coding (T.81 table B.1)."""
_EXPLICIT_LITTLE = "1.2.840.10008.1.2.1"


@dataclass(frozen=True, slots=True)
class CodeStream:
    """One encoded frame, and what its data set and its own header state.

    ``codec`` and ``uid`` are those of the transfer syntax.
    """

    data: bytes
    codec: str
    uid: str
    geometry: Geometry
    stated: FrameHeader


def decode_stream(stream: CodeStream) -> Samples:
    """Decode one frame, which may end this process.

    Raises
    ------
    Exception
        Whatever the codec raises for a malformed stream.
    """
    if stream.codec == "jpeg2000":
        from openjpeg.utils import decode

        return np.asarray(decode(stream.data))
    if stream.codec == "jpeg-ls":
        try:
            return _jpeg_ls(stream)
        except RuntimeError:
            # CharLS refuses streams with surplus bytes between segments, which gdcm skips.
            return _gdcm(stream)
    return _lossless_jpeg(stream)


def _jpeg_ls(stream: CodeStream) -> Samples:
    import jpeg_ls  # type: ignore[import-untyped]

    geometry = stream.geometry
    raw, facts = jpeg_ls.decode_buffer(stream.data)
    cells = np.frombuffer(raw, "<u1" if stream.stated.bits <= 8 else "<u2")
    if geometry.samples == 1:
        return cells.reshape(geometry.rows, geometry.columns)
    # Mode 0 stores one scan per component.
    if facts["interleave_mode"] == 0:
        planes = cells.reshape(geometry.samples, geometry.rows, geometry.columns)
        return np.ascontiguousarray(planes.transpose(1, 2, 0))
    return cells.reshape(geometry.rows, geometry.columns, geometry.samples)


def _lossless_jpeg(stream: CodeStream) -> Samples:
    """Decode lossless JPEG and 12-bit extended JPEG. gdcm writes its warnings to stderr.

    gdcm ends its process on a lossless stream of 2 to 7 bits. Every predictor (T.81 table H.1) weights its
    neighbors by a total of one, and the first prediction is half the range (H.1.2.1): declared as 8 bits,
    the stream therefore decodes to the same samples plus a constant.
    """
    stated = stream.stated
    if stated.process != LOSSLESS or stated.bits >= 8:
        return _gdcm(stream)
    declared = replace(stream, data=_with_precision(stream.data, 8), stated=replace(stated, bits=8))
    found = _gdcm(declared)
    return (found.view(np.uint8) - np.uint8(_half(8) - _half(stated.bits))).view(found.dtype)


def _half(bits: int) -> int:
    return 1 << (bits - 1)


def _with_precision(data: bytes, bits: int) -> bytes:
    """Return a lossless JPEG stream whose frame header declares ``bits``."""
    # The first SOF3 of a stream without metadata; entropy-coded data follows it.
    at = data.index(bytes([0xFF, LOSSLESS])) + 4
    return data[:at] + bytes([bits]) + data[at + 1 :]


def _gdcm(stream: CodeStream) -> Samples:
    import gdcm  # type: ignore[import-untyped]

    geometry, stated = stream.geometry, stream.stated
    image = gdcm.Image()
    _describe(gdcm, image, geometry, stated, stream.uid)
    fragment = gdcm.Fragment()
    fragment.SetByteStringValue(stream.data)
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
    allocated = 8 if stated.bits <= 8 else 16
    return replace(geometry, bits_allocated=allocated, planar=0, photometric="")


def encode_lossless_jpeg(samples: Samples, uid: str, geometry: Geometry, stated: FrameHeader) -> bytes:
    """Encode lossless JPEG with the first-order predictor, which both lossless syntaxes allow.

    Raises
    ------
    Quarantined
        ``pixels-not-rewritten`` if gdcm refuses.
    """
    if stated.bits < 8:
        # The reverse of `_lossless_jpeg`.
        raised = samples.view(np.uint8) + np.uint8(_half(8) - _half(stated.bits))
        made = encode_lossless_jpeg(raised, uid, geometry, replace(stated, bits=8))
        return _with_precision(made, stated.bits)
    import gdcm

    # The writer owns the image and must outlive the conversion.
    writer = gdcm.ImageWriter()
    image = writer.GetImage()
    _describe(gdcm, image, geometry, stated, _EXPLICIT_LITTLE)
    data = gdcm.DataElement(gdcm.Tag(0x7FE0, 0x0010))
    data.SetByteStringValue(samples.tobytes())
    image.SetDataElement(data)
    changer = gdcm.ImageChangeTransferSyntax()
    changer.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.GetTSType(uid)))
    changer.SetInput(image)
    if not changer.Change():
        raise Quarantined("pixels-not-rewritten", "pixels")
    fragments = changer.GetOutput().GetDataElement().GetSequenceOfFragments()
    if fragments is None or fragments.GetNumberOfFragments() != 1:
        raise Quarantined("pixels-not-rewritten", "pixels")
    buffer = fragments.GetFragment(0).GetByteValue().GetBuffer()
    return bytes(buffer.encode("utf-8", "surrogateescape"))
