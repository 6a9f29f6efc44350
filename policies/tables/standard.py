"""Read the generated tables of the standard. README.md states their editions and sources."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

TYPES = ("1", "1C", "2", "2C", "3")
"""Attribute types of PS3.5 7.4, strongest first."""

OPTION_COLUMNS = (
    "retain_safe_private",
    "retain_uids",
    "retain_device_identity",
    "retain_institution_identity",
    "retain_patient_characteristics",
    "retain_longitudinal_full_dates",
    "retain_longitudinal_modified_dates",
    "clean_descriptors",
    "clean_structured_content",
    "clean_graphics",
)
"""Option columns of Table E.1-1, named as the fields of ``policies.model.Options``."""

Level = Mapping[int, "tuple[str, Level]"]
"""Attributes of one level: tag -> (type, attributes of its items)."""

_NOTHING: Level = MappingProxyType({})
_WEAKER_TYPE = (1, 1, 3, 3, 4)
"""Index of a type in ``TYPES`` -> its index if the module itself may be absent."""


@dataclass(frozen=True, slots=True)
class ConfidentialityRow:
    """A row of PS3.15 Table E.1-1.

    Attributes
    ----------
    mask : str
        ``ggggeeee`` in lower-case hexadecimal digits with ``x`` for any digit, or ``private`` for all odd
        groups.
    keyword : str
        Keyword of the data dictionary; the name without spaces if there is none.
    vr : str
        Value representation of PS3.6, the first one if there are several; empty for the private row and for
        curves.
    basic : str
        Action code of the Basic Profile, including compound codes such as ``X/Z/U*``.
    options : mapping of str to str
        Name in ``OPTION_COLUMNS`` -> ``K`` or ``C``, only for options that change the action.
    """

    mask: str
    keyword: str
    vr: str
    basic: str
    options: Mapping[str, str]


@cache
def private_sop_classes() -> frozenset[str]:
    """Return the UIDs of documented private storage classes, which name a manufacturer and nothing else."""
    text = (files(__package__) / "private_sop_classes.csv").read_text(encoding="utf-8")
    return frozenset(row["uid"] for row in csv.DictReader(text.splitlines()))


@cache
def confidentiality_rows() -> tuple[ConfidentialityRow, ...]:
    """Return all rows of PS3.15 Table E.1-1 of the `edition`, ordered by mask."""
    lines = _read("confidentiality.csv").splitlines()
    return tuple(
        ConfidentialityRow(
            mask=row["mask"],
            keyword=row["keyword"],
            vr=row["vr"],
            basic=row["basic"],
            options=MappingProxyType({name: row[name] for name in OPTION_COLUMNS if row[name]}),
        )
        for row in csv.DictReader(lines)
    )


@cache
def edition() -> str:
    """Return the edition of PS3.15 whose Tables E.1-1 and E.3.10-1 are applied, for example ``2026d``."""
    return _read("edition.txt").strip()


@cache
def table_vrs() -> Mapping[int, str]:
    """Return tag -> VR of the attributes of Table E.1-1 that are not in repeating groups."""
    rows = confidentiality_rows()
    return MappingProxyType({int(row.mask, 16): row.vr for row in rows if row.vr and "x" not in row.mask})


@dataclass(frozen=True, slots=True)
class IodModule:
    """A module of an IOD.

    Attributes
    ----------
    name : str
        For example ``general-series``.
    usage : str
        ``M``, ``U`` or ``C``.
    attributes : Level
        Its attributes; those of a Functional Group macro are within both sequences of groups.
    """

    name: str
    usage: str
    attributes: Level


def iod_modules(sop_class_uid: str) -> tuple[IodModule, ...] | None:
    """Return the modules of the IOD of a storage SOP class; None for an unknown class."""
    tables = _iods()
    entry = tables["sop_classes"].get(sop_class_uid)
    if entry is None:
        return None
    return tuple(
        IodModule(name, usage, _level(tables["modules"][name])) for name, usage in tables["iods"][entry[1]]
    )


@cache
def _level(index: int) -> Level:
    flat = _iods()["attributes"][index]
    triples = (flat[start : start + 3] for start in range(0, len(flat), 3))
    return MappingProxyType(
        {tag: (TYPES[kind], _level(items) if items >= 0 else _NOTHING) for tag, kind, items in triples}
    )


@cache
def types_of_attributes() -> Mapping[str, frozenset[str]]:
    """Return the Types that attributes have in any IOD and at any depth, by mask."""
    found: dict[str, set[str]] = {}
    for flat in _iods()["attributes"]:
        for tag, kind in zip(flat[::3], flat[1::3], strict=True):
            found.setdefault(f"{tag:08x}", set()).add(TYPES[kind])
    return MappingProxyType({mask: frozenset(types) for mask, types in found.items()})


# A release contains few SOP classes.
@lru_cache(maxsize=32)
def attribute_types(sop_class_uid: str) -> Mapping[tuple[int, ...], str] | None:
    """Return the type of every attribute in the IOD of a SOP class.

    Parameters
    ----------
    sop_class_uid : str
        A storage SOP class.

    Returns
    -------
    Mapping or None
        Path of tags, outermost sequence first -> strongest type over the modules of the IOD; None for an
        unknown class. The type of a path presumes that its parents are present. Modules of usage U or C
        weaken 1 to 1C and 2 to 2C at the top level only: inside a present sequence the module is present. A
        repeating group is listed as its first group (0x6000, 0x5000).
    """
    tables = _iods()
    entry = tables["sop_classes"].get(sop_class_uid)
    if entry is None:
        return None
    found: dict[tuple[int, ...], int] = {}
    for module, usage in tables["iods"][entry[1]]:
        start = tables["attributes"][tables["modules"][module]]
        _collect(tables["attributes"], start, (), usage != "M", found)
    return MappingProxyType({path: TYPES[kind] for path, kind in found.items()})


@cache
def sop_class_names() -> Mapping[str, str]:
    """Return storage SOP class UID -> name, for all classes that `attribute_types` knows."""
    return MappingProxyType({uid: entry[0] for uid, entry in _iods()["sop_classes"].items()})


def _collect(
    lists: list[list[int]],
    flat: list[int],
    above: tuple[int, ...],
    weaken: bool,
    found: dict[tuple[int, ...], int],
) -> None:
    # Each level is a flat list of triples: tag, type index, index of the list of its items or -1.
    for start in range(0, len(flat), 3):
        tag, kind, items = flat[start : start + 3]
        path = (*above, tag)
        if weaken:
            kind = _WEAKER_TYPE[kind]
        found[path] = min(kind, found.get(path, kind))
        if items >= 0:
            # Inside a present sequence the module is present, so nothing is weakened.
            _collect(lists, lists[items], path, False, found)


@cache
def _iods() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_read("iods.json"))
    return content


def _read(name: str) -> str:
    return files("medsanitize.policies.tables").joinpath(name).read_text(encoding="utf-8")
