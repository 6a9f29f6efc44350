"""The object function for PNG, JPEG and TIFF files: bytes in, a file of pixels alone and its record out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context, Peek
from medsanitize.sanitize.dicom.pseudonyms import patient_pseudonym, remap_uid
from medsanitize.sanitize.dicom.refusal import Refused
from medsanitize.sanitize.keys import SubKeys
from medsanitize.sanitize.objects import Sanitized
from medsanitize.sanitize.raster.gather import gather
from medsanitize.sanitize.raster.jpeg import read_jpeg
from medsanitize.sanitize.raster.png import read_png
from medsanitize.sanitize.raster.sniff import SUFFIXES, Buffer, Format, sniff
from medsanitize.sanitize.raster.tiff import is_slide_file, read_tiff
from medsanitize.sanitize.raster.tiff_pixels import without_unused
from medsanitize.sanitize.record import Check, Finding, Outcome, Record


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """A picture free of metadata: the file, its size in pixels and pages, what was removed."""

    data: bytes
    rows: int
    columns: int
    frames: int
    rules: tuple[str, ...]


def is_raster(data: Buffer) -> bool:
    """Whether the bytes are a PNG, JPEG or TIFF file, and not a DICOM object that is one as well."""
    return sniff(data) is not None and bytes(data[128:132]) != b"DICM"


def peek_raster(data: Buffer) -> Peek | None:
    """What inventory needs of a picture; ``None`` for what is no PNG, JPEG or TIFF file.

    The kind is ``raster``, or ``unreadable`` with the rule ``slide-not-supported`` for whole-slide images.
    """
    form = sniff(data)
    if form is None or not is_raster(data):
        return None
    if form == "tiff" and is_slide_file(data):
        return Peek("unreadable", "slide-not-supported")
    return Peek("raster", known=gather(data, form))


def sanitize_raster(data: Buffer, context: Context, policy: Policy, keys: SubKeys) -> Sanitized:
    """Sanitise one PNG, JPEG or TIFF file.

    Parameters
    ----------
    data : bytes or mmap
    context : Context
        ``patient`` is the picture's own key: a file that names no patient is a patient of its own.
    policy : Policy
    keys : SubKeys
        Sub-keys of the release's scope.

    Returns
    -------
    Sanitized
        Released bytes and record; or a quarantined record that names place and rule.
    """
    try:
        if context.refuse:
            raise Refused(context.refuse)
        if len(data) > policy.dicom.limits.object_bytes:
            raise Refused("object-too-large")
        form = sniff(data)
        if form is None:
            raise Refused("unreadable")
        picture = read_picture(data, form, policy.dicom.limits.inflated_bytes)
        return _released(picture, form, context, policy, keys)
    except Refused as refused:
        return Sanitized(Record(Outcome.QUARANTINED, "raster", (Finding(refused.place, refused.rule),)))


def read_picture(data: Buffer, form: Format, most_bytes: int) -> Picture:
    """Rebuild a picture from what showing it needs; raises ``Refused`` as the readers do."""
    if form == "png":
        png = read_png(data, most_bytes)
        return Picture(png.write(), png.header.rows, png.header.columns, 1, png.rules)
    if form == "jpeg":
        jpeg = read_jpeg(data, most_bytes)
        rows, columns = (jpeg.frame.rows, jpeg.frame.columns) if jpeg.frame else (0, 0)
        return Picture(jpeg.write(), rows, columns, 1, jpeg.rules)
    tiff = without_unused(read_tiff(data, most_bytes))
    first = tiff.pages[0]
    return Picture(tiff.write(), first.rows, first.columns, len(tiff.pages), tiff.rules)


def _released(picture: Picture, form: Format, context: Context, policy: Policy, keys: SubKeys) -> Sanitized:
    if policy.pixels.at_risk == "quarantine" or policy.dicom.options.clean_pixel_data:
        raise Refused("burned-in-text-risk", "pixels")
    pseudonym = context.pseudonym or patient_pseudonym(keys, policy.pseudonyms, context.patient)
    record = Record(
        Outcome.RELEASED,
        "raster",
        rules=dict(sorted(Counter(picture.rules).items())),
        patient=pseudonym,
        instance=remap_uid(keys, policy.pseudonyms.uid_root, f"raster/{context.object_key}"),
        rows=picture.rows,
        columns=picture.columns,
        frames=picture.frames,
        pixels=Check.NOT_MADE,
    )
    return Sanitized(record, (picture.data,), suffix=SUFFIXES[form])
