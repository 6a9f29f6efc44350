"""The de-identification attributes of the standard (PS3.15 E.1, CID 7050), set truthfully."""

from __future__ import annotations

from medsanitize.policies.model import OPTION_CODES, Dicom, Options
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout, encode_element

IDENTITY_REMOVED, METHOD, METHOD_CODES, TEMPORAL = 0x00120062, 0x00120063, 0x00120064, 0x00280303
_DIRECT = frozenset(["00100010", "00101000", "00101001", "00101005", "00101040", "00101060", "00102154"])
"""Names, other ids, address and phone of the patient."""
METHOD_TEXT = b"medsanitize: PS3.15 Basic Application Confidentiality Profile"
FEATURES = 0x00280302
_NOT_MADE = frozenset(["clean_pixel_data", "clean_recognizable_visual_features"])


def deidentification_elements(layout: Layout, dicom: Dicom) -> dict[int, bytes]:
    """The statement's elements; ``TEMPORAL`` is known only once an object is done.

    Recognizable Visual Features is taken out until it is known whether anybody looked; an IOD that requires
    it keeps the source's word. Identity counts as removed
    unless the policy itself keeps a person's name or number.
    """
    kept = any(action == "K" and mask in _DIRECT for mask, action in dicom.attributes.items())
    return {
        IDENTITY_REMOVED: encode_element(layout, IDENTITY_REMOVED, b"CS", b"NO" if kept else b"YES"),
        METHOD: encode_element(layout, METHOD, b"LO", METHOD_TEXT),
        METHOD_CODES: method_codes(layout, dicom.options),
        TEMPORAL: b"",
        FEATURES: b"",
    }


def profile_codes(
    options: Options, *, pixels_read: bool = False, face_cut: bool = False
) -> tuple[tuple[str, str], ...]:
    """(code, meaning) of the Basic Profile and of each option that was really applied to an object.

    Options whose work is done by quarantine alone claim nothing. Clean Pixel Data is claimed by the objects
    alone whose pixels were read for text (``pixels_read``), Clean Recognizable Visual Features by those alone
    whose face was cut off (``face_cut``).
    """
    made = _NOT_MADE - {"clean_pixel_data"} if pixels_read else _NOT_MADE
    used = [OPTION_CODES[name] for name, on in options if on and name not in made]
    if face_cut:
        used.append(OPTION_CODES["clean_recognizable_visual_features"])
    return (("113100", "Basic Application Confidentiality Profile"), *sorted(used))


def method_codes(
    layout: Layout, options: Options, *, pixels_read: bool = False, face_cut: bool = False
) -> bytes:
    """De-identification Method Code Sequence."""
    items = []
    for code, meaning in profile_codes(options, pixels_read=pixels_read, face_cut=face_cut):
        body = (
            encode_element(layout, 0x00080100, b"SH", code.encode())
            + encode_element(layout, 0x00080102, b"SH", b"DCM")
            + encode_element(layout, 0x00080104, b"LO", meaning.encode())
        )
        items.append(layout.tag.pack(0xFFFE, 0xE000, len(body)) + body)
    return encode_element(layout, METHOD_CODES, b"SQ", b"".join(items))


def temporal_information_modified(layout: Layout, options: Options, rules: list[str]) -> bytes:
    """Longitudinal Temporal Information Modified: what became of the dates of this very object."""
    moved = "C:date" in rules or "D:date" in rules
    if options.retain_longitudinal_full_dates:
        value = b"UNMODIFIED"
    else:
        value = b"MODIFIED" if moved or options.retain_longitudinal_modified_dates else b"REMOVED"
    return encode_element(layout, TEMPORAL, b"CS", value)
