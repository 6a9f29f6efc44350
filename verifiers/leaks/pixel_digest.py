"""Digest of the decoded pixels of an object, independent of the transfer syntax."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.verifiers.leaks.dicom_conformance import NATIVE
from medsanitize.verifiers.leaks.dicom_reader import PIXEL_DATA, MalformedFile, Parsed, read
from medsanitize.verifiers.leaks.pixel_decoders import FRAME_HEADER_BYTES, decoding_plugin

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A frame that expands beyond 1 GiB is not decoded: a small file may claim any size.
_MAX_FRAME_BYTES: Final = 1 << 30
_BLOCK_BYTES: Final = 1 << 24
_SAME_PHOTOMETRIC: Final = {
    "YBR_RCT": "RGB",
    "YBR_ICT": "RGB",
    "YBR_FULL_422": "YBR_FULL",
}
"""Photometric interpretations of lossless codecs that decode to the same samples (PS3.3 C.7.6.3.1.2)."""

# Decoders raise many kinds of errors on damaged pixels; none may end an audit.
_UNDECODABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The properties that must be equal for two images to be equal."""

    frames: int
    rows: int
    columns: int
    samples: int
    bits: int
    signed: int
    photometric: str
    planar: int

    def digest(self) -> Any:
        """Return a digest of all properties but the planar configuration, which only orders samples."""
        head = (self.frames, self.rows, self.columns, self.samples, self.bits, self.signed, self.photometric)
        return sha256(repr(head).encode("ascii", "replace"))

    @property
    def size(self) -> int:
        """Size of all samples in bytes, without padding."""
        return (self.frames * self.rows * self.columns * self.samples * self.bits + 7) // 8


def pixel_digest(source: Path | bytes | Parsed) -> str | None:
    """Return the SHA-256 of the decoded pixels of an object.

    Samples are hashed little endian, color by pixel, frame by frame, in the allocated bits; rows, columns,
    samples, bits, sign, frames and photometric interpretation are part of the digest. An image has the same
    digest uncompressed in either byte order, deflated, and in every lossless transfer syntax. Uncompressed
    pixels are hashed without decoding.

    Parameters
    ----------
    source : Path, bytes or Parsed
        A file, its bytes, or the parsed object.

    Returns
    -------
    str or None
        64 hexadecimal digits; None if there are no pixels or they cannot be decoded.
    """
    try:
        parsed = source if isinstance(source, Parsed) else read(source)
        shape, place = _shape(parsed)
        if shape is None or place is None:
            return None
        if parsed.transfer_syntax in NATIVE:
            return _native(parsed, shape, place)
        return _decoded(source, parsed, shape, place)
    except (MalformedFile, struct.error, *_UNDECODABLE):
        return None


def samples_digest(frames: Iterable[NDArray[Any]], count: int) -> str:
    """Return the SHA-256 of decoded images of equal shape.

    Images with 1 or 3 unsigned samples have the digest that `pixel_digest` computes for them as MONOCHROME2
    or RGB.

    Parameters
    ----------
    frames : iterable of array, shape (rows, columns) or (rows, columns, samples)
        The images.
    count : int
        Their number, which is part of the digest.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    ValueError
        There are no images, or their shapes differ.
    """
    digest, first = None, None
    for frame in frames:
        samples = frame.shape[2] if frame.ndim == 3 else 1
        if digest is None:
            rows, columns = frame.shape[:2]
            meaning = {1: "MONOCHROME2", 3: "RGB"}.get(samples, f"{samples} samples")
            if frame.dtype.kind != "u":
                meaning = f"{meaning} {frame.dtype.kind}"
            digest = _Shape(count, rows, columns, samples, 8 * frame.dtype.itemsize, 0, meaning, 0).digest()
            first = frame.shape
        if frame.shape != first:
            raise ValueError("pages differ in shape")
        digest.update(frame.astype(frame.dtype.newbyteorder("<"), copy=False).tobytes())
    if digest is None:
        raise ValueError("no pages")
    return str(digest.hexdigest())


def _shape(parsed: Parsed) -> tuple[_Shape | None, int | None]:
    top = {tag: index for index, (tag, _, _, _, item) in enumerate(parsed.elements) if item < 0}

    def text(tag: int) -> str:
        index = top.get(tag)
        if index is None:
            return ""
        _, _, start, end, _ = parsed.elements[index]
        return bytes(parsed.buffer[start:end]).decode("ascii").strip(" \0")

    def number(tag: int) -> int:
        _, _, start, end, _ = parsed.elements[top[tag]]
        return int.from_bytes(parsed.buffer[start:end], "little" if parsed.little else "big")

    if PIXEL_DATA not in top:
        return None, None
    photometric = text(0x00280004)
    samples = number(0x00280002)
    if photometric.endswith("_422") and parsed.transfer_syntax in NATIVE:
        samples = 2  # chroma is stored for every second pixel only, so such images compare among themselves
    else:
        photometric = _SAME_PHOTOMETRIC.get(photometric, photometric)
    shape = _Shape(
        frames=int(text(0x00280008) or 1),
        rows=number(0x00280010),
        columns=number(0x00280011),
        samples=samples,
        bits=number(0x00280100),
        signed=number(0x00280103),
        photometric=photometric,
        planar=number(0x00280006) if samples > 1 and 0x00280006 in top else 0,
    )
    return shape, top[PIXEL_DATA]


def _native(parsed: Parsed, shape: _Shape, place: int) -> str | None:
    _, vr, start, end, _ = parsed.elements[place]
    if end - start < shape.size:
        return None
    digest = shape.digest()
    width = shape.bits // 8
    # Big endian swaps 16-bit words of OW even if a sample has 8 bits (PS3.5 7.3).
    swapped = not parsed.little and (vr == b"OW" or width > 1)
    if swapped:
        end = min(end, start + shape.size + shape.size % 2)
    elif shape.planar == 0:
        for piece in _pieces(parsed, start, start + shape.size):
            digest.update(piece)
        return str(digest.hexdigest())
    return _reordered(parsed, shape, start, 2 if width <= 1 else width, swapped)


def _pieces(parsed: Parsed, start: int, end: int) -> Iterator[bytes]:
    for place in range(start, end, _BLOCK_BYTES):
        yield parsed.buffer[place : min(end, place + _BLOCK_BYTES)]


def _reordered(parsed: Parsed, shape: _Shape, start: int, word: int, swapped: bool) -> str:
    """Hash samples in another byte order, or stored plane by plane."""
    import numpy as np

    digest = shape.digest()
    raw = np.frombuffer(parsed.buffer[start : start + shape.size + shape.size % 2], dtype=np.uint8)
    if swapped:
        raw = raw.reshape(-1, word)[:, ::-1].reshape(-1)
    raw = raw[: shape.size]
    if shape.planar:
        planes = raw.reshape(shape.frames, shape.samples, shape.rows * shape.columns, shape.bits // 8)
        raw = planes.transpose(0, 2, 1, 3)
    digest.update(np.ascontiguousarray(raw).data)
    return str(digest.hexdigest())


def _decoded(source: Path | bytes | Parsed, parsed: Parsed, shape: _Shape, place: int) -> str | None:
    """Decode frame by frame, without color conversion, and hash the samples."""
    from pydicom.pixels.utils import iter_pixels

    if shape.size // max(1, shape.frames) > _MAX_FRAME_BYTES:
        return None
    at = parsed.elements[place][2]
    plugin = decoding_plugin(
        parsed.transfer_syntax, shape.bits, bytes(parsed.buffer[at : at + FRAME_HEADER_BYTES])
    )
    digest, frames = shape.digest(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = source if isinstance(source, Path) else BytesIO(bytes(parsed.raw))
        for frame in iter_pixels(opened, raw=True, decoding_plugin=plugin):
            expected = (shape.rows, shape.columns) + ((shape.samples,) if shape.samples > 1 else ())
            if frame.shape != expected:
                return None
            digest.update(frame.astype(frame.dtype.newbyteorder("<"), copy=False).tobytes())
            frames += 1
    return str(digest.hexdigest()) if frames == shape.frames else None
