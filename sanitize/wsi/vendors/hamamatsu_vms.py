"""Hamamatsu VMS: an INI file that names a grid of JPEG files, a map and a macro in the same folder.

OpenSlide reads the grid's file names, the number of layers, columns and rows, the lens and the physical size.
"""

from __future__ import annotations

import re

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.pieces import OutFile, Piece
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiles import JPEG

NAME = "hamamatsu"
_SECTION = "[Virtual Microscope Specimen]"
_IMAGE = re.compile(r"ImageFile(?:\((\d{1,4}),(\d{1,4})(?:,(\d{1,4}))?\))?")
_KEYS = (
    "NoLayers",
    "NoJpegColumns",
    "NoJpegRows",
    "PhysicalWidth",
    "PhysicalHeight",
    "XOffsetFromSlideCentre",
    "YOffsetFromSlideCentre",
    "SourceLens",
    "LayerSpacing",
    "LayerOffset",
)
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,9})?")
_MOST_BYTES = 1 << 20


def recognizes(view: SlideView) -> bool:
    """Return whether the file is the INI file of a VMS slide."""
    head = bytes(view.data[:4096])
    return _SECTION.encode() in head.splitlines()[:3] or head.startswith(_SECTION.encode())


def companions(ini: bytes) -> frozenset[str]:
    """Return the names of the files in the same folder that belong to the slide.

    Parameters
    ----------
    ini : bytes
        Content of the INI file.

    Raises
    ------
    Quarantined
        ``slide-description-too-large``.
    """
    return frozenset(
        value
        for key, value in _pairs(ini).items()
        if key in ("MapFile", "MacroImage", "OptimisationFile") or _IMAGE.fullmatch(key)
    )


def plan_edits(view: SlideView, rules: WholeSlides, name: SlideName) -> EditPlan:
    """Plan the grid and the map under new names, and a new INI file; the macro is removed.

    Raises
    ------
    Quarantined
        ``slide-file-missing``, ``slide-tile-structure`` or ``slide-without-levels``.
    """
    pairs = _pairs(bytes(view.data[:_MOST_BYTES]))
    index = {file.name: number for number, file in enumerate(view.files)}
    files: list[OutFile] = []
    lines = [
        _SECTION,
        *(f"{key}={pairs[key]}" for key in _KEYS if _NUMBER.fullmatch(pairs.get(key, ""))),
    ]
    counts: dict[str, int] = {"C:slide-description": 1}
    images = [(key, pairs[key]) for key in pairs if _IMAGE.fullmatch(key)]
    if not images:
        raise Quarantined("slide-without-levels", "structure")
    for number, (key, value) in enumerate([*images, ("MapFile", pairs.get("MapFile", ""))]):
        if value not in index:
            raise Quarantined("slide-file-missing", "structure")
        # Never the source's file names: they may identify the patient.
        suffix = "_map.jpg" if key == "MapFile" else f"_{number}.jpg"
        files.append(OutFile(suffix, _jpeg(view, index[value], rules, counts)))
        lines.append(f"{key}={{stem}}{suffix}")
    left = len(view.files) - 1 - len(files)
    if left:
        counts["X:slide-picture"] = left
    ini = "\r\n".join([*lines, ""]).replace("{stem}", name.instance)
    lens, width = pairs.get("SourceLens", ""), _size(bytes(view.files[index[images[0][1]]].data[: 1 << 17]))
    columns = int(pairs.get("NoJpegColumns", "1")) if pairs.get("NoJpegColumns", "1").isdigit() else 1
    physical = pairs.get("PhysicalWidth", "")
    facts = SlideFacts(
        NAME,
        ((width[0] * columns, width[1]),),
        # PhysicalWidth is in nanometers.
        float(physical) / (width[0] * columns) / 1000 if _NUMBER.fullmatch(physical) and width[0] else None,
        float(lens) if _NUMBER.fullmatch(lens) else None,
    )
    return EditPlan((OutFile(".vms", (ini.encode("ascii"),)), *files), facts, counts)


def _pairs(ini: bytes) -> dict[str, str]:
    if len(ini) > _MOST_BYTES:
        raise Quarantined("slide-description-too-large", "description")
    # Latin-1 decodes any bytes; of the values, only numbers are written.
    lines = (line.strip() for line in ini.decode("latin-1").splitlines())
    parts = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("["))
    return {key.strip(): value.strip() for key, value in parts}


def _jpeg(view: SlideView, file: int, rules: WholeSlides, counts: dict[str, int]) -> tuple[Piece, ...]:
    cleaner = view.cleaner(rules, file)
    pieces = cleaner.clean(0, len(cleaner.data), JPEG)
    for rule, count in cleaner.rules.items():
        counts[rule] = counts.get(rule, 0) + count
    return pieces


def _size(head: bytes) -> tuple[int, int]:
    """Return width and height from the frame header of a JPEG, (0, 0) if there is none."""
    found = re.search(rb"\xff[\xc0\xc1]\x00.\x08(..)(..)", head, re.DOTALL)
    return (int.from_bytes(found[2], "big"), int.from_bytes(found[1], "big")) if found else (0, 0)
