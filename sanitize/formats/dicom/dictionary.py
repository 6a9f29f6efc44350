"""Value representations and value multiplicities of PS3.6.

Attributes of Table E.1-1 that the installed pydicom does not know yet have the VR of the table.
"""

from __future__ import annotations

from functools import cache

from medsanitize.policies.tables.standard import table_vrs
from medsanitize.sanitize.formats.dicom.transfer_syntax import BULK_VRS, NUMBER_SIZES, STRING_VRS


@cache
def dictionary() -> dict[int, tuple[bytes, ...]]:
    """Return public tags -> the VRs that PS3.6 allows."""
    from pydicom._dicom_dict import DicomDictionary

    known = {tag: tuple(vr.encode() for vr in row[0].split(" or ")) for tag, row in DicomDictionary.items()}
    return {tag: (vr.encode(),) for tag, vr in table_vrs().items()} | known


@cache
def most_values(tag: int) -> int | None:
    """Return the largest number of values that PS3.6 allows for an attribute; None if it sets no limit."""
    from pydicom._dicom_dict import DicomDictionary

    last = DicomDictionary[tag][1].split("-")[-1] if tag in DicomDictionary else "n"
    return int(last) if last.isdigit() else None


@cache
def least_values(tag: int) -> int:
    """Return the smallest number of values that PS3.6 allows for an attribute."""
    from pydicom._dicom_dict import DicomDictionary

    first = DicomDictionary[tag][1].split("-")[0] if tag in DicomDictionary else "1"
    return int(first) if first.isdigit() else 1


@cache
def times_of_dates() -> dict[int, int]:
    """Return the tag of each DA attribute -> that of the TM attribute which states its time of day.

    Their keywords differ in one word (StudyDate, StudyTime; DateOfSecondaryCapture,
    TimeOfSecondaryCapture). A time that precedes its date in the data set is left out: the one such pair is
    of a device.
    """
    from pydicom._dicom_dict import DicomDictionary

    times = {row[4]: tag for tag, row in DicomDictionary.items() if row[0] == "TM"}
    dates = {row[4].replace("Date", "Time"): tag for tag, row in DicomDictionary.items() if row[0] == "DA"}
    return {tag: times[name] for name, tag in dates.items() if times.get(name, 0) > tag}


def effective_vr(tag: int, written: bytes) -> bytes | None:
    """Return the VR by which a public element is read.

    Parameters
    ----------
    tag : int
        Group and element number.
    written : bytes
        VR in the file; empty in implicit VR.

    Returns
    -------
    bytes or None
        None if the written VR cannot encode the attribute. Unknown attributes keep the written VR.
    """
    allowed = dictionary().get(tag)
    if allowed is None or written in allowed:
        return written
    if written in (b"UN", b""):
        # NONE marks items and delimiters, which are no elements.
        return allowed[0] if allowed[0] != b"NONE" else None
    # A wrong VR of the same encoding is common. Text is read by the VR of the dictionary, so its rules apply.
    first = allowed[0]
    if first in STRING_VRS and (written in STRING_VRS or written == b"OB"):
        return first
    if NUMBER_SIZES.get(first, 0) and NUMBER_SIZES.get(first) == NUMBER_SIZES.get(written):
        return written
    if first in BULK_VRS and written in BULK_VRS:
        return written
    return None
