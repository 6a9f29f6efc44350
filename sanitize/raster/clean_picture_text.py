"""Burned-in text of PNG, JPEG and TIFF pages, read and cleaned like the frames of DICOM objects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from medsanitize.policies.model import Policy
from medsanitize.sanitize.burned_in.areas import fixed_areas, merge_areas
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.classify import find_identifying_boxes
from medsanitize.sanitize.burned_in.clean import clean_frames
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions
from medsanitize.sanitize.burned_in.device import Device
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.second_reader import confirmation
from medsanitize.sanitize.context import ReviewDecision
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import (
    EXPLICIT_LITTLE,
    TRANSFER_SYNTAXES,
    TransferSyntax,
)
from medsanitize.sanitize.result import ReviewItem
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import KnownTerms
from numpy.typing import NDArray

# Pages are presented to the frame cleaner as frames of these transfer syntaxes.
_NATIVE = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
_BASELINE = TRANSFER_SYNTAXES["1.2.840.10008.1.2.4.50"]
_FRAME = re.compile(r"pixels/frame (\d{1,9})(/.*)?")


@dataclass(slots=True)
class PageFindings:
    """Blanked areas by page, number of blanked regions, and review items."""

    areas: dict[int, tuple[Area, ...]] = field(default_factory=dict)
    regions: int = 0
    review_items: list[ReviewItem] = field(default_factory=list)


class PageCleaner:
    """Finds and blanks identifying text in pages. Models are loaded for the first page read.

    Parameters
    ----------
    policy : Policy
    cleaner : TextCleaner
        Separates identifying text from other text.
    """

    def __init__(self, policy: Policy, cleaner: TextCleaner) -> None:
        self._policy = policy
        self._cleaner = cleaner
        self._reader = TextReader()

    def clean(
        self, pages: Sequence[NDArray[Any]], terms: KnownTerms, decisions: tuple[ReviewDecision, ...]
    ) -> PageFindings:
        """Find the areas to blank, and verify that no identifying text is left after blanking.

        Parameters
        ----------
        pages : sequence of ndarray, shape (rows, columns, channels)
            Samples with palette colors resolved.
        terms : KnownTerms
            Known identifiers, among them those of the image's own metadata.
        decisions : tuple of ReviewDecision
            Decisions of the review.

        Returns
        -------
        PageFindings

        Raises
        ------
        Quarantined
            As for `medsanitize.sanitize.burned_in.clean.clean_frames`.
        """
        found = PageFindings()
        for number, samples in enumerate(pages):
            own = _on_page(decisions, number)
            for view in page_views(samples):
                geometry = _geometry(view)
                pixels = WrittenPixels([b"", view.astype(view.dtype.newbyteorder("<")).tobytes()], [], 0)
                stored = StoredFrames(b"", pixels, EXPLICIT_LITTLE, _NATIVE, geometry)
                self._clean(stored, _NATIVE, geometry, terms, own, found, number)
        return found

    def edit_jpeg(
        self,
        stream: bytes,
        size: tuple[int, int, int],
        terms: KnownTerms,
        decisions: tuple[ReviewDecision, ...],
    ) -> tuple[bytes, PageFindings]:
        """Blank text in a JPEG, block by block.

        Parameters
        ----------
        stream : bytes
            A JPEG that `medsanitize.sanitize.formats.jpeg.dct.is_editable`.
        size : tuple of int
            Rows, columns, components.
        terms : KnownTerms
            Known identifiers.
        decisions : tuple of ReviewDecision
            Decisions of the review.

        Returns
        -------
        tuple of (bytes, PageFindings)
            The new JPEG, and what was found.
        """
        rows, columns, components = size
        model = "YBR_FULL" if components == 3 else "MONOCHROME2"
        geometry = Geometry(rows, columns, components, 1, 8, 8, 7, False, model)
        pixels = WrittenPixels([], [], 0, frames=[[stream]])
        stored = StoredFrames(b"", pixels, EXPLICIT_LITTLE, _BASELINE, geometry)
        found = PageFindings()
        self._clean(stored, _BASELINE, geometry, terms, decisions, found, 0)
        return stored.released(0), found

    def _clean(
        self,
        stored: StoredFrames,
        syntax: TransferSyntax,
        geometry: Geometry,
        terms: KnownTerms,
        decisions: tuple[ReviewDecision, ...],
        found: PageFindings,
        page: int,
    ) -> None:
        def judge(boxes: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
            # Nothing tells the device of a picture: any may be a captured screen.
            return find_identifying_boxes(boxes, self._cleaner, terms, screen_rows=geometry.rows)

        rules, limits = self._policy.pixels, self._policy.dicom.limits
        fixed = fixed_areas(rules.regions, Device(), geometry)
        order = CleaningOptions(judge, rules.mask == "all-text", fixed, decisions, confirmation(rules))
        image = ImageFrames(stored, syntax, geometry)
        cleaned = clean_frames(image, order, self._reader, decompress=False, most_bytes=limits.inflated_bytes)
        found.regions += cleaned.regions
        if cleaned.areas:
            # The union over all views: text may be readable in the transparency only.
            found.areas[page] = merge_areas((*found.areas.get(page, ()), *cleaned.areas))
        found.review_items += [
            replace(item, location=_renumbered(item.location, page)) for item in cleaned.review_items
        ]


def page_views(samples: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the arrays in which text of a page may be visible.

    These are its colors and, if it has varying transparency, the transparency and the page on white. Channels
    of unknown meaning are separate views.

    Parameters
    ----------
    samples : ndarray, shape (rows, columns, channels)

    Returns
    -------
    list of ndarray, shape (rows, columns) or (rows, columns, 3)
    """
    channels = samples.shape[2]
    if samples.dtype.kind in "iu" and samples.dtype.itemsize > 2:
        samples = samples.astype(np.float64)
    if channels in (1, 3):
        return [samples[:, :, 0] if channels == 1 else samples]
    if channels not in (2, 4) or samples.dtype.kind != "u":
        return [samples[:, :, channel] for channel in range(channels)]
    color, alpha = samples[:, :, :-1], samples[:, :, -1]
    color = color[:, :, 0] if channels == 2 else color
    # Constant transparency shows no text.
    if alpha.min() == alpha.max():
        return [color]
    top = float(np.iinfo(samples.dtype).max)
    share = (alpha / top)[:, :, None] if channels == 4 else alpha / top
    upon_white = (color * share + top * (1 - share)).astype(samples.dtype)
    return [color, np.ascontiguousarray(alpha), upon_white]


def is_colorful(samples: NDArray[Any]) -> bool:
    """Return whether a page has colors, as photographs do, and not only shades of gray."""
    if samples.shape[2] < 3:
        return False
    channels = samples[:, :, :3].astype(np.float64)
    spread = channels.max(axis=2) - channels.min(axis=2)
    # Thresholds tolerate color casts of scans and small colored annotations.
    return bool(np.count_nonzero(spread > 0.12 * max(float(channels.max()), 1.0)) > 0.01 * spread.size)


def _geometry(view: NDArray[Any]) -> Geometry:
    bits = 8 * view.dtype.itemsize
    samples = 1 if view.ndim == 2 else view.shape[2]
    model = "MONOCHROME2" if samples == 1 else "RGB"
    signed, floating = view.dtype.kind == "i", view.dtype.kind == "f"
    rows, columns = view.shape[:2]
    return Geometry(rows, columns, samples, 1, bits, bits, bits - 1, signed, model, 0, floating)


def _on_page(decisions: tuple[ReviewDecision, ...], page: int) -> tuple[ReviewDecision, ...]:
    """Return the decisions on one page, renumbered for an image of one frame."""
    kept = []
    for decision in decisions:
        found = _FRAME.fullmatch(decision.location)
        if found is None:
            kept.append(decision)
        elif int(found[1]) == page + 1:
            kept.append(replace(decision, location=f"pixels/frame 1{found[2] or ''}"))
    return tuple(kept)


def _renumbered(location: str, page: int) -> str:
    found = _FRAME.fullmatch(location)
    return f"pixels/frame {page + 1}{found[2] or ''}" if found else location
