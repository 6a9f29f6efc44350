"""Generate the tables of the standard: ``python -m medsanitize.tools.standard_tables.generate part15.xml``.

Run by a maintainer after a new edition of the standard or of a source package, never at run time. Requires
the extra ``dev`` (highdicom). Equal sources give equal bytes; README.md lists them.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from medsanitize.errors import UsageError
from medsanitize.policies.tables.standard import OPTION_COLUMNS, TYPES
from medsanitize.tools.standard_tables.part15 import CONFIDENTIALITY, SAFE_PRIVATE, Row, read_table

TABLES = Path(__file__).parents[2] / "policies" / "tables"

SOURCE_COLUMNS: Mapping[str, str] = {
    "retain_safe_private": "rtnSafePrivOpt",
    "retain_uids": "rtnUIDsOpt",
    "retain_device_identity": "rtnDevIdOpt",
    "retain_institution_identity": "rtnInstIdOpt",
    "retain_patient_characteristics": "rtnPatCharsOpt",
    "retain_longitudinal_full_dates": "rtnLongFullDatesOpt",
    "retain_longitudinal_modified_dates": "rtnLongModifDatesOpt",
    "clean_descriptors": "cleanDescOpt",
    "clean_structured_content": "cleanStructContOpt",
    "clean_graphics": "cleanGraphOpt",
}
"""Name of an option column -> its name in the source of Table E.1-1."""

RETIRED_SOP_CLASSES: Mapping[str, tuple[str, str]] = {
    "1.2.840.10008.5.1.4.1.1.3": (
        "Ultrasound Multi-frame Image Storage (Retired)",
        "ultrasound-multi-frame-image",
    ),
    "1.2.840.10008.5.1.4.1.1.5": ("Nuclear Medicine Image Storage (Retired)", "nuclear-medicine-image"),
    "1.2.840.10008.5.1.4.1.1.6": ("Ultrasound Image Storage (Retired)", "ultrasound-image"),
    "1.2.840.10008.5.1.4.1.1.12.3": (
        "X-Ray Angiographic Bi-Plane Image Storage (Retired)",
        "x-ray-angiographic-image",
    ),
}
"""Retired storage classes that archives still contain, with the IOD of their successor."""

Tree = dict[int, tuple[int, "Tree"]]
"""Attributes of one level: tag -> (index of the strongest type in ``TYPES``, attributes of its items)."""


NEW_VRS: Mapping[str, str] = {
    "00100012": "LT",
    "00100047": "UR",
    "00102162": "UC",
    "0040e012": "UR",
}
"""VRs (PS3.6) of attributes that pydicom does not know and whose name does not tell them."""

_VRS_BY_NAME = (("Sequence", "SQ"), ("DateTime", "DT"), ("UID", "UI"), ("Comment", "LT"), ("Date", "DA"))

_CARE: Mapping[str, str] = {
    **dict.fromkeys(("DS", "IS", "FL", "FD", "SL", "SS", "UL", "US", "AT"), "none"),
    **dict.fromkeys(("CS", "LO", "LT", "SH", "ST", "UC", "UT"), "text"),
    **dict.fromkeys(("DA", "DT", "TM"), "date"),
    "UI": "uid",
    "SQ": "items",
}
"""VR of a safe private attribute -> care of its value (`policies.tables.safe_private`); others are opaque."""


def main(argv: list[str] | None = None) -> None:
    """Write the tables of the standard to ``policies/tables``."""
    parser = argparse.ArgumentParser(description="Make the generated tables of the standard.")
    parser.add_argument("part15", type=Path, help="DocBook of PS3.15, or its Table E.1-1 as JSON")
    parser.add_argument("--e3101", type=Path, help="Table E.3.10-1 as JSON (default: of the DocBook)")
    parser.add_argument("--edition", help="edition of the standard (default: as the source states)")
    parser.add_argument(
        "--out", type=Path, default=TABLES, help="folder to write to (default: policies/tables)"
    )
    arguments = parser.parse_args(argv)
    main_table = read_table(arguments.part15, CONFIDENTIALITY)
    private = read_table(arguments.e3101 or arguments.part15, SAFE_PRIVATE)
    edition = arguments.edition or main_table.edition
    if not edition:
        raise UsageError("The table states no edition", "Give it with --edition, for example 2026d")
    written = {
        "confidentiality.csv": confidentiality_csv(main_table.rows),
        "safe_private.csv": safe_private_csv(private.rows),
        "edition.txt": edition + "\n",
        "iods.json": iods_json(),
    }
    for name, content in written.items():
        (arguments.out / name).write_text(content, encoding="utf-8", newline="")


def confidentiality_csv(rows: Iterable[Row]) -> str:
    """Return Table E.1-1 as CSV, ordered by mask.

    Parameters
    ----------
    rows : iterable of mapping
        Rows of the source, with its column names (see ``SOURCE_COLUMNS``).

    Raises
    ------
    UsageError
        The tag of a row has an unknown form.
    """
    known = _known()
    table = []
    for row in rows:
        mask = _mask(row["tag"])
        # New attributes of the standard may be missing in the dictionary of pydicom.
        keyword, vr = known.get(mask) or (_keyword(row["name"]), _new_vr(mask, row))
        options = [row.get(SOURCE_COLUMNS[column], "") for column in OPTION_COLUMNS]
        table.append([mask, keyword, vr, row["basicProfile"], *options])
    return _csv(["mask", "keyword", "vr", "basic", *OPTION_COLUMNS], table)


def safe_private_csv(rows: Iterable[Row]) -> str:
    """Return Table E.3.10-1 as CSV, ordered by group, creator and element.

    Parameters
    ----------
    rows : iterable of mapping
        Rows of the source: ``element`` as ``(gggg,xxee)``, ``creator``, ``vr``, ``vm``.

    Raises
    ------
    UsageError
        The data element of a row has an unknown form.
    """
    table = []
    for row in rows:
        match = re.fullmatch(r"\(([0-9a-f]{4}),xx([0-9a-f]{2})\)", row["element"].lower())
        if match is None:
            raise UsageError(
                "A private row has a data element of unknown form", "Compare it with (gggg,xxee)"
            )
        # OW/OB, and rows without a VR: bytes whose layout the table does not say.
        vr = row["vr"] if len(row["vr"]) == 2 else "UN"
        table.append([match[1], row["creator"], match[2], vr, row["vm"], _CARE.get(vr, "opaque")])
    return _csv(["group", "creator", "element", "vr", "vm", "care"], table)


def _csv(head: list[str], rows: list[list[str]]) -> str:
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(head)
    # Sorted and with fixed line ends, so that the bytes do not depend on the source's order or platform.
    writer.writerows(sorted(rows))
    return target.getvalue()


def iods_json() -> str:
    """Return SOP classes, IODs, modules and attributes as JSON; equal lists of attributes are stored once."""
    modules = {name: _tree(rows) for name, rows in _highdicom("module_attribute_map").items()}
    iods = _highdicom("iod_module_map")
    sop_classes = _highdicom("sop_class_iod_map")
    names = _sop_class_names()
    classes = {
        uid: (names.get(uid, iod.replace("-", " ").title() + " Storage"), iod)
        for uid, iod in sop_classes.items()
    }
    classes.update(RETIRED_SOP_CLASSES)
    used = {module["key"] for iod in iods.values() for module in iod}
    lists: list[list[int]] = []
    seen: dict[tuple[int, ...], int] = {}
    content = {
        "modules": {name: _store(modules.get(name, {}), lists, seen) for name in sorted(used)},
        "iods": {name: [[module["key"], module["usage"]] for module in iods[name]] for name in sorted(iods)},
        "sop_classes": {uid: list(classes[uid]) for uid in sorted(classes)},
        "attributes": lists,
    }
    return json.dumps(content, separators=(",", ":")) + "\n"


def _tree(rows: Iterable[Mapping[str, Any]]) -> Tree:
    """Nest the rows of a module (path of keywords, keyword, type) by tag."""
    root: Tree = {}
    tags = _tags()
    for row in rows:
        level = root
        for keyword in row["path"]:
            # A sequence on the path may have no row itself; it is then optional.
            level = level.setdefault(tags[keyword], (len(TYPES) - 1, {}))[1]
        # Normalized SOP classes state no type; attributes that are not required are optional.
        kind = TYPES.index(row["type"]) if row["type"] in TYPES else TYPES.index("3")
        tag = tags[row["keyword"]]
        before = level.get(tag, (kind, {}))
        # Of several rows for one attribute the strongest type counts: types are ordered by strength.
        level[tag] = (min(kind, before[0]), before[1])
    return root


def _store(tree: Tree, lists: list[list[int]], seen: dict[tuple[int, ...], int]) -> int:
    """Append a level as flat list (tag, type, index of items or -1, ...); return its index in ``lists``."""
    flat: list[int] = []
    for tag, (kind, items) in sorted(tree.items()):
        flat += [tag, kind, _store(items, lists, seen) if items else -1]
    key = tuple(flat)
    if key not in seen:
        seen[key] = len(lists)
        lists.append(flat)
    return seen[key]


def _mask(tag: str) -> str:
    if "ODD" in tag.upper():
        return "private"
    match = re.fullmatch(r"\(([0-9A-FX]{4}),([0-9A-FX]{4})\)", tag.upper())
    if match is None:
        raise UsageError(
            "A row of the table has a tag of unknown form", "Compare its tag column with (gggg,eeee)"
        )
    return (match[1] + match[2]).lower()


def _tags() -> dict[str, int]:
    """Return keyword -> tag; repeating groups by their first group (6000, 5000)."""
    from pydicom._dicom_dict import DicomDictionary, RepeatersDictionary

    tags = {row[4]: int(mask.replace("x", "0"), 16) for mask, row in RepeatersDictionary.items()}
    return tags | {row[4]: tag for tag, row in DicomDictionary.items()}


def _known() -> dict[str, tuple[str, str]]:
    """Return mask -> keyword and VR of the data dictionary; a mask of several attributes has no VR."""
    from pydicom._dicom_dict import DicomDictionary, RepeatersDictionary

    masks = {mask.lower(): (row[4], _first(row[0])) for mask, row in RepeatersDictionary.items()}
    known = {f"{tag:08x}": (row[4], _first(row[0])) for tag, row in DicomDictionary.items()}
    return masks | known | {"private": ("PrivateAttributes", ""), "50xxxxxx": ("CurveData", "")}


def _first(vrs: str) -> str:
    return vrs.split(" or ")[0]


def _keyword(name: str) -> str:
    """Keyword of an attribute (PS3.6 section 5): the words of its name, each with a capital."""
    return "".join(word[0].upper() + word[1:] for word in re.findall(r"[0-9A-Za-z]+", name))


def _new_vr(mask: str, row: Row) -> str:
    """VR of an attribute that the dictionary lacks: of the source, of ``NEW_VRS``, or by its name."""
    named = next((vr for end, vr in _VRS_BY_NAME if row["name"].endswith(end)), "LO")
    return row.get("vr") or NEW_VRS.get(mask, named)


def _sop_class_names() -> dict[str, str]:
    from pydicom._uid_dict import UID_dictionary

    return {uid: row[0] for uid, row in UID_dictionary.items() if row[1] == "SOP Class" and row[0]}


def _highdicom(name: str) -> dict[str, Any]:
    from importlib.resources import files

    text = files("highdicom").joinpath(f"_standard/{name}.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


if __name__ == "__main__":
    main()
