"""Content items of reports that say who the subject is (PS3.16 TID 1007): they go as a whole.

The attributes that hold the same facts outside reports have rows of their own in Table E.1-1.
"""

from __future__ import annotations

import re

from medsanitize.sanitize.dicom.encoding import Layout
from medsanitize.sanitize.dicom.structure import read_header

CONTENT_SEQUENCE, _CONCEPT_NAME, _MEASURED_VALUE = 0x0040A730, 0x0040A043, 0x0040A300
_SUBJECT_NAME, _SUBJECT_ID, _BIRTH_DATE, _AGE = b"121029", b"121030", b"121031", b"121033"
_CONCEPT = re.compile(rb"(?<!\d)(121029|121030|121031|121033)(?!\d)")
_NUMBER = re.compile(rb"(?<![\d.])\d{2,}")
_OLDEST = 89


def says_who(item: list[bytes], layout: Layout, *, ages_kept: bool) -> bool:
    """Whether a rewritten content item names, numbers or dates its subject.

    An age stays where the policy keeps ages and no number of the item is over 89.
    """
    chunks = {read_header(chunk, 0, len(chunk), layout)[0]: chunk for chunk in item}
    concept = _CONCEPT.search(chunks.get(_CONCEPT_NAME, b""))
    if concept is None:
        return False
    if concept[1] != _AGE or not ages_kept:
        return True
    return any(int(number) > _OLDEST for number in _NUMBER.findall(chunks.get(_MEASURED_VALUE, b"")))
