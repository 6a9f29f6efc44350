"""Regions of known devices are blanked whatever is read there."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.policies.tables.device_regions import device_regions
from medsanitize.sanitize.burned_in import clean, frame_search
from medsanitize.sanitize.burned_in.areas import known_areas
from medsanitize.sanitize.burned_in.device import Device, known_regions
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import Sanitized
from pydicom.dataset import Dataset

from tests.helpers.released_bytes import released_bytes
from tests.helpers.text_maps import no_text

HEADER = 59
CX50 = {"Manufacturer": "Philips Medical Systems", "ManufacturerModelName": "CX50", "Modality": "US"}
Run = Callable[..., tuple[Sanitized, Dataset]]

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def released(
    monkeypatch: pytest.MonkeyPatch,
    make_policy: Callable[..., Policy],
    subkeys: SubKeys,
    load_bytes: Callable[..., bytes],
) -> Run:
    """Sanitize an object in whose pixels nothing is read."""
    for name in ("read", "read_changes"):
        monkeypatch.setattr(TextReader, name, lambda self, *_: ())  # noqa: ARG005
    monkeypatch.setattr(clean, "text_chances", no_text)
    for module in (clean, frame_search):
        monkeypatch.setattr(module, "find_codes", lambda _, **__: ())

    def run(source: Dataset, **rules: Any) -> tuple[Sanitized, Dataset]:
        policy = make_policy("research", pixels={"faces": "ignore", **rules})
        data = load_bytes(source)
        done = DicomSanitizer(policy, subkeys)(data, Context("id:a", "key"))
        out = released_bytes(done, data)
        return done, pydicom.dcmread(BytesIO(out)) if out else Dataset()

    return run


def made_by(source: Dataset, **device: str) -> Dataset:
    for name, value in device.items():
        setattr(source, name, value)
    return source


def frame(rows: int, columns: int) -> Geometry:
    return Geometry(rows, columns, 1, 1, 8, 8, 7, False, "MONOCHROME2")


def test_the_header_of_a_known_ultrasound_device_is_blanked(
    real: Callable[[str], Dataset], released: Run
) -> None:
    source = made_by(real("examples_rgb_color.dcm"), **CX50)

    done, after = released(source)

    assert len(np.unique(after.pixel_array[:HEADER].reshape(-1, 3), axis=0)) == 1
    assert np.array_equal(after.pixel_array[HEADER:], source.pixel_array[HEADER:])
    assert done.record.pixel_regions_cleaned == 1


def test_the_policy_switches_the_table_off(real: Callable[[str], Dataset], released: Run) -> None:
    source = made_by(real("examples_rgb_color.dcm"), **CX50)

    done, _ = released(source, known_devices=False)

    assert done.record.pixel_regions_cleaned == 0


def test_an_image_of_a_known_device_is_read_although_its_header_states_no_risk(
    real: Callable[[str], Dataset], released: Run
) -> None:
    source = real("CT_small.dcm")
    source = made_by(source, Manufacturer="GE MEDICAL SYSTEMS", SeriesDescription="Dose Report")
    source.ManufacturerModelName = "LightSpeed VCT"
    source.Rows, source.PixelData = 512, source.PixelData * 4

    done, _ = released(source)

    assert done.record.pixel_regions_cleaned == 1


def test_a_frame_of_which_the_table_would_blank_too_much_is_quarantined() -> None:
    device = Device("Philips Medical Systems", "CX50", "US")

    assert known_areas(device, frame(150, 200)) == ((0, 0, 200, 59),)
    with pytest.raises(Quarantined, match="device-region-too-large"):
        known_areas(device, frame(140, 200))


@pytest.mark.parametrize(
    ("device", "size", "count"),
    [
        (Device("G.E. Medical Systems", "LOGIQ9", "US"), (480, 640), 1),
        (Device("GE Healthcare", "LOGIQ 9", "US"), (480, 640), 1),
        (Device("Imagenex", "LOGIQ9", "US"), (480, 640), 0),
        (Device("GE Healthcare", "LOGIQ9", "CT"), (480, 640), 0),
        (Device("SIEMENS", "ACUSON S2000", "US"), (768, 1024), 1),
        (Device("SIEMENS", "ACUSON S2000", "US"), (768, 1280), 0),
        (Device("GE MEDICAL SYSTEMS", "AW", "CT", burned_in="YES"), (512, 512), 1),
        (Device("GE MEDICAL SYSTEMS", "AW", "CT", burned_in="NO"), (512, 512), 0),
        (Device(), (512, 512), 0),
    ],
)
def test_regions_depend_on_the_maker_the_model_and_the_image(
    device: Device, size: tuple[int, int], count: int
) -> None:
    assert len(known_regions(device, *size)) == count


def test_every_row_names_a_device_or_series_its_boxes_and_its_source() -> None:
    assert len(device_regions()) == 90
    for row in device_regions():
        assert row.manufacturer or row.series
        assert row.source.startswith(("deid 0.4.13", "CTP"))
        assert all(
            left >= 0 and top >= 0 and width > 0 and height > 0 for left, top, width, height in row.boxes
        )
