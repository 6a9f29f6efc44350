"""Attributes, code sequences and report concepts that contain identifiers.

They follow PS3.15 Table E.1-1; added are retired attributes and the numbers of orders and devices.
"""

from __future__ import annotations

from typing import Final

Coded = tuple[str, str] | None
"""Categories of Code Value and Code Meaning in the items of a sequence."""

_ATTRIBUTES: Final = {
    "id": "00080050 00100020 00101000 00102295 00200010 00401001 00401006 00401007 00400009 00400253 "
    "00380010 00402006 00402007 00402016 00402017 00181000 00120040 00120042 00101090 00380060 "
    "0040050A 00400512 00400551",
    "label": "00101050 00101080 00160051 00181003 00181004 00181005 00181006 00181007 00181008 00181009 "
    "00181010 0018700A 00189367 00189371 00189373 00203401 30080105 3010001B 3010002D 30100043 "
    "00440012 01000426 00081010 00080054 00080055 00081000 00321021 00400001 00400010 00400241 "
    "00400242 00741234 00741236 21000070 21000140 04000563 300A00B2 30020020 00120020 00120030 "
    "00120071 00120082 004006FA 0050001B 22000005 40080040 40080200 00400032",
    "address": "00101040 00080081 00080092 0040A353 00401102 4008011A",
    "phone": "00102154 00102155 00080094 00401103 00401104 00402010 00402011 0040A354",
    "institution": "00080080",
    "organization": "00081040 00100021 00101081 00102299 00120010 00120031 00120060 00120081 00321033 "
    "00320012 00380011 00380061 00400031 00404036 0040A027 04000564 40080042 40080202",
    "place": "00102150 00102152 00321020 0038001E 00380300 00380400 00400011 00400243 00401005 00402009",
    "name": "0016004D 0074100C 00880910",
    "uid": "0020000D 0020000E 00200052",
}
CATEGORY: Final = {int(tag, 16): name for name, tags in _ATTRIBUTES.items() for tag in tags.split()}
"""Tag -> category of `medsanitize.sanitize.context.KnownValue`; names and dates are found by their VR."""
CODED: Final = {
    0x00401101: ("label", "name"),
    0x0040A088: ("label", "name"),
    0x0040A358: ("label", "name"),
    0x00080082: ("label", "organization"),
}
"""Sequences whose codes identify a person or an organization -> categories of Code Value and Code Meaning."""
_CONCEPTS: Final = {
    "id": "121020 121021 121022 121030",
    "label": "110119 121013 121016 128774",
    "name": "121008 121029 121114",
    "organization": "121009",
    "place": "121017",
}
CONCEPT_CATEGORY: Final = {code: name for name, codes in _CONCEPTS.items() for code in codes.split()}
"""Concept code (PS3.16, DCM) -> category of the value of text content items with this concept."""
