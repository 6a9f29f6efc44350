"""Taking a face out of the pixels of one object: what the cuts cover becomes air."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import numpy as np
from medsanitize.sanitize.dicom.container import Container
from medsanitize.sanitize.dicom.geometry import Geometry
from medsanitize.sanitize.dicom.pixeldata import PIXEL_DATA, Pixels, encapsulated
from medsanitize.sanitize.dicom.refusal import Refused
from medsanitize.sanitize.dicom.structure import Buffer
from medsanitize.sanitize.faces.deface import blanked
from medsanitize.sanitize.faces.face import Cut
from medsanitize.sanitize.faces.slices import FrameAt, Unreadable, frames_of
from medsanitize.sanitize.faces.volume import Mask
from medsanitize.sanitize.objects import Span
from medsanitize.sanitize.pixels import codecs
from pydicom.filereader import read_dataset

_AIR_HU = -1000.0


def cut_face(
    pixels: Pixels, container: Container, end: int, geometry: Geometry, cuts: Sequence[Cut], *, is_ct: bool
) -> int:
    """Set what the cuts cover to air, in place, in the object's own transfer syntax.

    Parameters
    ----------
    pixels : Pixels
        The pixel data as it would be released.
    container : Container
    end : int
        Where the header ends in the container's buffer.
    geometry : Geometry
    cuts : sequence of Cut
    is_ct : bool
        Air is -1000 HU where the values are HU, otherwise the darkest value of the frame.

    Returns
    -------
    int
        Number of frames that were changed.

    Raises
    ------
    Refused
        ``face-not-removed`` where the frames have no place or cannot be written back without loss.
    """
    places = _places(container, end)
    if len(places) != geometry.frames or any(at.plane is None for at in places):
        raise _not_removed()
    if not any(_mask(cuts, at) is not None for at in places):
        return 0
    if (
        not codecs.is_reversible(container.syntax)
        or geometry.samples != 1
        or geometry.high_bit != geometry.bits_stored - 1
        or pixels.tag != PIXEL_DATA
    ):
        raise _not_removed()
    native = container.syntax.codec == "native"
    frames = _native_frames(pixels, container.buf, geometry) if native else _frames(pixels, container.buf)
    if len(frames) != len(places):
        raise _not_removed()
    changed = 0
    for i, at in enumerate(places):
        mask = _mask(cuts, at)
        new = None if mask is None else _without(frames[i], mask, at, container, geometry, is_ct)
        if new is not None:
            changed += 1
            frames[i] = new
            if not native:
                pixels.frames[i] = [new]
    if changed and native:
        rest = b"\0" * (sum(map(len, frames)) % 2)
        pixels.pieces = [pixels.pieces[0], b"".join(frames) + rest]
    elif changed:
        pixels.pieces = encapsulated(pixels.frames, container.syntax.layout, table=pixels.table)
    return changed


def _not_removed() -> Refused:
    return Refused("face-not-removed", "pixels")


def _mask(cuts: Sequence[Cut], at: FrameAt) -> Mask | None:
    return None if at.plane is None else blanked(cuts, at.plane)


def _places(container: Container, end: int) -> list[FrameAt]:
    layout = container.syntax.layout
    header = BytesIO(bytes(container.buf[container.start : end]))
    try:
        return frames_of(read_dataset(header, not layout.explicit, not layout.big))
    except (Unreadable, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError):
        raise _not_removed() from None


def _without(
    frame: bytes, mask: Mask, at: FrameAt, container: Container, geometry: Geometry, is_ct: bool
) -> bytes | None:
    """One encoded frame with the mask set to air; None when nothing changes."""
    samples = codecs.decode(frame, container.syntax, geometry)
    air = _air(samples, at, geometry, is_ct)
    if bool((samples[mask] == air).all()):
        return None
    new = samples.copy()
    new[mask] = air
    written = codecs.encode(new, frame, container.syntax, geometry)
    if not np.array_equal(codecs.decode(written, container.syntax, geometry), new):
        raise _not_removed()
    return written


def _air(samples: codecs.Samples, at: FrameAt, geometry: Geometry, is_ct: bool) -> codecs.Samples:
    """The stored value that stands for air, as the samples hold it."""
    kind = samples.dtype
    if not is_ct or at.rescale is None:
        return np.asarray(samples.max() if geometry.photometric == "MONOCHROME1" else samples.min(), kind)
    slope, intercept = at.rescale
    bits = geometry.bits_stored
    low = -(1 << (bits - 1)) if geometry.signed else 0
    value = min(max(round((_AIR_HU - intercept) / slope), low), low + (1 << bits) - 1)
    if kind.kind == "u":
        value &= (1 << bits) - 1
    return np.asarray(value).astype(kind)


def _native_frames(pixels: Pixels, buf: Buffer, geometry: Geometry) -> list[bytes]:
    size = geometry.rows * geometry.columns * geometry.bits_allocated // 8
    whole = b"".join(_bytes(piece, buf) for piece in pixels.pieces[1:])
    return [whole[i * size : (i + 1) * size] for i in range(len(whole) // size if size else 0)]


def _frames(pixels: Pixels, buf: Buffer) -> list[bytes]:
    return [b"".join(_bytes(part, buf) for part in parts) for parts in pixels.frames]


def _bytes(piece: bytes | Span, buf: Buffer) -> bytes:
    if isinstance(piece, Span):
        return bytes(buf[piece.offset : piece.offset + piece.length])
    return piece
