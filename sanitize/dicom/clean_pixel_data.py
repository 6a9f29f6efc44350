"""Clean Pixel Data (PS3.15 E.3.1): reading and blanking of the frames of a DICOM object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from medsanitize.policies.model import Policy
from medsanitize.sanitize.burned_in.areas import areas_outside, fixed_areas, known_areas
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.classify import find_identifying_boxes
from medsanitize.sanitize.burned_in.clean import CleanedFrames, clean_frames
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions, FrameAreas
from medsanitize.sanitize.burned_in.device import Device
from medsanitize.sanitize.burned_in.drawn_planes import DrawnPlane, areas_with_planes
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.review_images import whole_image_item
from medsanitize.sanitize.burned_in.second_reader import confirmation
from medsanitize.sanitize.context import ReviewDecision
from medsanitize.sanitize.dicom.assemble import put_element, raw_value
from medsanitize.sanitize.dicom.display_attributes import read_palette, ultrasound_regions
from medsanitize.sanitize.formats.dicom.file import DicomFile
from medsanitize.sanitize.formats.dicom.frames import StoredFrames, check_image_size
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import (
    DOUBLE_PIXEL_DATA,
    FLOAT_PIXEL_DATA,
    PIXEL_DATA,
    WrittenPixels,
)
from medsanitize.sanitize.formats.dicom.transfer_syntax import (
    EXPLICIT_LITTLE,
    TRANSFER_SYNTAXES,
    Layout,
    TransferSyntax,
    encode_element,
    encode_header,
)
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import ReviewItem
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import KnownTerms

NATIVE = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
_PHOTOMETRIC, _PLANAR, _STORED, _HIGH_BIT = 0x00280004, 0x00280006, 0x00280101, 0x00280102
_LOSSY, _ICON = 0x00282110, 0x00880200
_DCT_SYNTAXES = frozenset(f"1.2.840.10008.1.2.4.{last}" for last in (50, 51, 52, 53, 54, 55, 56))
_MAX_VALUE_BYTES = 0xFFFFFFFE


@dataclass(frozen=True, slots=True)
class CleanedPixelData:
    """Cleaned pixels with their new transfer syntax, the number of blanked areas, and review items.

    ``drawn`` has the areas in which text was found when overlay planes were drawn over the pixels.
    """

    pixels: WrittenPixels
    syntax: TransferSyntax
    regions: int
    review_items: tuple[ReviewItem, ...]
    drawn: FrameAreas = field(default_factory=dict)


class PixelCleaner:
    """Reads and blanks the frames of objects by one policy; loads its models with the first frame.

    Parameters
    ----------
    policy : Policy
    cleaner : TextCleaner
        Decides which text identifies.
    """

    def __init__(self, policy: Policy, cleaner: TextCleaner) -> None:
        self._policy = policy
        self._cleaner = cleaner
        self.reader = TextReader()

    def __call__(
        self,
        container: DicomFile,
        out: list[bytes],
        pixels: WrittenPixels,
        geometry: Geometry,
        *,
        device: Device,
        terms: KnownTerms,
        decisions: tuple[ReviewDecision, ...],
        planes: Sequence[DrawnPlane] = (),
        handwritten: bool = False,
    ) -> CleanedPixelData:
        """Blank identifying burned-in text of one object and verify that none is left.

        Parameters
        ----------
        container : DicomFile
        out : list of bytes
            The rewritten elements; changed when the object has to be decompressed.
        pixels : WrittenPixels
            As returned by `write_pixels`.
        geometry : Geometry
        device : Device
        terms : KnownTerms
            Identifiers of the patient and study.
        decisions : tuple of ReviewDecision
        planes : sequence of DrawnPlane
            Overlay planes that are released with the pixels.
        handwritten : bool
            Whether the image is a review item because it may show handwriting.

        Raises
        ------
        Quarantined
            As `clean_frames` and `known_areas` do; ``pixels-too-large`` before anything is decoded.
        """
        layout, limits = container.syntax.layout, self._policy.dicom.limits
        geometry = _really(geometry, pixels.tag)
        check_image_size(geometry, limits)
        stored = StoredFrames(container.buf, pixels, layout, container.syntax, geometry)
        image = ImageFrames(stored, container.syntax, geometry, read_palette(out, layout, geometry))
        order = self._order(out, layout, geometry, device, terms, decisions)
        if planes:
            order = replace(order, found=areas_with_planes(image, planes, order, self.reader))
        decompress = self._policy.pixels.lossy == "decompress"
        shown = handwriting_item(image) if handwritten else ()
        cleaned = clean_frames(
            image, order, self.reader, decompress=decompress, most_bytes=limits.inflated_bytes
        )
        items = (*shown, *cleaned.review_items)
        if not cleaned.regions:
            return CleanedPixelData(pixels, container.syntax, 0, items)
        put_element(out, layout, _ICON, None)  # it would still show what is blanked
        if cleaned.frames:
            made, syntax = decompressed_pixels(out, pixels, geometry, cleaned, container.syntax), NATIVE
        else:
            made, syntax = stored.finish(), container.syntax
        made.rules = [*pixels.rules, *["C:burned-in-text"] * cleaned.regions]
        return CleanedPixelData(made, syntax, cleaned.regions, items, order.found)

    def _order(
        self,
        out: list[bytes],
        layout: Layout,
        geometry: Geometry,
        device: Device,
        terms: KnownTerms,
        decisions: tuple[ReviewDecision, ...],
    ) -> CleaningOptions:
        """Options of the policy for this object."""
        rules = self._policy.pixels
        fixed = fixed_areas(rules.regions, device, geometry)
        fixed += known_areas(device, geometry) if rules.known_devices else ()
        if rules.mask == "outside-ultrasound-regions":
            regions = ultrasound_regions(out, layout, geometry)
            fixed += areas_outside(regions, (geometry.rows, geometry.columns)) if regions else ()

        screen = geometry.rows if device.is_screen else None

        def judge(boxes: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
            return find_identifying_boxes(boxes, self._cleaner, terms, screen_rows=screen)

        return CleaningOptions(judge, rules.mask == "all-text", fixed, decisions, confirmation(rules))


def handwriting_item(image: ImageFrames) -> tuple[ReviewItem, ...]:
    """Return a review item with the first frame of an image that may show handwriting."""
    frame = image.stored.frame(0)
    return tuple(whole_image_item(one) for one in image.pictures(image.samples(frame), frame)[:1])


def _really(geometry: Geometry, tag: int) -> Geometry:
    """Geometry of float pixel data: fixed sample size, one sample per pixel (PS3.3 C.7.6.24, C.7.6.25)."""
    bits = {FLOAT_PIXEL_DATA: 32, DOUBLE_PIXEL_DATA: 64}.get(tag)
    if bits is None:
        return geometry
    return replace(geometry, bits_allocated=bits, bits_stored=bits, samples=1, floating=True)


def decompressed_pixels(
    out: list[bytes],
    pixels: WrittenPixels,
    geometry: Geometry,
    cleaned: CleanedFrames,
    syntax: TransferSyntax,
) -> WrittenPixels:
    """Encode decompressed frames as native pixel data and change the header accordingly (PS3.5 8.2).

    Parameters
    ----------
    out : list of bytes
        The rewritten elements; changed in place.
    pixels : WrittenPixels
        The compressed pixel data.
    geometry : Geometry
    cleaned : CleanedFrames
        The decompressed frames.
    syntax : TransferSyntax
        That of the source.

    Raises
    ------
    Quarantined
        ``pixels-too-large`` for the length field of native pixel data.
    """
    layout = EXPLICIT_LITTLE
    put_element(
        out, layout, _PHOTOMETRIC, encode_element(layout, _PHOTOMETRIC, b"CS", cleaned.model.encode("ascii"))
    )
    if geometry.samples > 1:
        put_element(out, layout, _PLANAR, _number(_PLANAR, 0))
    put_element(out, layout, _STORED, _number(_STORED, cleaned.precision))
    put_element(out, layout, _HIGH_BIT, _number(_HIGH_BIT, cleaned.precision - 1))
    # Pixels remain lossy after decompression, and the attribute must say so (PS3.3 C.7.6.1.1.5).
    if syntax.uid in _DCT_SYNTAXES and not raw_value(out, layout, _LOSSY):
        put_element(out, layout, _LOSSY, encode_element(layout, _LOSSY, b"CS", b"01"))
    size = sum(len(frame) for frame in cleaned.frames)
    if size > _MAX_VALUE_BYTES:
        raise Quarantined("pixels-too-large", "pixels")
    vr = b"OW" if geometry.bits_allocated > 8 else b"OB"
    pieces = [encode_header(layout, PIXEL_DATA, vr, size + (size & 1)), *cleaned.frames, b"\0" * (size & 1)]
    return WrittenPixels(list(pieces), pixels.rules, pixels.end, pixels.tag)


def _number(tag: int, value: int) -> bytes:
    return encode_element(EXPLICIT_LITTLE, tag, b"US", value.to_bytes(2, "little"))
