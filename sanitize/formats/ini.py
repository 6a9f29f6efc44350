"""INI files of slides, read strictly and written from known keys and values only."""

from __future__ import annotations

import re
from collections.abc import Mapping

from medsanitize.sanitize.quarantine import Quarantined

_MOST_BYTES = 4 << 20
# Bounded digits: longer numbers are implausible and could encode an identifier.
WHOLE = re.compile(r"-?\d{1,10}")
REAL = re.compile(r"-?\d{1,12}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?")
Sections = dict[str, dict[str, str]]


def read_ini(data: bytes) -> Sections:
    """Read sections and their keys; of a repeated key the first value counts.

    Raises
    ------
    Quarantined
        ``slide-description-too-large`` above 4 MiB.
    """
    if len(data) > _MOST_BYTES:
        raise Quarantined("slide-description-too-large", "description")
    sections: Sections = {}
    current: dict[str, str] = {}
    for line in data.decode("utf-8-sig", "replace").splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            current = sections.setdefault(line[1:-1], {})
        elif "=" in line and not line.startswith((";", "#")):
            key, value = line.split("=", 1)
            current.setdefault(key.strip(), value.strip())
    return sections


def write_ini(sections: Mapping[str, Mapping[str, object]]) -> bytes:
    """Write an INI file with byte order mark and CRLF, as 3DHISTECH's programs do."""
    lines: list[str] = []
    for name, pairs in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in pairs.items())]
    # Values are numbers and known words; a value that is not ASCII is a defect and must fail.
    return b"\xef\xbb\xbf" + "\r\n".join([*lines, ""]).encode("ascii")


def select_pairs(pairs: Mapping[str, str], forms: Mapping[str, re.Pattern[str]]) -> dict[str, object]:
    """Return the pairs whose key is in ``forms`` and whose value matches its pattern."""
    return {key: pairs[key] for key, form in forms.items() if form.fullmatch(pairs.get(key, ""))}


def read_whole_number(pairs: Mapping[str, str], key: str, most: int) -> int:
    """Return the required number of ``key``, from 0 to ``most``.

    Raises
    ------
    Quarantined
        ``slide-description`` if it is missing or out of range.
    """
    value = pairs.get(key, "")
    if not re.fullmatch(r"\d{1,9}", value) or int(value) > most:
        raise Quarantined("slide-description", "description")
    return int(value)
