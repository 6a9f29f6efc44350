"""Sanitizer of PNG, JPEG and TIFF files, which become files of pixels without metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context, Inspection
from medsanitize.sanitize.formats.file_type import SUFFIXES, Buffer, Format, detect_format
from medsanitize.sanitize.formats.jpeg.jpeg_file import Jpeg, read_jpeg, with_orientation
from medsanitize.sanitize.formats.png import png_samples as samples
from medsanitize.sanitize.formats.png.png_file import Png, read_png
from medsanitize.sanitize.formats.png.png_samples import blank_png, encode_png, png_colors
from medsanitize.sanitize.formats.tiff.tiff_file import TiffImage, is_slide_file, read_tiff_image
from medsanitize.sanitize.formats.tiff.tiff_samples import blank_pages, clear_unused_tiff, page_colors
from medsanitize.sanitize.pieces import OutFile
from medsanitize.sanitize.pseudonyms import SubKeys, patient_pseudonym, remap_uid
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.raster.inspect_raster import gather_identifiers, stated_size
from medsanitize.sanitize.result import CheckResult, ObjectRecord, Outcome, ReviewItem, Sanitized
from medsanitize.sanitize.sanitizer import Sanitizer

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.sanitize.formats.dicom.image_pixel import Area
    from medsanitize.sanitize.raster.clean_picture_text import PageCleaner
    from medsanitize.sanitize.text.known_identifiers import KnownTerms
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class RasterFile:
    """A sanitized image: encoded file, size (rows, columns, pages), rules, regions and review items."""

    data: bytes
    form: Format
    size: tuple[int, int, int]
    rules: tuple[str, ...]
    regions: int = 0
    review_items: tuple[ReviewItem, ...] = ()


def is_raster(data: Buffer) -> bool:
    """Return whether the bytes are a PNG, JPEG or TIFF file, and not a DICOM object."""
    # A preamble can make a file both TIFF and DICOM (PS3.10 7.1); it is then read as DICOM.
    return detect_format(data) is not None and bytes(data[128:132]) != b"DICM"


def inspect_raster(data: Buffer) -> Inspection | None:
    """Inspect an image for the inventory; None if it is not a PNG, JPEG or TIFF file.

    The kind is ``raster``, or ``unreadable`` with rule ``slide-not-supported`` for whole-slide images.
    """
    form = detect_format(data)
    if form is None or not is_raster(data):
        return None
    if form == "tiff" and is_slide_file(data):
        return Inspection("unreadable", "slide-not-supported")
    return Inspection("raster", known=gather_identifiers(data, form), image=stated_size(data, form))


class RasterSanitizer(Sanitizer[Buffer]):
    """Sanitizer of PNG, JPEG and TIFF files; see `Sanitizer`.

    Without a patient mapping, every file counts as a separate patient.
    """

    kind = "raster"

    def __init__(self, policy: Policy, keys: SubKeys) -> None:
        super().__init__(policy, keys)
        self._reader: PageCleaner | None = None

    def _size(self, source: Buffer) -> int:
        return len(source)

    def _sanitize(self, source: Buffer, context: Context) -> Sanitized:
        most, form = self._policy.dicom.limits.inflated_bytes, detect_format(source)
        if form == "png":
            picture = self._png(samples.clear_unused_png(read_png(source, most)), context)
        elif form == "jpeg":
            picture = self._jpeg(read_jpeg(source, most), context)
        elif form == "tiff":
            picture = self._tiff(clear_unused_tiff(read_tiff_image(source, most)), context)
        else:
            raise Quarantined("unreadable")
        return self._released(picture, context)

    def without_text(self, picture: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], int]:
        """Blank burned-in text in a gray picture without metadata, as in a PNG file of it.

        Parameters
        ----------
        picture : ndarray of uint8, shape (rows, columns)

        Returns
        -------
        tuple of (ndarray, int)
            The picture, and the number of blanked regions.

        Raises
        ------
        Quarantined
            As for a PNG file.
        """
        made = self._png(encode_png(picture, 1), Context("", ""))
        png = read_png(made.data, self._policy.dicom.limits.inflated_bytes)
        return png_colors(png)[:, :, 0], made.regions

    # -- formats ----------------------------------------------------------------------------

    def _png(self, png: Png, context: Context) -> RasterFile:
        size = (png.header.rows, png.header.columns, 1)
        # Without text search or face check the pixels need no decoding.
        if not self._reads_text():
            return RasterFile(png.write(), "png", size, png.rules)
        pages = [png_colors(png)]
        self._refuse_photographs(pages)
        if not self._reads():
            return RasterFile(png.write(), "png", size, png.rules)
        found = self._reading().clean(pages, self._terms(context), context.decisions)
        made = blank_png(png, found.areas[0]) if found.areas else png
        # The written pixels are compared with the read ones: an encoder error must not release text.
        again = blank_png(made, found.areas[0]) if found.areas else made
        _require_blanked(pages, [png_colors(made)], [png_colors(again)], found.areas)
        return RasterFile(made.write(), "png", size, made.rules, found.regions, tuple(found.review_items))

    def _tiff(self, tiff: TiffImage, context: Context) -> RasterFile:
        size = (tiff.pages[0].rows, tiff.pages[0].columns, len(tiff.pages))
        if not self._reads_text():
            return RasterFile(tiff.write(), "tiff", size, tiff.rules)
        pages = [page_colors(tiff, page) for page in tiff.pages]
        self._refuse_photographs(pages)
        if not self._reads():
            return RasterFile(tiff.write(), "tiff", size, tiff.rules)
        found = self._reading().clean(pages, self._terms(context), context.decisions)
        made = blank_pages(tiff, found.areas)
        again = blank_pages(made, found.areas)
        once, twice = ([page_colors(one, page) for page in one.pages] for one in (made, again))
        _require_blanked(pages, once, twice, found.areas)
        return RasterFile(made.write(), "tiff", size, made.rules, found.regions, tuple(found.review_items))

    def _jpeg(self, jpeg: Jpeg, context: Context) -> RasterFile:
        if jpeg.frame is None:
            raise Quarantined("jpeg-structure")
        frame, whole = jpeg.frame, with_orientation(jpeg.stream, jpeg.orientation)
        size = (frame.rows, frame.columns, 1)
        if not self._reads_text():
            return RasterFile(whole, "jpeg", size, jpeg.rules)
        pages = [_decoded(jpeg.stream)]
        self._refuse_photographs(pages)
        if not self._reads():
            return RasterFile(whole, "jpeg", size, jpeg.rules)
        from medsanitize.sanitize.formats.jpeg.dct import is_editable

        terms, components = self._terms(context), len(frame.components)
        # Editing coefficients keeps the rest of the image unchanged; other JPEGs have to be decoded.
        if is_editable(jpeg.stream) and components in (1, 3):
            shape = (frame.rows, frame.columns, components)
            stream, found = self._reading().edit_jpeg(jpeg.stream, shape, terms, context.decisions)
            data = with_orientation(stream, jpeg.orientation) if found.regions else whole
            return RasterFile(data, "jpeg", size, jpeg.rules, found.regions, tuple(found.review_items))
        found = self._reading().clean(pages, terms, context.decisions)
        review_items = tuple(found.review_items)
        if not found.areas:
            return RasterFile(whole, "jpeg", size, jpeg.rules, 0, review_items)
        # CMYK has no equivalent in PNG.
        if self._policy.pixels.lossy != "decompress" or components == 4:
            raise Quarantined("lossy-pixels", "pixels")
        made = blank_png(encode_png(pages[0], jpeg.orientation), found.areas[0])
        again = blank_png(made, found.areas[0])
        _require_blanked(pages, [png_colors(made)], [png_colors(again)], found.areas)
        return RasterFile(
            made.write(), "png", size, (*jpeg.rules, "C:decompressed"), found.regions, review_items
        )

    # -- policy decisions ---------------------------------------------------------------------

    def _reads(self) -> bool:
        """Return whether burned-in text is searched; every image can have some."""
        return self._policy.dicom.options.clean_pixel_data

    def _reads_text(self) -> bool:
        """Return whether pixels are decoded; raise if the policy forbids releasing them unread."""
        if not self._reads() and self._policy.pixels.at_risk == "quarantine":
            raise Quarantined("burned-in-text-risk", "pixels")
        return self._reads() or self._no_faces()

    def _no_faces(self) -> bool:
        return self._policy.pixels.faces in ("quarantine", "deface")

    def _refuse_photographs(self, pages: Sequence[NDArray[Any]]) -> None:
        """Quarantine color images, which may be photographs of persons; no face detector runs here."""
        if not self._no_faces():
            return
        from medsanitize.sanitize.raster.clean_picture_text import is_colorful

        if any(is_colorful(page) for page in pages):
            raise Quarantined("photograph-of-person", "pixels")

    def _reading(self) -> PageCleaner:
        from medsanitize.sanitize.raster.clean_picture_text import PageCleaner
        from medsanitize.sanitize.text.cleaner import TextCleaner

        if self._reader is None:
            self._reader = PageCleaner(self._policy, TextCleaner(self._policy.text))
        return self._reader

    def _terms(self, context: Context) -> KnownTerms:
        from medsanitize.sanitize.text.known_identifiers import compile_terms

        return compile_terms(context.known)

    def _released(self, picture: RasterFile, context: Context) -> Sanitized:
        pseudonyms, (rows, columns, frames) = self._policy.pseudonyms, picture.size
        rules = (*picture.rules, *["C:burned-in-text"] * picture.regions)
        record = ObjectRecord(
            Outcome.RELEASED,
            "raster",
            rules=dict(sorted(Counter(rules).items())),
            patient=context.pseudonym or patient_pseudonym(self._keys, pseudonyms, context.patient),
            instance=remap_uid(self._keys, pseudonyms.uid_root, f"raster/{context.object_key}"),
            rows=rows,
            columns=columns,
            frames=frames,
            # Derived from the key of the object, not from its content: equal images stay distinct.
            pixels=CheckResult.PASSED if self._reads() else CheckResult.NOT_RUN,
            pixel_regions_cleaned=picture.regions,
            # Nothing here detects faces in plain images.
            faces=CheckResult.NOT_RUN,
        )
        file = OutFile(f".{SUFFIXES[picture.form]}", (picture.data,))
        return Sanitized(record, (file,), review_items=picture.review_items)


def _decoded(stream: bytes) -> NDArray[Any]:
    """Decode a JPEG to an array of shape (rows, columns, channels) and type uint8."""
    from io import BytesIO

    import numpy as np
    from PIL import Image

    try:
        with Image.open(BytesIO(stream), formats=("JPEG",)) as image:
            return np.array(image).reshape(image.height, image.width, -1)
    except (OSError, SyntaxError, ValueError):
        raise Quarantined("pixels-undecodable", "pixels") from None


def _require_blanked(
    before: Sequence[NDArray[Any]],
    after: Sequence[NDArray[Any]],
    again: Sequence[NDArray[Any]],
    areas: dict[int, tuple[Area, ...]],
) -> None:
    """Require that the written file, read again, is unchanged outside the areas and decided by it inside.

    ``again`` are the pages of the written file, blanked once more.
    """
    import numpy as np
    from medsanitize.sanitize.formats.ground import mask_of

    for number, (old, new, twice) in enumerate(zip(before, after, again, strict=True)):
        floating = old.dtype.kind == "f"
        kept = ~mask_of(areas.get(number, ()), old.shape)
        sound = old.shape == new.shape and np.array_equal(old[kept], new[kept], equal_nan=floating)
        if not sound or not np.array_equal(new, twice, equal_nan=floating):
            raise Quarantined("pixels-not-rewritten", "pixels")
