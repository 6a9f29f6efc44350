"""The device and the kind of an image, and the regions into which such devices write text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from medsanitize.policies.model import FixedRegion
from medsanitize.policies.tables.device_regions import DeviceRegion, device_regions

_SCREENS = frozenset(["US", "IVUS", "ES", "SC"])
# Ultrasound and its retired classes, secondary capture, endoscopy.
_SCREEN_CLASSES = tuple(f"1.2.840.10008.5.1.4.1.1.{part}." for part in ("3", "6", "7", "77.1.1"))


@dataclass(frozen=True, slots=True)
class Device:
    """The device that created an object and the kind of its image, as the source states them.

    Attributes
    ----------
    manufacturer, model, modality, software, image_type, series, burned_in, sop_class : str
        Manufacturer, Manufacturer's Model Name, Modality, Software Versions, Image Type, Series Description,
        Burned In Annotation, SOP Class UID; empty if absent.
    """

    manufacturer: str = ""
    model: str = ""
    modality: str = ""
    software: str = ""
    image_type: str = ""
    series: str = ""
    burned_in: str = ""
    sop_class: str = ""

    @property
    def is_screen(self) -> bool:
        """Whether the image is the screen of a device: ultrasound, endoscopy, secondary capture."""
        captured = any(word in self.image_type.upper() for word in ("SCREEN", "CAPTURE"))
        return (
            captured or self.modality.upper() in _SCREENS or f"{self.sop_class}.".startswith(_SCREEN_CLASSES)
        )


@lru_cache(maxsize=512)
def known_regions(device: Device, rows: int, columns: int) -> tuple[FixedRegion, ...]:
    """Return the regions in which the table of devices has text for an image.

    Parameters
    ----------
    device : Device
    rows, columns : int
        Of the image.
    """
    return tuple(
        FixedRegion(boxes=row.boxes)
        for row in device_regions()
        if row.rows in (None, rows) and row.columns in (None, columns) and _is_of(row, device)
    )


def _is_of(row: DeviceRegion, device: Device) -> bool:
    """Whether a row of the table is about a device, whatever the size of the image."""
    return (
        (not row.modality or device.modality.upper() in row.modality)
        and _begins(row.manufacturer, device.manufacturer)
        and _contains(row.model, device.model)
        and _contains(row.software, device.software)
        and _contains(row.image_type, device.image_type)
        and _contains(row.series, device.series)
        and _contains(row.burned_in, device.burned_in)
    )


def _begins(wanted: Sequence[str], text: str) -> bool:
    """Whether a word of the text begins one of the alternatives: GE must not be found inside a word."""
    plain = text.replace(".", "")  # G.E.
    return not wanted or any(
        re.search(rf"(?<![^\W_]){re.escape(one)}", plain, re.IGNORECASE) for one in wanted
    )


def _contains(wanted: Sequence[str], text: str) -> bool:
    """Whether the text contains one of the alternatives, written with or without spaces."""
    squeezed = _squeezed(text)
    return not wanted or any(_squeezed(one) in squeezed for one in wanted)


def _squeezed(text: str) -> str:
    return re.sub(r"[\s_-]", "", text).casefold()
