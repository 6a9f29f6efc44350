"""One object before and after, as a run over it alone would change it; nothing is written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from medsanitize.pipeline.review.sample import header_rows, middle_frame
from medsanitize.sanitize.result import Finding

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = tuple[int, str, str, str, str]
Piece = tuple[Literal["same", "cut", "new"], str]

_MOST_ROWS: Final = 2_000
_EDGE: Final = 1_024
_MOST_PIXELS: Final = 2**28
_CHANGED: Final = (255, 176, 0, 110)


@dataclass(frozen=True, slots=True, repr=False)
class HeaderChange:
    """A row of the header: ``state`` is ``same``, ``changed``, ``removed`` or ``added``.

    ``pieces`` are the words of a changed text: kept, cut or new.
    """

    depth: int
    tag: str
    name: str
    vr: str
    before: str
    after: str
    state: str
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Preview:
    """One object before and after. Contains PHI.

    Attributes
    ----------
    outcome, kind : str
        As of `Result`.
    findings : tuple of Finding
        Why it is not released, or what is flagged.
    header : tuple of HeaderChange
        The rows of the header, before and after.
    before, after : bytes
        The middle frame (PNG), empty without one.
    changed : bytes
        Transparent picture (PNG) of the same size in which changed pixels are marked; empty if none is.
    parts : mapping
        Further pictures (PNG) of a slide by name: ``label``, ``macro``, ``thumbnail``.
    notes : tuple of str
        What this preview does not show.
    """

    outcome: str
    kind: str
    findings: tuple[Finding, ...]
    header: tuple[HeaderChange, ...] = ()
    before: bytes = b""
    after: bytes = b""
    changed: bytes = b""
    parts: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


# -- headers ------------------------------------------------------------------------------


def header_changes(before: Sequence[Row], after: Sequence[Row]) -> tuple[HeaderChange, ...]:
    """Align two headers by depth and tag."""
    first, second = [row[:2] for row in before], [row[:2] for row in after]
    found: list[HeaderChange] = []
    for kind, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal":
            found += [_paired(one, other) for one, other in zip(before[a:b], after[c:d], strict=True)]
            continue
        found += [HeaderChange(*row[:4], row[4], "", "removed") for row in before[a:b]]
        found += [HeaderChange(*row[:4], "", row[4], "added") for row in after[c:d]]
    return tuple(found)


def _paired(before: Row, after: Row) -> HeaderChange:
    state = "same" if before[4] == after[4] else "changed"
    pieces = text_changes(before[4], after[4]) if state == "changed" and after[4] else ()
    return HeaderChange(*before[:4], before[4], after[4], state, pieces)


def text_changes(before: str, after: str) -> tuple[Piece, ...]:
    """Return the words of a text that were kept, cut or added; nothing if no word was kept."""
    first, second = before.split(" "), after.split(" ")
    pieces: list[Piece] = []
    for kind, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(("same", " ".join(first[a:b])))
            continue
        if a < b:
            pieces.append(("cut", " ".join(first[a:b])))
        if c < d:
            pieces.append(("new", " ".join(second[c:d])))
    return tuple(pieces) if any(kind == "same" for kind, _ in pieces) else ()


def read_header(content: bytes | Path) -> tuple[Row, ...]:
    """Return the rows of a DICOM header; nothing of an object that cannot be read."""
    from pydicom import dcmread

    try:
        source = content if isinstance(content, Path) else BytesIO(content)
        data = dcmread(source, defer_size=1024, force=True, stop_before_pixels=True)
        return tuple(islice(header_rows(data), _MOST_ROWS))
    except Exception:  # noqa: BLE001  a header that no reader foresaw; the page shows that there is none
        return ()


# -- pictures -----------------------------------------------------------------------------


def picture_pair(kind: str, before: bytes, after: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a frame before and after, and where it changed, as PNG; empty where nothing can be shown."""
    first = _frame(kind, before)
    if first is None:
        return b"", b"", b""
    second = _frame(kind, after) if after else None
    bounds = _bounds(first[0])
    shown = _scaled(first, bounds)
    if second is None:
        return _png(shown), b"", b""
    other = _scaled(second, bounds)
    return _png(shown), _png(other), _marked(shown, other)


def _frame(kind: str, content: bytes) -> tuple[NDArray[Any], bool] | None:
    from PIL import Image

    try:
        if kind == "dicom":
            return middle_frame(BytesIO(content))
        with Image.open(BytesIO(content)) as image:
            if image.width * image.height > _MOST_PIXELS:
                return None
            return _samples_of(image.convert("RGB")), False
    except Exception:  # noqa: BLE001  decoders raise anything; the page shows that there is no picture
        return None


def _bounds(frame: NDArray[Any]) -> tuple[float, float]:
    import numpy as np

    if frame.dtype == np.uint8:
        return 0.0, 255.0
    low, high = np.percentile(frame.astype(np.float32), (0.5, 99.5))
    return float(low), float(high)


def _scaled(frame: tuple[NDArray[Any], bool], bounds: tuple[float, float]) -> NDArray[Any]:
    """Return 8 bits between the same bounds, so that brightness tells nothing but the pixels."""
    import numpy as np

    samples, inverted = frame
    scale = 255.0 / max(bounds[1] - bounds[0], 1e-6)
    shown: NDArray[Any] = np.clip((samples.astype(np.float32) - bounds[0]) * scale, 0, 255).astype(np.uint8)
    if inverted:
        shown = 255 - shown
    return shown


def _png(samples: NDArray[Any]) -> bytes:
    from PIL import Image

    return encoded_png(Image.fromarray(samples))


def encoded_png(image: Any, edge: int = _EDGE) -> bytes:
    """Return a picture as PNG, scaled down to fit a screen."""
    image.thumbnail((edge, edge))
    stream = BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _marked(before: NDArray[Any], after: NDArray[Any]) -> bytes:
    import numpy as np
    from PIL import Image

    if before.shape != after.shape:
        return b""
    changed = before.astype(np.int16) != after
    changed = changed.any(axis=-1) if changed.ndim == 3 else changed
    if not changed.any():
        return b""
    marks = np.zeros((*changed.shape, 4), np.uint8)
    marks[changed] = _CHANGED
    return encoded_png(Image.fromarray(marks, "RGBA"))


@dataclass(frozen=True, slots=True, repr=False)
class FramePicture:
    """A frame of a staged object (PNG), the size of the frame itself, and which one of how many it is."""

    png: bytes
    rows: int
    columns: int
    frame: int
    frames: int


def frame_picture(file: Path, frame: int | None, edge: int) -> FramePicture:
    """Return a frame of a DICOM object or picture file, from 1, by default the middle one.

    Parameters
    ----------
    file : Path
        A staged or released file.
    frame : int or None
        From 1; None for the middle one.
    edge : int
        Longest side of the picture in pixels.

    Raises
    ------
    ValueError
        It has no image that can be decoded.
    """
    from PIL import Image

    with file.open("rb") as opened:
        if file.suffix == ".dcm":
            frames = _count_frames(opened)
            number = min(frame, frames) if frame else frames // 2 + 1
            opened.seek(0)
            samples = middle_frame(opened, number - 1)
        else:
            with Image.open(opened) as image:
                frames = int(getattr(image, "n_frames", 1))
                number = min(frame, frames) if frame else 1
                image.seek(number - 1)
                if image.width * image.height > _MOST_PIXELS:
                    raise ValueError("too large to show")
                samples = _samples_of(image.convert("RGB")), False
    shown = _scaled(samples, _bounds(samples[0]))
    picture = Image.fromarray(shown)
    columns, rows = picture.size
    return FramePicture(encoded_png(picture, edge), rows, columns, number, frames)


def _count_frames(opened: BinaryIO) -> int:
    """Return the number of frames that a DICOM object states."""
    from pydicom import dcmread

    head = dcmread(opened, stop_before_pixels=True, specific_tags=["NumberOfFrames"])
    return max(int(head.get("NumberOfFrames") or 1), 1)


def _samples_of(image: Any) -> NDArray[Any]:
    """Return the samples of a picture."""
    import numpy as np

    samples: NDArray[Any] = np.asarray(image)
    return samples


# -- slides -------------------------------------------------------------------------------


def slide_parts(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """Return the small pictures of a slide: label, macro image and thumbnail; nothing if it is none."""
    try:
        import openslide

        with openslide.OpenSlide(os.fspath(path)) as slide:
            parts = {
                name: encoded_png(image.convert("RGB"))
                for name, image in slide.associated_images.items()
                if name in ("label", "macro") and image.width * image.height <= _MOST_PIXELS
            }
            return {**parts, "tissue": encoded_png(slide.get_thumbnail((_EDGE, _EDGE)))}
    except Exception:  # noqa: BLE001  the library is missing, or the file is no slide that it reads
        return {}
