"""Grayscale display pipeline: Modality LUT, VOI LUT or window, MONOCHROME1 (PS3.3 C.11, C.7.6.3).

pydicom's functions keep the range of the values. Here every image ends in [0, 1], so that objects that differ
only in their representation give equal images.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UnreadablePicture

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset

# Percent of the values that are clipped at either end where the range is unknown.
TAIL = 0.5
# More samples than about this many hardly change a percentile.
_MAX_SAMPLES = 1 << 19


def display_values(stored: NDArray[Any], ds: Dataset, frame: int) -> NDArray[np.float32]:
    """Apply the display pipeline to one gray frame; dense tissue becomes bright.

    A VOI LUT takes precedence over a window (C.11.2.1 allows either), and the first of several windows is
    used. A window that makes the image uniform is ignored. Without one, samples of up to 8 bits keep their
    range; others are scaled between their 0.5th and 99.5th percentile, padding excluded.

    Parameters
    ----------
    stored : array, shape (rows, columns)
        Stored samples.
    ds : Dataset
        The object; functional groups of enhanced objects are used.
    frame : int
        Number of the frame, from 0.

    Returns
    -------
    array of float32, shape (rows, columns)
        Values in [0, 1]; padding is 0.

    Raises
    ------
    UnreadablePicture
        ``lookup-table`` if a table violates the standard.
    """
    import numpy as np

    places = list(_places(ds, frame))
    values, ends = _modality(stored, ds, places)
    found = _voi(values, places)
    if found is None or found.min() == found.max():
        found = _plain(values, ends, _padding(stored, ds))
    # Not before the window: the minimum is white after any VOI transformation (C.7.6.3.1.2).
    if str(ds.get("PhotometricInterpretation", "")) == "MONOCHROME1":
        found = 1 - found
    padding = _padding(stored, ds)
    # Black whatever the window, since padding is no anatomy.
    if padding is not None:
        found = np.where(padding, np.float32(0), found)
    return np.ascontiguousarray(found, np.float32)


def rescale_intensity(values: NDArray[Any], ends: tuple[float, float] | None = None) -> NDArray[np.float32]:
    """Scale values between two limits to [0, 1], by default between percentiles of the finite values.

    Parameters
    ----------
    values : array
        Values of any shape and type.
    ends : (float, float), optional
        Values that become 0 and 1.
    """
    import numpy as np

    low, high = ends or _percentiles(values)
    cells = values.astype(np.float32)
    if not high > low:
        return np.zeros(cells.shape, np.float32)
    if values.dtype.kind == "f":
        cells = np.nan_to_num(cells, nan=low, posinf=high, neginf=low)
    result: NDArray[np.float32] = np.clip((cells - np.float32(low)) / np.float32(high - low), 0, 1)
    return result


def _percentiles(values: NDArray[Any]) -> tuple[float, float]:
    import numpy as np

    flat = values.reshape(-1)
    flat = flat[:: max(flat.size // _MAX_SAMPLES, 1)]
    if flat.dtype.kind == "f":
        flat = flat[np.isfinite(flat)]
    if not flat.size:
        return 0.0, 0.0
    low, high = (float(one) for one in np.percentile(flat, (TAIL, 100 - TAIL)))
    return (low, high) if high > low else (float(flat.min()), float(flat.max()))


# -- what the header says --------------------------------------------------------------------


def _places(ds: Dataset, frame: int) -> Iterator[Dataset]:
    """Where a transformation may be: frame and shared functional groups (C.7.6.16), then the top level."""
    groups = list(ds.get("PerFrameFunctionalGroupsSequence") or ())
    chosen = [groups[frame]] if frame < len(groups) else []
    for group in [*chosen, *list(ds.get("SharedFunctionalGroupsSequence") or ())[:1]]:
        for name in ("PixelValueTransformationSequence", "FrameVOILUTSequence"):
            yield from list(group.get(name) or ())[:1]
    yield ds


def _number(value: Any) -> float | None:
    """The first finite number of a value; None if there is none."""
    try:
        first = value if isinstance(value, int | float | str) else next(iter(value))
        number = float(first)
    except (TypeError, ValueError, StopIteration):
        return None
    return number if math.isfinite(number) else None


def _modality(
    stored: NDArray[Any], ds: Dataset, places: list[Dataset]
) -> tuple[NDArray[Any], tuple[float, float] | None]:
    """Values after the Modality LUT (C.11.1), with the limits of their range for samples of up to 8 bits."""
    import numpy as np

    for place in places:
        tables = list(place.get("ModalityLUTSequence") or ())
        if tables:
            looked_up, top = _looked_up(stored, tables[0], ds)
            return looked_up, (0.0, top) if top < 256 else None
    slope, intercept = 1.0, 0.0
    for place in places:
        found = _number(place.get("RescaleSlope")), _number(place.get("RescaleIntercept"))
        # A slope of 0 would erase the image.
        if found[0] is not None and found[1] is not None and found[0] != 0:
            slope, intercept = found[0], found[1]
            break
    values = stored if (slope, intercept) == (1.0, 0.0) else stored * np.float64(slope) + intercept
    bits = int(ds.get("BitsStored") or ds.get("BitsAllocated") or 16)
    # Samples of more than 8 bits rarely use their whole range.
    if bits > 8 or stored.dtype.kind == "f":
        return values, None
    low = -(1 << (bits - 1)) if ds.get("PixelRepresentation") == 1 else 0
    ends = sorted(end * slope + intercept for end in (low, low + (1 << bits) - 1))
    return values, (ends[0], ends[1])


def _voi(values: NDArray[Any], places: list[Dataset]) -> NDArray[np.float32] | None:
    """Values after the VOI LUT or the first window (C.11.2); None if there is neither."""
    for place in places:
        tables = list(place.get("VOILUTSequence") or ())
        if tables:
            looked_up, top = _looked_up(values, tables[0], places[-1])
            return rescale_intensity(looked_up, (0.0, top))
    for place in places:
        center, width = _number(place.get("WindowCenter")), _number(place.get("WindowWidth"))
        if center is not None and width is not None:
            return _windowed(values, center, width, str(place.get("VOILUTFunction") or "LINEAR").upper())
    return None


def _windowed(values: NDArray[Any], center: float, width: float, function: str) -> NDArray[np.float32] | None:
    """Window functions of C.11.2.1.2 and C.11.2.1.3 with output [0, 1]; None for an invalid width."""
    import numpy as np

    cells = values.astype(np.float64)
    if width <= 0 or (function == "LINEAR" and width < 1):
        return None
    if function == "SIGMOID":
        with np.errstate(over="ignore"):
            result: NDArray[np.float32] = (1 / (1 + np.exp(-4 * (cells - center) / width))).astype(np.float32)
        return result
    if function == "LINEAR":
        center, width = center - 0.5, width - 1
    # A LINEAR window of width 1 is a step.
    if width == 0:
        return (cells > center).astype(np.float32)
    return np.clip((cells - center) / width + 0.5, 0, 1).astype(np.float32)


def _looked_up(values: NDArray[Any], table: Dataset, ds: Dataset) -> tuple[NDArray[Any], float]:
    """Map values through a LUT (C.11.1.1, C.11.2.1.1); also return the highest value of its depth.

    Values below the first mapped value give the first entry, those above the last one the last.
    """
    import numpy as np

    try:
        count, first, bits = (int(one) for one in table.LUTDescriptor)
        data = table["LUTData"].value
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UnreadablePicture("lookup-table", "header") from None
    if isinstance(data, bytes):
        little = ds.file_meta.TransferSyntaxUID.is_little_endian
        # Entries of 8 bits may be stored as bytes or as words: the length decides.
        wide = len(data) >= 2 * (count or 1 << 16)
        entries = np.frombuffer(data[: len(data) // 2 * 2 if wide else None], _cell(wide, little))
    else:
        entries = np.atleast_1d(np.asarray(data, np.int64))
    # A descriptor of 0 entries means 65,536 (C.11.1.1).
    entries = entries[: count or 1 << 16]
    if not len(entries) or not 1 <= bits <= 16:
        raise UnreadablePicture("lookup-table", "header")
    # The first mapped value is signed where the samples are, but may have been read as unsigned.
    if first >= 1 << 15 and values.dtype.kind != "u":
        first -= 1 << 16
    rounded = np.rint(np.nan_to_num(values)) if values.dtype.kind == "f" else values
    at = np.clip(rounded.astype(np.int64) - first, 0, len(entries) - 1)
    # Entries may exceed the stated depth.
    return entries.astype(np.uint16)[at], float(max((1 << bits) - 1, int(entries.max())))


def _cell(wide: bool, little: bool) -> str:
    return ("<u2" if little else ">u2") if wide else "u1"


def _padding(stored: NDArray[Any], ds: Dataset) -> NDArray[np.bool_] | None:
    """Mask of padding samples (C.7.5.1.1.2); None if there are none, or nothing else."""
    value = _number(ds.get("PixelPaddingValue"))
    if value is None:
        return None
    limit = _number(ds.get("PixelPaddingRangeLimit"))
    low, high = sorted((value, value if limit is None else limit))
    mask: NDArray[np.bool_] = (stored >= low) & (stored <= high)
    return mask if mask.any() and not mask.all() else None


def _plain(
    values: NDArray[Any], ends: tuple[float, float] | None, padding: NDArray[np.bool_] | None
) -> NDArray[np.float32]:
    """Scale values without a LUT or window: over their whole range, or between percentiles."""
    if ends is not None:
        return rescale_intensity(values, ends)
    return rescale_intensity(values, _percentiles(values if padding is None else values[~padding]))
