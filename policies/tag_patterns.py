"""Attribute names in a policy: keyword, tag or tag mask, normalized to one form."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from medsanitize.policies.tables.standard import confidentiality_rows, table_vrs

_MASK = re.compile(r"[0-9a-fx]{8}")
_KEYWORD = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
_FORMS = "Write a keyword such as StudyDescription, a tag such as '(0008,1030)', or a mask such as '60xx3000'"


@dataclass(frozen=True, slots=True)
class InvalidTagPattern:
    """Why a name is not an attribute, and what to write instead."""

    message: str
    remedy: str


def parse_tag_pattern(name: str) -> str | InvalidTagPattern:
    """Normalize a name to ``ggggeeee``: lower-case hexadecimal digits, ``x`` for any digit.

    Parameters
    ----------
    name : str
        Keyword, ``(gggg,eeee)`` or ``ggggeeee``, the last two with ``x`` for any digit.

    Returns
    -------
    str or InvalidTagPattern
        The mask, or why there is none.
    """
    bare = name.lower()
    if bare.startswith("(") and bare.endswith(")") and bare[5:6] == ",":
        bare = bare[1:5] + bare[6:-1]
    if _MASK.fullmatch(bare):
        return _allowed(bare)
    if not _KEYWORD.fullmatch(name):
        return InvalidTagPattern("Not an attribute name or tag", _FORMS)
    # The table first: most policies then do not import pydicom's dictionary.
    found = _table_keywords().get(name) or _dictionary().get(name)
    if found is not None:
        return _allowed(found)
    near = difflib.get_close_matches(name, _dictionary(), n=1, cutoff=0.75)
    return InvalidTagPattern("Unknown attribute keyword", f"Did you mean {near[0]}?" if near else _FORMS)


def dictionary_vr(name_mask: str) -> str:
    """Return the VR of a mask without ``x`` from the dictionary, or an empty text."""
    from pydicom.datadict import dictionary_VR

    try:
        tag = int(name_mask, 16)
    except ValueError:
        return ""
    try:
        return dictionary_VR(tag)
    except KeyError:
        return table_vrs().get(tag, "")


def display_name(mask: str) -> str:
    """Return the keyword of a mask, or the mask as a tag."""
    return _keywords().get(mask) or f"({mask[:4]},{mask[4:]})"


def keyword_masks() -> Mapping[str, str]:
    """Return the mask of every keyword of the data dictionary and of Table E.1-1, without private ones."""
    return {name: mask for name, mask in {**_dictionary(), **_table_keywords()}.items() if _is_public(mask)}


def _is_public(mask: str) -> bool:
    return not isinstance(_allowed(mask), InvalidTagPattern)


def _allowed(found: str) -> str | InvalidTagPattern:
    group = found[:4]
    # The block number of private elements differs by file (PS3.5 7.8.1); only the creator identifies them.
    if "x" not in group and int(group, 16) % 2:
        return InvalidTagPattern(
            "A private attribute cannot be identified by its block",
            "Set its private creator in dicom.safe_private",
        )
    if group in ("0000", "0002", "fffe"):
        return InvalidTagPattern(
            f"Group {group} is not part of the data set and is always regenerated", "Delete this line"
        )
    return found


@cache
def _keywords() -> dict[str, str]:
    return {mask: name for name, mask in {**_dictionary(), **_table_keywords()}.items()}


@cache
def _table_keywords() -> dict[str, str]:
    """Keywords of PS3.15 Table E.1-1, which suffice for most policies."""
    return {row.keyword: row.mask for row in confidentiality_rows() if row.mask != "private"}


@cache
def _dictionary() -> dict[str, str]:
    from pydicom._dicom_dict import DicomDictionary, RepeatersDictionary

    masks = {row[4]: pattern.lower() for pattern, row in RepeatersDictionary.items() if row[4]}
    return masks | {row[4]: f"{tag:08x}" for tag, row in DicomDictionary.items() if row[4]}
