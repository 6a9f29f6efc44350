"""Encapsulated PDF (PS3.3 A.45.1): rebuilt from cleaned images of its pages. Other documents by policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from medsanitize.policies.model import Documents, Limits, Policy
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.classify import find_identifying_boxes
from medsanitize.sanitize.burned_in.clean import clean_frames
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.review_images import frame_location
from medsanitize.sanitize.burned_in.second_reader import confirmation
from medsanitize.sanitize.context import ReviewDecision
from medsanitize.sanitize.dicom.assemble import put_element
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import (
    EXPLICIT_LITTLE,
    TRANSFER_SYNTAXES,
    Layout,
    encode_element,
)
from medsanitize.sanitize.formats.pdf import Page, RenderedPage, is_pictures_only, render_pdf, write_pdf
from medsanitize.sanitize.quarantine import Excluded, Quarantined
from medsanitize.sanitize.result import ReviewItem
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import KnownTerms

DOCUMENT, LENGTH, MIME_TYPE, MIME_TYPES = 0x00420011, 0x00420015, 0x00420012, 0x00420014
_BURNED_IN = 0x00280301
_NATIVE = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
_PAPER_WHITE = 255
# Encapsulated documents and audio waveforms.
_CLASSES = ("1.2.840.10008.5.1.4.1.1.104.", "1.2.840.10008.5.1.4.1.1.9.4.")
_PDF = "1.2.840.10008.5.1.4.1.1.104.1"


@dataclass(frozen=True, slots=True)
class RebuiltDocument:
    """The new document, the number of areas blanked in it, and review items."""

    document: bytes
    regions: int
    review_items: tuple[ReviewItem, ...]


def rebuild_document(
    document: bytes,
    policy: Policy,
    cleaner: TextCleaner,
    reader: TextReader,
    terms: KnownTerms,
    decisions: tuple[ReviewDecision, ...],
) -> RebuiltDocument:
    """Render the pages of a PDF, blank identifying text, and write a PDF that contains only these images.

    Identifying text is searched in the text layer of the document and in the rendered pages. The result is
    read again and must contain the cleaned images and nothing else.

    Parameters
    ----------
    document : bytes
        The source PDF.
    policy : Policy
    cleaner : TextCleaner
        Decides which text identifies.
    reader : TextReader
    terms : KnownTerms
        Identifiers of the patient and study.
    decisions : tuple of ReviewDecision

    Raises
    ------
    Quarantined
        As `render_pdf` and `clean_frames` do; ``document-too-large``; ``document-not-rebuilt`` when the
        result contains anything else.
    """
    limits = policy.dicom.limits
    pages = render_pdf(document, limits.inflated_bytes)
    geometry, stored = _stacked(pages, limits)
    # Text of the layer that OCR may miss is blanked at the bounds that the layer states.
    named = [
        ReviewDecision(frame_location(number, TextBox(*line.area, "", 1.0)), "blank")
        for number, page in enumerate(pages, 1)
        for line in page.lines
        if policy.pixels.mask == "all-text" or cleaner.identifying(line.text, terms, noisy=False)
    ]

    def judge(boxes: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
        return find_identifying_boxes(boxes, cleaner, terms)

    # The pages become frames of one image, so that they are cleaned and verified like any image.
    rules = policy.pixels
    order = CleaningOptions(judge, rules.mask == "all-text", (), (*decisions, *named), confirmation(rules))
    image = ImageFrames(stored, _NATIVE, geometry)
    cleaned = clean_frames(image, order, reader, decompress=False, most_bytes=limits.inflated_bytes)
    pictures = [_page(stored, geometry, number, page.picture) for number, page in enumerate(pages)]
    made = write_pdf(pictures)
    if not is_pictures_only(made, pictures):
        raise Quarantined("document-not-rebuilt", "document")
    return RebuiltDocument(made, cleaned.regions, cleaned.review_items)


def put_document(out: list[bytes], layout: Layout, document: bytes) -> None:
    """Write a rebuilt PDF and the attributes that the IOD requires for it into a rewritten data set.

    Parameters
    ----------
    out : list of bytes
        The rewritten elements; changed in place.
    layout : Layout
    document : bytes
    """
    put_element(out, layout, DOCUMENT, encode_element(layout, DOCUMENT, b"OB", document))
    put_element(out, layout, MIME_TYPE, encode_element(layout, MIME_TYPE, b"LO", b"application/pdf"))
    length = len(document).to_bytes(4, "big" if layout.big else "little")
    put_element(out, layout, LENGTH, encode_element(layout, LENGTH, b"UL", length))
    # The rebuilt document has no components of other media types.
    put_element(out, layout, MIME_TYPES, None)
    put_element(out, layout, _BURNED_IN, encode_element(layout, _BURNED_IN, b"CS", b"NO"))


def _stacked(pages: list[RenderedPage], limits: Limits) -> tuple[Geometry, StoredFrames]:
    """Return the pages as frames of one image; smaller pages are padded with white."""
    rows, columns = (max(page.picture.shape[axis] for page in pages) for axis in (0, 1))
    if rows * columns * 3 * len(pages) > limits.inflated_bytes:
        raise Quarantined("document-too-large", "document")
    frames = []
    for page in pages:
        frame = np.full((rows, columns, 3), _PAPER_WHITE, np.uint8)
        frame[: page.picture.shape[0], : page.picture.shape[1]] = page.picture
        frames.append(frame.tobytes())
    geometry = Geometry(rows, columns, 3, len(pages), 8, 8, 7, False, "RGB")
    pixels = WrittenPixels([b"", *frames], [], 0)
    return geometry, StoredFrames(b"", pixels, EXPLICIT_LITTLE, _NATIVE, geometry)


def _page(stored: StoredFrames, geometry: Geometry, number: int, before: Page) -> Page:
    frame = np.frombuffer(stored.released(number), np.uint8).reshape(geometry.rows, geometry.columns, 3)
    return frame[: before.shape[0], : before.shape[1]]


def is_to_rebuild(sop_class: str, rules: Documents) -> bool:
    """Return whether an object is a PDF to rebuild; ``False`` for objects that are no documents.

    Parameters
    ----------
    sop_class : str
        SOP Class UID.
    rules : Documents
        Section of the policy.

    Raises
    ------
    Quarantined
        ``document-or-audio``.
    Excluded
        ``document``, if the policy drops documents other than PDF.
    """
    if not sop_class.startswith(_CLASSES):
        return False
    if sop_class == _PDF and rules.pdf == "rebuild":
        return True
    if sop_class != _PDF and rules.other == "drop":
        raise Excluded("document")
    raise Quarantined("document-or-audio")
