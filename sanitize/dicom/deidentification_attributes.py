"""De-identification attributes (PS3.15 E.1.1; PS3.16 CID 7050) as they apply to an object."""

from __future__ import annotations

from medsanitize.policies.model import BASIC_PROFILE_CODE, OPTION_CODES, Dicom
from medsanitize.policies.tables.standard import edition
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout, encode_element

IDENTITY_REMOVED, METHOD, METHOD_CODES, TEMPORAL = 0x00120062, 0x00120063, 0x00120064, 0x00280303
# Names, other IDs, address and telephone numbers of the patient.
_IDENTIFYING = frozenset(["00100010", "00101000", "00101001", "00101005", "00101040", "00101060", "00102154"])
_METHOD = "medsanitize: Basic Application Level Confidentiality Profile\\DICOM PS3.15 {}, Table E.1-1"
_WEAKENED = "\\{} rows of the table are kept or cleaned by the policy"
FEATURES = 0x00280302


def deidentification_elements(
    layout: Layout, dicom: Dicom, claims: frozenset[str], weakened: int
) -> dict[int, bytes]:
    """Return the de-identification elements of an object.

    Parameters
    ----------
    layout : Layout
    dicom : Dicom
        Section of the policy.
    claims : frozenset of str
        Options that hold for the object (`claimed_options`).
    weakened : int
        Number of rows of the table that the policy keeps or cleans although neither profile nor options do.

    Returns
    -------
    dict of int to bytes
        Encoded elements. Longitudinal Temporal Information Modified and Recognizable Visual Features are
        empty: their values are known only after the object has been rewritten.
    """
    # An object whose policy keeps a name or number of the patient must not claim YES.
    kept = any(action == "K" and mask in _IDENTIFYING for mask, action in dicom.attributes.items())
    method = _METHOD.format(edition()) + (_WEAKENED.format(weakened) if weakened else "")
    return {
        IDENTITY_REMOVED: encode_element(layout, IDENTITY_REMOVED, b"CS", b"NO" if kept else b"YES"),
        METHOD: encode_element(layout, METHOD, b"LO", method.encode("ascii")),
        METHOD_CODES: method_codes(layout, claims),
        TEMPORAL: b"",
        FEATURES: b"",
    }


def profile_codes(
    claims: frozenset[str], *, pixels_read: bool = False, face_cut: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return the codes of the Basic Profile and of each option that was applied to an object (CID 7050).

    Parameters
    ----------
    claims : frozenset of str
        Options that hold for the object, without those of the pixels.
    pixels_read : bool
        Whether the pixels were read for text: only then Clean Pixel Data is claimed.
    face_cut : bool
        Whether a face was removed: only then Clean Recognizable Visual Features is claimed.

    Returns
    -------
    tuple of (str, str)
        Code Value and Code Meaning.
    """
    used = set(claims)
    used |= {"clean_pixel_data"} if pixels_read else set()
    used |= {"clean_recognizable_visual_features"} if face_cut else set()
    return (BASIC_PROFILE_CODE, *sorted(OPTION_CODES[name] for name in used))


def method_codes(
    layout: Layout, claims: frozenset[str], *, pixels_read: bool = False, face_cut: bool = False
) -> bytes:
    """Encode De-identification Method Code Sequence (0012,0064); parameters as for `profile_codes`."""
    items = []
    for code, meaning in profile_codes(claims, pixels_read=pixels_read, face_cut=face_cut):
        body = (
            encode_element(layout, 0x00080100, b"SH", code.encode())
            + encode_element(layout, 0x00080102, b"SH", b"DCM")
            + encode_element(layout, 0x00080104, b"LO", meaning.encode())
        )
        items.append(layout.tag.pack(0xFFFE, 0xE000, len(body)) + body)
    return encode_element(layout, METHOD_CODES, b"SQ", b"".join(items))


def temporal_information_modified(layout: Layout, claims: frozenset[str], rules: list[str]) -> bytes:
    """Encode Longitudinal Temporal Information Modified (0028,0303).

    Parameters
    ----------
    layout : Layout
    claims : frozenset of str
        Options that hold for the object.
    rules : list of str
        Rules that applied to the object.
    """
    moved = not {"C:date", "D:date", "C:time"}.isdisjoint(rules)
    if "retain_longitudinal_full_dates" in claims and not moved:
        value = b"UNMODIFIED"
    else:
        value = b"MODIFIED" if moved or "retain_longitudinal_modified_dates" in claims else b"REMOVED"
    return encode_element(layout, TEMPORAL, b"CS", value)
