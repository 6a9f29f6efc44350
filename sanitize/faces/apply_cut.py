"""Removal of a face from the pixels of one object: voxels inside the cuts are set to air."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import numpy as np
from medsanitize.sanitize.context import FaceCut
from medsanitize.sanitize.faces.deface import pixels_to_blank
from medsanitize.sanitize.faces.frame_geometry import FramePlane, UnreadableSlice, read_frame_planes
from medsanitize.sanitize.faces.volume import Mask
from medsanitize.sanitize.formats.dicom import decode
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.transfer_syntax import TransferSyntax
from medsanitize.sanitize.quarantine import Quarantined
from pydicom.filereader import read_dataset

_AIR_HU = -1000.0


def apply_cuts(
    stored: StoredFrames,
    header: bytes,
    syntax: TransferSyntax,
    geometry: Geometry,
    cuts: Sequence[FaceCut],
    *,
    is_ct: bool,
) -> int:
    """Set the pixels inside the cuts to air, in the transfer syntax of the object.

    Parameters
    ----------
    stored : StoredFrames
        The frames to release; changed frames are replaced in it.
    header : bytes
        The source's data set up to the pixel data, with the position of each frame.
    syntax : TransferSyntax
    geometry : Geometry
    cuts : sequence of FaceCut
    is_ct : bool
        Whether values are HU, where air is -1000; otherwise air is the darkest value of the frame.

    Returns
    -------
    int
        Number of frames that were changed.

    Raises
    ------
    Quarantined
        ``face-not-removed`` where frames have no position or cannot be written without loss.
    """
    places = _places(header, syntax)
    # A frame without a position may show the face.
    if len(places) != geometry.frames or any(at.plane is None for at in places):
        raise _not_removed()
    changed = 0
    for index, at in enumerate(places):
        mask = None if at.plane is None else pixels_to_blank(cuts, at.plane)
        if mask is None:
            continue
        # The value of air is known for gray integers in the low bits only; other frames fail closed.
        if (
            not decode.is_reversible(syntax)
            or geometry.samples != 1
            or geometry.floating
            or geometry.high_bit != geometry.bits_stored - 1
        ):
            raise _not_removed()
        new = _without(stored.frame(index), mask, at, syntax, geometry, is_ct)
        if new is not None:
            stored.put(index, new)
            changed += 1
    return changed


def cuts_meet_image(header: bytes, syntax: TransferSyntax, cuts: Sequence[FaceCut]) -> bool:
    """Return whether any cut removes a pixel of any frame.

    Parameters
    ----------
    header : bytes
        The source's data set up to the pixel data.
    syntax : TransferSyntax
    cuts : sequence of FaceCut

    Raises
    ------
    Quarantined
        ``face-not-removed`` where the header cannot be read.
    """
    return any(
        at.plane is not None and pixels_to_blank(cuts, at.plane) is not None for at in _places(header, syntax)
    )


def _not_removed() -> Quarantined:
    return Quarantined("face-not-removed", "pixels")


def _places(header: bytes, syntax: TransferSyntax) -> list[FramePlane]:
    layout = syntax.layout
    try:
        return read_frame_planes(read_dataset(BytesIO(header), not layout.explicit, not layout.big))
    except (UnreadableSlice, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError):
        raise _not_removed() from None


def _without(
    frame: bytes, mask: Mask, at: FramePlane, syntax: TransferSyntax, geometry: Geometry, is_ct: bool
) -> bytes | None:
    """Encode a frame with the mask set to air; None when nothing changes."""
    samples = decode.decode_frame(frame, syntax, geometry)
    air = _air(samples, at, geometry, is_ct)
    if bool((samples[mask] == air).all()):
        return None
    new = samples.copy()
    new[mask] = air
    # Proof by decoding: no defect of an encoder may leave a part of the face.
    written = decode.encode_frame(new, frame, syntax, geometry)
    if not np.array_equal(decode.decode_frame(written, syntax, geometry), new):
        raise _not_removed()
    return written


def _air(samples: decode.Samples, at: FramePlane, geometry: Geometry, is_ct: bool) -> decode.Samples:
    """The stored value of air, in the type of the samples."""
    kind = samples.dtype
    if not is_ct or at.rescale is None:
        return np.asarray(samples.max() if geometry.photometric == "MONOCHROME1" else samples.min(), kind)
    slope, intercept = at.rescale
    bits = geometry.bits_stored
    low = -(1 << (bits - 1)) if geometry.signed else 0
    # Some CT images cannot store -1000 HU: the nearest storable value is used.
    value = min(max(round((_AIR_HU - intercept) / slope), low), low + (1 << bits) - 1)
    if kind.kind == "u":
        value &= (1 << bits) - 1  # the samples are unsigned cells, also of signed values
    return np.asarray(value).astype(kind)
