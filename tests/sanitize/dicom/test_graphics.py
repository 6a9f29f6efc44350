"""Graphics over images: overlay planes, graphic annotations, icons, waveform annotations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.result import Sanitized
from PIL import Image, ImageDraw, ImageFont
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence

Real = Callable[[str], Dataset]
Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
MakePolicy = Callable[..., Policy]

NAME = "Grzbowska"
RAW = b"Grzbowska Anna 1951?"
ROWS, COLUMNS = 60, 301


def bitmap(text: str) -> bytes:
    """An overlay plane with ``text`` and a ruler below."""
    picture = Image.new("L", (COLUMNS, ROWS), 0)
    draw = ImageDraw.Draw(picture)
    draw.text((10, 8), text, 255, font=ImageFont.load_default(24))
    draw.line((10, 52, 290, 52), 255)
    cells = np.asarray(picture) > 127
    return np.packbits(cells, bitorder="little").tobytes()


def with_plane(data_set: Dataset, text: str = NAME, group: int = 0x6002) -> Dataset:
    tag = group << 16
    data_set.add_new(tag | 0x0010, "US", ROWS)
    data_set.add_new(tag | 0x0011, "US", COLUMNS)
    data_set.add_new(tag | 0x0022, "LO", f"{NAME} lung")
    data_set.add_new(tag | 0x0040, "CS", "G")
    data_set.add_new(tag | 0x0050, "SS", [1, 1])
    data_set.add_new(tag | 0x0100, "US", 1)
    data_set.add_new(tag | 0x0102, "US", 0)
    data_set.add_new(tag | 0x1500, "LO", NAME)
    data_set.add_new(tag | 0x3000, "OW", bitmap(text) + RAW)
    data_set.PatientName = f"{NAME}^Anna"
    return data_set


def clean_graphics(make_policy: MakePolicy, *, pixels: bool) -> Policy:
    options = {"clean_graphics": True, "clean_pixel_data": pixels}
    return make_policy("research", dicom={"options": options}, pixels={"at_risk": "release"})


def test_overlay_planes_are_removed_unless_the_policy_keeps_them(real: Real, release: Release) -> None:
    done, _, released = release(with_plane(real("CT_small.dcm")))

    assert not released.group_dataset(0x6002)
    assert done.record.rules["X:overlay"] > 0


def test_overlay_planes_to_be_cleaned_are_removed_if_pixels_are_not_read(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    done, _, released = release(with_plane(real("CT_small.dcm")), clean_graphics(make_policy, pixels=False))

    assert not released.group_dataset(0x6002)
    assert done.record.rules["X:overlay"] == 1


@pytest.mark.parametrize(("text", "gone"), [(NAME, True), ("LUNG", False)])
def test_identifying_text_is_removed_from_an_overlay_plane(
    text: str, gone: bool, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    policy = clean_graphics(make_policy, pixels=True)

    done, out, released = release(with_plane(real("CT_small.dcm"), text), policy)

    cells = np.unpackbits(np.frombuffer(released[0x60023000].value, np.uint8), bitorder="little")
    shown = cells[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
    assert bool(shown[8:40, 10:140].any()) is not gone
    assert shown[52, 280]
    assert NAME.encode() not in out
    assert done.record.rules["C:overlay"] == 1


def test_a_kept_overlay_plane_is_truncated_to_its_size(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    policy = make_policy(
        "research",
        dicom={"options": {"clean_pixel_data": False}, "attributes": {"60xx3000": "K"}},
        pixels={"at_risk": "release"},
    )

    _, out, released = release(with_plane(real("CT_small.dcm")), policy)

    plane = bitmap(NAME)
    assert released[0x60023000].value[: len(plane)] == plane
    assert RAW not in out
    assert released.get(0x60021500) is None


@pytest.mark.parametrize("group", [0x6002, 0x5002])
def test_kept_planes_and_curves_are_removed_within_sequences(
    group: int, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    policy = make_policy(
        "research",
        dicom={
            "options": {"clean_pixel_data": False},
            "attributes": {"60xx3000": "K", "60xx1500": "K", "50xx3000": "K"},
        },
        pixels={"at_risk": "release"},
    )
    data_set = real("CT_small.dcm")
    tag = group.to_bytes(2, "little")
    element = tag + b"\0\x30" + len(RAW).to_bytes(4, "little") + RAW
    label = tag + b"\0\x15" + len(RAW).to_bytes(4, "little") + RAW
    inside = label + element
    item = b"\xfe\xff\0\xe0" + len(inside).to_bytes(4, "little") + inside
    unknown = DataElement(0x00081140, "OB", item)
    unknown.VR = "UN"
    data_set.add(unknown)

    _, out, _ = release(data_set, policy)

    assert RAW not in out


@pytest.mark.parametrize("action", ["K", "C"])
def test_icons_are_always_removed(action: str, real: Real, release: Release, make_policy: MakePolicy) -> None:
    policy = make_policy(
        "research",
        dicom={"options": {"clean_pixel_data": False}, "attributes": {"IconImageSequence": action}},
        pixels={"at_risk": "release"},
    )
    data_set = real("CT_small.dcm")
    icon = Dataset()
    icon.Rows, icon.Columns, icon.PixelData = 4, 5, RAW
    icon["PixelData"].VR = "OB"
    data_set.IconImageSequence = Sequence([icon])

    _, out, released = release(data_set, policy)

    assert "IconImageSequence" not in released
    assert RAW not in out


def presentation_state() -> Dataset:
    """A softcopy presentation state whose annotation has the patient's name and a finding."""
    state = Dataset()
    state.file_meta = FileMetaDataset()
    state.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.1"
    state.SOPClassUID = "1.2.840.10008.5.1.4.1.1.11.1"
    state.file_meta.MediaStorageSOPClassUID = state.SOPClassUID
    state.SOPInstanceUID = state.file_meta.MediaStorageSOPInstanceUID = "1.2.3.4.9"
    state.StudyInstanceUID, state.SeriesInstanceUID, state.Modality = "1.2.3.4", "1.2.3.4.1", "PR"
    state.PatientID, state.PatientName = "77-4711", f"{NAME}^Anna"
    state.ContentLabel, state.ContentDescription = "FINDINGS", f"Lung of {NAME}"
    state.PresentationCreationDate, state.PresentationCreationTime = "20200101", "101500"
    layer = Dataset()
    layer.GraphicLayer, layer.GraphicLayerOrder, layer.GraphicLayerDescription = "LAYER", 1, NAME
    state.GraphicLayerSequence = Sequence([layer])
    text, drawn, annotation = Dataset(), Dataset(), Dataset()
    text.UnformattedTextValue = f"Nodule {NAME} left lung"
    text.AnchorPoint, text.AnchorPointVisibility, text.AnchorPointAnnotationUnits = [1.0, 2.0], "Y", "PIXEL"
    drawn.GraphicAnnotationUnits, drawn.GraphicDimensions, drawn.NumberOfGraphicPoints = "PIXEL", 2, 2
    drawn.GraphicData, drawn.GraphicType, drawn.GraphicFilled = [1.0, 2.0, 3.0, 4.0], "POLYLINE", "N"
    annotation.GraphicLayer = "LAYER"
    annotation.TextObjectSequence, annotation.GraphicObjectSequence = Sequence([text]), Sequence([drawn])
    state.GraphicAnnotationSequence = Sequence([annotation])
    return state


@pytest.mark.parametrize("preset", ["ps3.15-basic", "research"])
def test_annotations_lose_the_name_and_keep_their_position(
    preset: str, release: Release, make_policy: MakePolicy
) -> None:
    policy = make_policy(preset, dicom={"options": {"clean_graphics": preset == "research"}})

    _, out, released = release(presentation_state(), policy)

    (annotation,) = released.GraphicAnnotationSequence
    assert NAME.encode() not in out
    assert annotation.GraphicLayer == released.GraphicLayerSequence[0].GraphicLayer
    assert list(annotation.GraphicObjectSequence[0].GraphicData) == [1.0, 2.0, 3.0, 4.0]
    said = annotation.TextObjectSequence[0].UnformattedTextValue
    assert ("Nodule" in said and "left lung" in said) is (preset == "research")


def test_waveform_annotations_lose_the_name(real: Real, release: Release, make_policy: MakePolicy) -> None:
    data_set = real("waveform_ecg.dcm")
    data_set.PatientName = f"{NAME}^Anna"
    remark = Dataset()
    remark.UnformattedTextValue, remark.ReferencedWaveformChannels = f"{NAME} normal", [1, 0]
    remark.AnnotationGroupNumber = 1
    data_set.WaveformAnnotationSequence = Sequence([remark])

    _, out, released = release(data_set, make_policy("research"))

    assert NAME.encode() not in out
    assert released.WaveformAnnotationSequence[0].UnformattedTextValue == "normal"
