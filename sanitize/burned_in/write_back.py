"""Writing of blanked frames, in their transfer syntax or decompressed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from medsanitize.sanitize.burned_in.blank import blank_areas
from medsanitize.sanitize.formats.dicom import decode, native
from medsanitize.sanitize.formats.dicom.decode import Samples
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import strip_frame
from medsanitize.sanitize.formats.dicom.transfer_syntax import TransferSyntax
from medsanitize.sanitize.formats.frame_header import read_frame_header
from medsanitize.sanitize.formats.jpeg import dct
from medsanitize.sanitize.quarantine import Quarantined


class NotEditableInPlace(Exception):
    """The lossy compression of a frame does not allow changing a part of it."""


def color_model(frame: bytes, syntax: TransferSyntax, geometry: Geometry) -> str:
    """Return the Photometric Interpretation of a frame as `decode_frame` returns it."""
    named = geometry.photometric
    if syntax.codec == "jpeg2000" and named in ("YBR_RCT", "YBR_ICT"):
        return "RGB"
    if syntax.codec == "jpeg" and geometry.samples == 3:
        stated = read_frame_header(frame, "jpeg")
        # 0xC3 is lossless JPEG, whose decoder applies no color transform.
        if stated is not None and stated.process != 0xC3 and stated.transform is not None:
            return "RGB"
    if syntax.codec in ("native", "rle", "deflated-frame"):
        return named
    return "YBR_FULL" if named.startswith("YBR") else named


def edit_in_place(
    frame: bytes, areas: Sequence[Area], syntax: TransferSyntax, geometry: Geometry, darkest: int | None
) -> tuple[bytes, Samples]:
    """Blank areas of one frame in its own transfer syntax.

    Parameters
    ----------
    frame : bytes
        The encoded frame.
    areas : sequence of Area
    syntax : TransferSyntax
    geometry : Geometry
    darkest : int or None
        Index of the darkest color of a palette.

    Returns
    -------
    bytes, array
        The new encoded frame and its samples.

    Raises
    ------
    NotEditableInPlace
        The transfer syntax is lossy, and the frame cannot be edited block by block.
    Quarantined
        ``pixels-not-rewritten`` when the new frame does not decode to the blanked samples.
    """
    if decode.is_reversible(syntax):
        samples = decode.decode_frame(frame, syntax, geometry)
        wanted = blank_areas(samples, areas, geometry, color_model(frame, syntax, geometry), darkest)
        new = decode.encode_frame(wanted, frame, syntax, geometry)
        new = new if syntax.codec == "native" else strip_frame(new, syntax, geometry)
        # Proof by decoding: no defect of an encoder may leave text or change other pixels.
        found = decode.decode_frame(new, syntax, geometry)
        if not np.array_equal(found, wanted, equal_nan=wanted.dtype.kind == "f"):
            raise Quarantined("pixels-not-rewritten", "pixels")
        return new, found
    if syntax.codec != "jpeg" or not dct.is_editable(frame):
        raise NotEditableInPlace
    new = dct.blank_blocks(frame, areas, white=geometry.photometric == "MONOCHROME1")
    new = strip_frame(new, syntax, geometry)
    return new, decode.decode_frame(new, syntax, geometry)


def decompress_and_blank(
    frame: bytes, areas: Sequence[Area], syntax: TransferSyntax, geometry: Geometry, darkest: int | None
) -> tuple[bytes, Samples, int]:
    """Decompress one frame and blank areas of it; parameters and errors as for `edit_in_place`.

    Returns
    -------
    bytes, array, int
        Native little endian samples, the samples as an array, and the bits that they need.
    """
    samples = decode.decode_frame(frame, syntax, geometry)
    wanted = blank_areas(samples, areas, geometry, color_model(frame, syntax, geometry), darkest)
    target = native_geometry(frame, syntax, geometry)
    stated = read_frame_header(frame, syntax.codec)
    bits = stated.bits if stated is not None else geometry.bits_stored
    cells = _values(wanted, bits, stated is not None and stated.signed, target)
    raw = native.pack_samples(cells, target, big=False)
    if not np.array_equal(native.unpack_samples(raw, target, big=False), cells):
        raise Quarantined("pixels-not-rewritten", "pixels")
    return raw, wanted, _precision(cells, target)


def native_geometry(frame: bytes, syntax: TransferSyntax, geometry: Geometry) -> Geometry:
    """Return the geometry of a frame after decompression."""
    model = color_model(frame, syntax, geometry)
    return replace(geometry, photometric=model, planar=0, high_bit=geometry.bits_stored - 1)


def _values(samples: Samples, bits: int, signed: bool, target: Geometry) -> Samples:
    """Convert samples of a code stream with ``bits`` bits to the sign and cell size of the object."""
    # Pixel Representation of the object decides the sign, not the code stream.
    cells = samples.astype(np.int64)
    if target.signed and not signed:
        cells = np.where(cells >= 1 << (bits - 1), cells - (1 << bits), cells)
    elif signed and not target.signed:
        cells = cells & ((1 << bits) - 1)
    return cells.astype(native.cell_dtype(target))


def _precision(cells: Samples, target: Geometry) -> int:
    """Number of bits that the values need, at least Bits Stored."""
    low, high = int(cells.min()), int(cells.max())
    need = max(high.bit_length() + int(target.signed), (-low - 1).bit_length() + 1 if low < 0 else 0)
    return max(need, target.bits_stored)
