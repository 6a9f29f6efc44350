"""Images of DICOM objects: the displayed middle frame, its kind, and the view position."""

from __future__ import annotations

import mmap
import re
import warnings
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UnreadablePicture
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.verifiers.reid.images.image import ImageArray, Modality

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset

# Largest frame that is decoded, as float32 samples.
MOST_FRAME_BYTES = 512 << 20
_MOST_BYTES = 4 << 30
# View codes of CID 4010, in SNOMED CT and SNOMED RT, as View Position spells them (PS3.3 C.8.11.5.1).
_VIEWS = {
    **{"399348003": "AP", "272479007": "PA", "399198007": "RL", "399173006": "LL", "399067008": "LATERAL"},
    **{"399356000": "RAO", "399135007": "LAO", "399038007": "RPO", "399006002": "LPO"},
    **{"R-10206": "AP", "R-10214": "PA", "R-10232": "RL", "R-10236": "LL"},
}
_VIEW = re.compile("[A-Z]{1,7}")
# What pydicom and its decoders raise for malformed objects.
_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def read_dicom(path: Path, stated: Modality | None = None) -> ImageArray | None:
    """Read the middle frame of a DICOM object (frame ``n // 2`` of ``n``, from 0).

    Parameters
    ----------
    path : Path
        The file.
    stated : Modality, optional
        See `medsanitize.verifiers.reid.images.kinds.kind_of_dicom`.

    Returns
    -------
    ImageArray or None
        None for a tiled whole-slide image: its frames are tiles that OpenSlide assembles.

    Raises
    ------
    UnreadablePicture
        ``no-pixels``, ``too-large``, ``pixel-geometry-differs``, ``pixels-undecodable``, ``lookup-table``, or
        the rule of a container error (``unknown-transfer-syntax``, ``inflated-too-large``, ...).
    """
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            # pydicom's warnings may quote values of the object, which are PHI.
            warnings.simplefilter("ignore")
            if path.stat().st_size > _MOST_BYTES:
                raise UnreadablePicture("too-large")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buf:
                return _picture(buf, stated)
    except Quarantined as refused:
        raise UnreadablePicture(
            refused.rule, "pixels" if refused.location == "pixels" else "header"
        ) from None
    except _ERRORS:
        raise UnreadablePicture("pixels-undecodable", "pixels") from None


def _picture(buf: mmap.mmap, stated: Modality | None) -> ImageArray | None:
    from medsanitize.verifiers.reid.images.kinds import kind_of_dicom, place_of_slice
    from medsanitize.verifiers.reid.images.raster import collapse_channels

    ds = _data_set(buf)
    slide = str(ds.get("Modality", "")) == "SM"
    frames = int(ds.get("NumberOfFrames") or 1)
    if slide and frames > 1:
        return None
    if not any(name in ds for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise UnreadablePicture("no-pixels", "pixels")
    frame = frames // 2
    colors, gray = _decoded(ds, frame, frames)
    if colors is None:
        from medsanitize.verifiers.reid.images.grayscale import display_values

        colors = display_values(gray, ds, frame)
    pixels = colors if slide else collapse_channels(colors)
    kind = kind_of_dicom(ds, stated)
    series, place = place_of_slice(ds) if kind is not None and kind.is_sliced else ("", 0.0)
    return ImageArray(pixels, kind, "" if slide else _view(ds), series=series, position=place)


def _data_set(buf: mmap.mmap) -> Dataset:
    """Read the data set of any container: without a preamble, or deflated up to a limit."""
    from medsanitize.policies.model import Limits
    from medsanitize.sanitize.formats.dicom.file import open_dicom
    from pydicom.dataset import FileMetaDataset
    from pydicom.filereader import read_dataset
    from pydicom.uid import UID

    container = open_dicom(buf, Limits())
    if not container.readable_pixels:
        raise Quarantined("unknown-transfer-syntax", "meta")
    layout = container.syntax.layout
    source: Any = container.buf if container.buf is buf else BytesIO(container.buf)
    source.seek(container.start)
    ds = read_dataset(source, not layout.explicit, not layout.big)
    # Rebuilt: an object may lack it, and the decoders need the transfer syntax.
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = UID(container.syntax.uid)
    return ds


def _decoded(ds: Dataset, frame: int, frames: int) -> tuple[NDArray[np.float32] | None, NDArray[Any]]:
    """One frame: colors (RGB in [0, 1]; None for gray) and samples."""
    import numpy as np
    from pydicom.pixels.processing import apply_color_lut
    from pydicom.pixels.utils import pixel_array

    geometry = _geometry(ds, frames)
    # Before decoding: a small file can declare a huge frame.
    if geometry.rows * geometry.columns * geometry.samples * 4 > MOST_FRAME_BYTES:
        raise UnreadablePicture("too-large", "pixels")
    if ds.file_meta.TransferSyntaxUID.is_encapsulated:
        found = _from_stream(ds, frame, geometry)
    else:
        found = _cells(pixel_array(ds, index=frame), geometry, geometry.bits_stored, geometry.high_bit)
    if geometry.photometric == "PALETTE COLOR":
        colors = apply_color_lut(found, ds)
        # A palette may have an alpha channel.
        return colors[..., :3].astype(np.float32) / np.float32(np.iinfo(colors.dtype).max), found
    if geometry.samples == 1:
        return None, found
    top = np.float32((1 << geometry.bits_stored) - 1)
    return np.clip(found[..., :3].astype(np.float32) / top, 0, 1), found


def _geometry(ds: Dataset, frames: int) -> Geometry:
    from medsanitize.sanitize.formats.dicom.image_pixel import Geometry

    floats = {"FloatPixelData": 32, "DoubleFloatPixelData": 64}
    bits = next((size for name, size in floats.items() if name in ds), int(ds.get("BitsAllocated") or 0))
    stored = int(ds.get("BitsStored") or bits)
    high_bit = ds.get("HighBit")
    return Geometry(
        rows=int(ds.Rows),
        columns=int(ds.Columns),
        samples=int(ds.get("SamplesPerPixel") or 1),
        frames=frames,
        bits_allocated=bits,
        bits_stored=stored,
        high_bit=stored - 1 if high_bit is None else int(high_bit),
        signed=ds.get("PixelRepresentation") == 1,
        photometric=str(ds.get("PhotometricInterpretation") or "MONOCHROME2"),
        floating=bits > 0 and any(name in ds for name in floats),
    )


def _from_stream(ds: Dataset, frame: int, geometry: Geometry) -> NDArray[Any]:
    """Decode an encapsulated frame with the sanitizer's decoders, which refuse a size unlike the header's."""
    from medsanitize.sanitize.burned_in.write_back import color_model
    from medsanitize.sanitize.formats.dicom.decode import decode_frame
    from medsanitize.sanitize.formats.dicom.transfer_syntax import TRANSFER_SYNTAXES
    from medsanitize.sanitize.formats.frame_header import read_frame_header
    from pydicom.encaps import get_frame
    from pydicom.pixels.processing import convert_color_space

    syntax = TRANSFER_SYNTAXES[str(ds.file_meta.TransferSyntaxUID)]
    stream = get_frame(ds.PixelData, frame, number_of_frames=geometry.frames)
    samples = decode_frame(stream, syntax, geometry)
    if geometry.samples == 3 and color_model(stream, syntax, geometry).startswith("YBR"):
        return convert_color_space(samples, "YBR_FULL", "RGB", per_frame=True)
    stated = read_frame_header(stream, syntax.codec)
    # The precision of the codestream, which may differ from Bits Stored.
    bits = geometry.bits_stored if stated is None else stated.bits
    return _cells(samples, geometry, bits, geometry.high_bit if stated is None else bits - 1)


def _cells(samples: NDArray[Any], geometry: Geometry, bits: int, high_bit: int) -> NDArray[Any]:
    """Extract the sample from each cell (PS3.5 8.1.1), signed as the header says."""
    import numpy as np

    if geometry.floating or geometry.samples > 1 or not 1 <= bits <= 32:
        return samples
    cells = (samples.astype(np.int64) >> max(high_bit + 1 - bits, 0)) & ((1 << bits) - 1)
    if geometry.signed:
        cells = np.where(cells >> (bits - 1), cells - (1 << bits), cells)
    return cells.astype(np.int32 if geometry.signed else np.uint32)


def _view(ds: Dataset) -> str:
    """View Position, or the meaning of the view code; empty if there is neither."""
    said = str(ds.get("ViewPosition") or "").strip().upper()
    if _VIEW.fullmatch(said):
        return said
    for code in _codes(ds):
        if code in _VIEWS:
            return _VIEWS[code]
    return ""


def _codes(ds: Dataset) -> Iterator[str]:
    # A malformed sequence is no reason to reject the image.
    with suppress(AttributeError, TypeError):
        for item in ds.get("ViewCodeSequence") or ():
            yield str(item.get("CodeValue") or "")
