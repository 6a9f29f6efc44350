"""Generate the tables of the standard: ``python -m medsanitize.tools.standard_tables.generate --e11
TABLE.json``.

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


def main(argv: list[str] | None = None) -> None:
    """Write ``confidentiality.csv`` and ``iods.json`` to ``policies/tables``."""
    parser = argparse.ArgumentParser(description="Make the generated tables of the standard.")
    parser.add_argument("--e11", type=Path, required=True, help="PS3.15 Table E.1-1 as JSON")
    parser.add_argument(
        "--out", type=Path, default=TABLES, help="folder to write to (default: policies/tables)"
    )
    arguments = parser.parse_args(argv)
    rows = json.loads(arguments.e11.read_text(encoding="utf-8"))
    (arguments.out / "confidentiality.csv").write_text(
        confidentiality_csv(rows), encoding="utf-8", newline=""
    )
    (arguments.out / "iods.json").write_text(iods_json(), encoding="utf-8", newline="")


def confidentiality_csv(rows: Iterable[Mapping[str, str]]) -> str:
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
    keywords = _keywords()
    table = []
    for row in rows:
        mask = _mask(row["tag"])
        # New attributes of the standard may be missing in the dictionary of pydicom.
        keyword = keywords.get(mask) or re.sub(r"[^0-9A-Za-z]", "", row["name"])
        options = [row.get(SOURCE_COLUMNS[column], "") for column in OPTION_COLUMNS]
        table.append([mask, keyword, row["basicProfile"], *options])
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(["mask", "keyword", "basic", *OPTION_COLUMNS])
    # Sorted and with fixed line ends, so that the bytes do not depend on the source's order or platform.
    writer.writerows(sorted(table))
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


def _keywords() -> dict[str, str]:
    from pydicom._dicom_dict import DicomDictionary, RepeatersDictionary

    masks = {mask.lower(): row[4] for mask, row in RepeatersDictionary.items()}
    return masks | {f"{tag:08x}": row[4] for tag, row in DicomDictionary.items()}


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
