"""Regions into which devices write text, by manufacturer, model and image (``device_regions.csv``).

Facts from the pixel recipes of pydicom/deid (MIT) and of RSNA's Clinical Trial Processor; each row names its
source. Conditions of the sources on other attributes than those of the columns are left out with their rows.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Box = tuple[int, int, int, int]
"""Left, top, width, height in pixels."""


@dataclass(frozen=True, slots=True)
class DeviceRegion:
    """Boxes that a kind of image of a device has text in.

    Texts are alternatives, of which the attribute must contain one; an empty tuple or None matches any value.

    Attributes
    ----------
    manufacturer, model, software, modality, image_type, series, burned_in : tuple of str
        Manufacturer, Manufacturer's Model Name, Software Versions, Modality, Image Type, Series Description,
        Burned In Annotation.
    rows, columns : int or None
    boxes : tuple of Box
    source : str
    """

    manufacturer: tuple[str, ...]
    model: tuple[str, ...]
    software: tuple[str, ...]
    modality: tuple[str, ...]
    image_type: tuple[str, ...]
    series: tuple[str, ...]
    burned_in: tuple[str, ...]
    rows: int | None
    columns: int | None
    boxes: tuple[Box, ...]
    source: str


@cache
def device_regions() -> tuple[DeviceRegion, ...]:
    """Return the rows of the table."""
    text = (files(__package__) / "device_regions.csv").read_text(encoding="utf-8")
    return tuple(_region(row) for row in csv.DictReader(text.splitlines()))


def _region(row: Mapping[str, str]) -> DeviceRegion:
    return DeviceRegion(
        manufacturer=_alternatives(row["manufacturer"]),
        model=_alternatives(row["model"]),
        software=_alternatives(row["software"]),
        modality=_alternatives(row["modality"]),
        image_type=_alternatives(row["image_type"]),
        series=_alternatives(row["series"]),
        burned_in=_alternatives(row["burned_in"]),
        rows=int(row["rows"]) if row["rows"] else None,
        columns=int(row["columns"]) if row["columns"] else None,
        boxes=tuple(_box(one) for one in row["boxes"].split(";")),
        source=row["source"],
    )


def _alternatives(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split("|")))


def _box(text: str) -> Box:
    left, top, width, height = (int(number) for number in text.split())
    return left, top, width, height
