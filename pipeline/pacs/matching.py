"""Whether a PACS answered what it was asked: one that ignores a key answers with everything."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from pydicom.datadict import dictionary_VR

Answer = Mapping[str, tuple[str, ...]]
"""What a PACS says of one study, series or instance: keyword to values, empty where it gives none."""


def ignored(keys: Mapping[str, str], answer: Answer) -> str | None:
    """The first keyword that an answer does not match, or None.

    Names of persons and times of day are left to the peer, whose rules for them may be its own.
    """
    return next((key for key, asked in keys.items() if not _matches(key, asked, answer.get(key, ()))), None)


def _matches(keyword: str, asked: str, values: tuple[str, ...]) -> bool:
    asked = asked.strip()
    vr = dictionary_VR(keyword)
    if not asked.strip("*") or vr in ("PN", "TM"):
        return True
    if vr == "DA":
        first, dash, last = asked.partition("-")
        return any(first <= value and value <= (last or ("99999999" if dash else first)) for value in values)
    pattern = asked.casefold().replace("[", "[[]")
    return any(fnmatchcase(value.strip().casefold(), pattern) for value in values)
