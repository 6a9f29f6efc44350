"""PDF documents as images: renders pages, and writes files that contain nothing but images (ISO 32000-1)."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from medsanitize.errors import EnvironmentFailure
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

Page = NDArray[np.uint8]
"""One page as RGB, shape (rows, columns, 3)."""

# Pixels per point (144 dpi). A whole number, so that written pages render pixel by pixel.
_DOTS = 2
_MOST_PAGES = 100
_MOST_PIXELS = 8_000_000
# Largest page side in user space units (ISO 32000-1 Annex C).
_MOST_POINTS = 14_400


@dataclass(frozen=True, slots=True, repr=False)
class TextLine:
    """A line of the text layer of a page: its area in the image (pixels) and its text."""

    area: Area
    text: str

    def __repr__(self) -> str:
        # The text can be PHI and must not appear in logs.
        return f"TextLine({self.area})"


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """The image of a page and the lines of its text layer."""

    picture: Page
    lines: tuple[TextLine, ...]


def render_pdf(document: bytes, most_bytes: int) -> list[RenderedPage]:
    """Render every page at 144 dpi, large pages at less. No script is run, no link followed.

    Parameters
    ----------
    document : bytes
        A PDF file.
    most_bytes : int
        Largest total size of all images.

    Raises
    ------
    Quarantined
        ``document-unreadable``, ``document-encrypted`` or ``document-too-large``.
    """
    with _opened(document) as pdf:
        if not 1 <= len(pdf) <= _MOST_PAGES:
            raise Quarantined("document-too-large" if len(pdf) else "document-unreadable", "document")
        pages, total = [], 0
        for number in range(len(pdf)):
            with _closing(pdf[number]) as page:
                pages.append(_picture(page, _scale(page)))
            total += pages[-1].picture.nbytes
            if total > most_bytes:
                raise Quarantined("document-too-large", "document")
        return pages


def is_pictures_only(document: bytes, pages: Sequence[Page]) -> bool:
    """Return whether a written file renders to exactly these pages and has no text, attachment or metadata.

    Parameters
    ----------
    document : bytes
        A PDF file.
    pages : sequence of ndarray of uint8, shape (rows, columns, 3)
        The expected pages.
    """
    with _opened(document) as pdf:
        if len(pdf) != len(pages) or pdf.count_attachments() or any(pdf.get_metadata_dict().values()):
            return False
        for number, expected in enumerate(pages):
            with _closing(pdf[number]) as page:
                again = _picture(page, _DOTS)
            if again.lines or not np.array_equal(again.picture, expected):
                return False
        return True


def write_pdf(pages: Sequence[Page]) -> bytes:
    """Build a PDF whose pages are these images.

    It has no text, font, link, script, attachment, date or identifier; equal pages give equal bytes.

    Parameters
    ----------
    pages : sequence of ndarray of uint8, shape (rows, columns, 3)

    Returns
    -------
    bytes
    """
    kids = " ".join(f"{3 + 3 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode("ascii"),
    ]
    for number, page in enumerate(pages):
        objects += _page_objects(page, 3 + 3 * number)
    # Bytes above 127 in the second line mark the file as binary (ISO 32000-1 7.5.2). No /Info and no /ID.
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def _page_objects(page: Page, first: int) -> list[bytes]:
    """Return the objects of a page, its content and its image, numbered from ``first``."""
    rows, columns = page.shape[:2]
    gray = bool((page == page[..., :1]).all())
    samples = page[..., 0] if gray else page
    data = zlib.compress(np.ascontiguousarray(samples).tobytes(), 6)
    width, height = (f"{side / _DOTS:.1f}" for side in (columns, rows))
    content = f"q {width} 0 0 {height} 0 0 cm /P Do Q".encode("ascii")
    colors = "DeviceGray" if gray else "DeviceRGB"
    head = (
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents {first + 1} 0 R "
        f"/Resources << /XObject << /P {first + 2} 0 R >> >> >>"
    )
    picture = (
        f"<< /Type /XObject /Subtype /Image /Width {columns} /Height {rows} /ColorSpace /{colors} "
        f"/BitsPerComponent 8 /Filter /FlateDecode /Length {len(data)} >>"
    )
    return [
        head.encode("ascii"),
        b"<< /Length %d >>\nstream\n" % len(content) + content + b"\nendstream",
        picture.encode("ascii") + b"\nstream\n" + data + b"\nendstream",
    ]


@contextmanager
def _opened(document: bytes) -> Iterator[Any]:
    try:
        import pypdfium2  # type: ignore[import-untyped]
        from pypdfium2 import raw
    except ImportError:
        raise EnvironmentFailure(
            "Rebuilding PDF documents requires the extra 'pixels'", "Install medsanitize[pixels]"
        ) from None
    try:
        pdf = pypdfium2.PdfDocument(document)
    except pypdfium2.PdfiumError as error:
        # The error message is dropped ("from None"): it may quote the document.
        locked = getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD
        raise Quarantined("document-encrypted" if locked else "document-unreadable", "document") from None
    with _closing(pdf):
        # Documents with an empty user password open without an error, but are encrypted.
        if raw.FPDF_GetSecurityHandlerRevision(pdf) >= 0:
            raise Quarantined("document-encrypted", "document")
        try:
            yield pdf
        except pypdfium2.PdfiumError:
            raise Quarantined("document-unreadable", "document") from None


@contextmanager
def _closing(thing: Any) -> Iterator[Any]:
    try:
        yield thing
    finally:
        thing.close()


def _scale(page: Any) -> float:
    width, height = page.get_size()
    if not (0 < width <= _MOST_POINTS and 0 < height <= _MOST_POINTS):
        raise Quarantined("document-too-large", "document")
    return float(min(_DOTS, (_MOST_PIXELS / (width * height)) ** 0.5))


def _picture(page: Any, scale: float) -> RenderedPage:
    with _closing(page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)) as bitmap:
        picture: Page = np.array(bitmap.to_numpy()[..., :3], np.uint8)
    return RenderedPage(picture, tuple(_lines(page, picture.shape[1], picture.shape[0])))


def _lines(page: Any, columns: int, rows: int) -> Iterator[TextLine]:
    """Yield the lines of the text layer, adjacent runs joined."""
    from pypdfium2 import raw

    with _closing(page.get_textpage()) as text:
        runs: list[tuple[Area, str]] = []
        for index in range(text.count_rects()):
            left, bottom, right, top = text.get_rect(index)
            said = text.get_text_bounded(left, bottom, right, top).strip()
            if said:
                corners = [_dot(raw, page, columns, rows, *at) for at in ((left, top), (right, bottom))]
                (x, y), (u, v) = corners
                runs.append(((min(x, u), min(y, v), max(x, u), max(y, v)), said))
    line: list[tuple[Area, str]] = []
    for run in sorted(runs, key=lambda one: (one[0][1], one[0][0])):
        # A run whose top is below the vertical middle of the line's first run starts a new line.
        if line and run[0][1] * 2 >= line[0][0][1] + line[0][0][3]:
            yield _joined(line)
            line = []
        line.append(run)
    if line:
        yield _joined(line)


def _joined(runs: list[tuple[Area, str]]) -> TextLine:
    areas = [area for area, _ in runs]
    area = (
        min(one[0] for one in areas),
        min(one[1] for one in areas),
        max(one[2] for one in areas),
        max(one[3] for one in areas),
    )
    return TextLine(area, " ".join(said for _, said in sorted(runs, key=lambda run: run[0][0])))


def _dot(raw: Any, page: Any, columns: int, rows: int, x: float, y: float) -> tuple[int, int]:
    """Convert a point of the page to a pixel of its image, including rotation and crop box."""
    across, down = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page, 0, 0, columns, rows, 0, x, y, ctypes.byref(across), ctypes.byref(down))
    return min(max(across.value, 0), columns), min(max(down.value, 0), rows)
