"""Bodies made of ellipsoids, imaged in any plane: heads with a face, and other body parts.

Coordinates are LPS in mm. A tissue function maps points to labels; ``image`` gives the values of a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from medsanitize.sanitize.faces.slice_geometry import Plane
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

Array = npt.NDArray[Any]
AIR, SOFT, BONE, BRAIN, FAT = range(5)
CT_VALUES = np.array([-1000, 45, 900, 35, -90], np.float32)
MR_VALUES = np.array([0, 330, 25, 300, 620], np.float32)
Body = Callable[[Array], Array]


def _in(p: Array, center: tuple[float, float, float], axes: tuple[float, float, float]) -> Array:
    return sum(((p[..., i] - center[i]) / axes[i]) ** 2 for i in range(3)) <= 1  # type: ignore[return-value]


def _turned(p: Array, yaw: float, pitch: float) -> Array:
    a, b = np.radians(yaw), np.radians(pitch)
    x, y, z = p[..., 0], p[..., 1], p[..., 2]
    x, y = np.cos(a) * x - np.sin(a) * y, np.sin(a) * x + np.cos(a) * y
    y, z = np.cos(b) * y - np.sin(b) * z, np.sin(b) * y + np.cos(b) * z
    return np.stack([x, y, z], axis=-1)


def head(scale: float = 1.0, yaw: float = 0.0, pitch: float = 0.0, nose: float = 1.0) -> Body:
    """A head with neck and shoulders; its vertex is at z = 90 * scale, its brow at about -8 * scale."""

    def labels(points: Array) -> Array:
        p = _turned(points / scale, yaw, pitch)
        out = np.full(p.shape[:-1], AIR, np.int8)
        shoulders = _in(p, (0, 20, -330), (220, 110, 110))
        neck = (((p[..., 0] / 55) ** 2 + ((p[..., 1] - 15) / 60) ** 2) <= 1) & (p[..., 2] < -60)
        neck &= p[..., 2] > -330
        skin = _in(p, (0, 0, 0), (76, 95, 90)) | _in(p, (0, -30, -60), (61, 65, 82)) | neck | shoulders
        skin |= _in(p, (0, -96, -50), (14, 22 * nose, 25)) | _in(p, (0, -80, -125), (26, 18, 16))
        skin |= _in(p, (0, -93, -95), (22, 8, 10)) | _in(p, (79, 12, -35), (8, 18, 30))
        skin |= _in(p, (-79, 12, -35), (8, 18, 30))
        skin &= ~(_in(p, (33, -92, -25), (15, 12, 10)) | _in(p, (-33, -92, -25), (15, 12, 10)))
        out[skin] = SOFT
        out[_in(p, (0, -28, -60), (50, 56, 70)) & ~_in(p, (0, -26, -58), (43, 49, 62))] = BONE
        out[_in(p, (0, 0, 0), (68, 87, 82))] = BONE
        out[_in(p, (0, 0, 0), (61, 80, 75))] = BRAIN
        out[((p[..., 0] / 14) ** 2 + ((p[..., 1] - 35) / 14) ** 2 <= 1) & (p[..., 2] < -60) & skin] = BONE
        for air in (
            ((30, -60, -60), (14, 17, 17)),
            ((-30, -60, -60), (14, 17, 17)),
            ((0, -68, -58), (7, 26, 20)),
            ((0, -86, -14), (20, 4, 8)),
            ((0, -62, -95), (17, 18, 4)),
            ((0, -12, -100), (10, 8, 42)),
        ):
            out[_in(p, *air) & (out != AIR)] = AIR
        return out

    return labels


def brain(scale: float = 1.0) -> Body:
    """A brain without its head, as after skull stripping."""

    def labels(points: Array) -> Array:
        p = points / scale
        out = np.full(p.shape[:-1], AIR, np.int8)
        cerebrum = _in(p, (0, 0, 0), (66, 82, 75)) & (p[..., 2] > -25 - 0.35 * (p[..., 1] + 40))
        temporal = _in(p, (38, -5, -35), (26, 42, 25)) | _in(p, (-38, -5, -35), (26, 42, 25))
        hind = _in(p, (0, 40, -50), (50, 32, 28)) | _in(p, (0, 15, -70), (14, 14, 40))
        out[cerebrum | temporal | hind] = BRAIN
        return out

    return labels


def torso(breadth: float = 170.0, depth: float = 110.0) -> Body:
    """A trunk that extends beyond the volume, with spine, ribs and gas."""

    def labels(p: Array) -> Array:
        r = np.sqrt((p[..., 0] / breadth) ** 2 + (p[..., 1] / depth) ** 2)
        out = np.where(r <= 1, FAT, AIR).astype(np.int8)
        out[r <= 0.88] = SOFT
        ribs = (r > 0.8) & (r < 0.87) & (np.sin(p[..., 2] / 6 + p[..., 1] / 15) > 0.2)
        out[ribs] = BONE
        out[(p[..., 0] / 20) ** 2 + ((p[..., 1] - 0.6 * depth) / 20) ** 2 <= 1] = BONE
        out[_in(p, (40, -40, 0), (30, 20, 40))] = AIR
        return out

    return labels


def pelvis() -> Body:
    """A trunk whose bones form a ring."""

    def labels(p: Array) -> Array:
        r = np.sqrt((p[..., 0] / 190) ** 2 + (p[..., 1] / 125) ** 2)
        out = np.where(r <= 1, FAT, AIR).astype(np.int8)
        out[r <= 0.8] = SOFT
        out[(r > 0.55) & (r < 0.62)] = BONE
        return out

    return labels


def legs(count: int = 2, radius: float = 70.0) -> Body:
    """One leg or two."""

    def labels(p: Array) -> Array:
        out = np.full(p.shape[:-1], AIR, np.int8)
        for x in (-90.0, 90.0)[:count]:
            r = np.hypot(p[..., 0] - (x if count > 1 else 0.0), p[..., 1])
            out[r <= radius * (1 + p[..., 2] / 2000)] = FAT
            out[r <= 0.88 * radius] = SOFT
            out[(r <= 18)] = BONE
            out[(r <= 9)] = FAT
        return out

    return labels


def whole_body(arms: bool = True) -> Body:
    """A head on a trunk of 60 cm, arms raised next to the head."""
    top = head()

    def labels(p: Array) -> Array:
        out = top(p)
        trunk = ((p[..., 0] / 170) ** 2 + (p[..., 1] / 110) ** 2 <= 1) & (p[..., 2] < -300)
        out[trunk] = SOFT
        if arms:
            for x in (-125.0, 125.0):
                raised = (np.hypot(p[..., 0] - x, p[..., 1]) <= 38) & (p[..., 2] > -320)
                out[raised] = SOFT
                out[raised & (np.hypot(p[..., 0] - x, p[..., 1]) <= 9)] = BONE
        return out

    return labels


AXIAL = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
SAGITTAL = ((0.0, 1.0, 0.0), (0.0, 0.0, -1.0))
CORONAL = ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0))


@dataclass(frozen=True)
class Scan:
    """Slices of a body: field of view in mm around a center, pixel and slice spacing in mm."""

    body: Body
    modality: str = "CT"
    orientation: tuple[tuple[float, float, float], tuple[float, float, float]] = AXIAL
    center: tuple[float, float, float] = (0.0, 0.0, -40.0)
    view: float = 256.0
    cover: float = 260.0
    pixel: float = 3.0
    gap: float = 5.0
    noise: float = 8.0

    def planes(self) -> list[Plane]:
        across, down = (np.array(axis) for axis in self.orientation)
        normal = np.cross(across, down)
        size, count = round(self.view / self.pixel), round(self.cover / self.gap)
        corner = np.array(self.center) - (across + down) * (size - 1) / 2 * self.pixel
        found = []
        for k in range(count):
            at = corner + normal * (k - (count - 1) / 2) * self.gap
            position = (float(at[0]), float(at[1]), float(at[2]))
            found.append(Plane(position, *self.orientation, (self.pixel, self.pixel), size, size))
        return found

    def image(self, plane: Plane) -> Array:
        """Values of one slice, with noise that depends on its position only."""
        points = points_of(plane)
        table = CT_VALUES if self.modality == "CT" else MR_VALUES
        values = table[self.body(points)]
        seed = abs(int(plane.height * 1000)) + 1
        rough = np.random.default_rng(seed).normal(0, self.noise, values.shape).astype(np.float32)
        return (
            values + rough
            if self.modality == "CT"
            else np.where(self.noise > 0, np.abs(values + rough), values)
        )

    def slices(self) -> Iterator[tuple[Plane, Array]]:
        for plane in self.planes():
            yield plane, self.image(plane)


def points_of(plane: Plane) -> Array:
    """LPS coordinates of every pixel, rows by columns by 3."""
    across, down, start = (np.array(axis) for axis in (plane.across, plane.down, plane.position))
    columns, rows = np.arange(plane.columns) * plane.pitch[0], np.arange(plane.rows) * plane.pitch[1]
    return start + rows[:, None, None] * down + columns[None, :, None] * across


def write_series(
    folder: Path, scan: Scan, *, number: int = 1, enhanced: bool = False, **changes: object
) -> None:
    """Write a scan as one DICOM series: CT with rescale, MR without, explicit little endian."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [_stored(scan, image) for _, image in scan.slices()]
    planes = scan.planes()
    if enhanced:
        _enhanced(scan, planes, made, number, changes).save_as(folder / "all.dcm", enforce_file_format=True)
        return
    for index, (plane, pixels) in enumerate(zip(planes, made, strict=True)):
        data = _header(scan, number, index, {})
        data.ImagePositionPatient = [round(part, 4) for part in plane.position]
        data.ImageOrientationPatient = [*plane.across, *plane.down]
        data.PixelSpacing = [plane.pitch[1], plane.pitch[0]]
        data.Rows, data.Columns = pixels.shape
        data.PixelData = pixels.astype("<i2").tobytes()
        for keyword, value in changes.items():
            setattr(data, keyword, value)
        data.save_as(folder / f"{index:03d}.dcm", enforce_file_format=True)


def _stored(scan: Scan, image: Array) -> Array:
    return np.rint(image + 1024 if scan.modality == "CT" else image).clip(0, 4095).astype(np.int16)


def _header(scan: Scan, number: int, index: int, changes: dict[str, object]) -> Dataset:
    suffix = {"CT": "2", "MR": "4"}[scan.modality]
    data = Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.SOPClassUID = data.file_meta.MediaStorageSOPClassUID = f"1.2.840.10008.5.1.4.1.1.{suffix}"
    data.SOPInstanceUID = generate_uid(entropy_srcs=["object", str(number), str(index)])
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
    data.StudyInstanceUID = generate_uid(entropy_srcs=["study"])
    data.SeriesInstanceUID = generate_uid(entropy_srcs=["series", str(number)])
    data.FrameOfReferenceUID = generate_uid(entropy_srcs=["frame"])
    data.Modality, data.PatientID, data.PatientName = scan.modality, "MRN7734190", "QUIXLEYVANE^A"
    data.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    data.PatientSex = data.PatientBirthDate = data.StudyDate = data.StudyTime = ""
    data.StudyID = data.AccessionNumber = data.ReferringPhysicianName = data.PositionReferenceIndicator = ""
    data.SeriesNumber, data.InstanceNumber = number, index + 1
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 16, 15, 1
    if scan.modality == "CT":
        data.RescaleSlope, data.RescaleIntercept, data.KVP = 1, -1024, 120
    for keyword, value in changes.items():
        setattr(data, keyword, value)
    return data


def _enhanced(
    scan: Scan, planes: list[Plane], made: list[Array], number: int, changes: dict[str, object]
) -> Dataset:
    """All slices as the frames of one object, positions in functional groups (PS3.3 C.7.6.16)."""
    data = _header(scan, number, 0, changes)
    suffix = {"CT": "2.1", "MR": "4.1"}[scan.modality]
    data.SOPClassUID = data.file_meta.MediaStorageSOPClassUID = f"1.2.840.10008.5.1.4.1.1.{suffix}"
    shared, measures, facing = Dataset(), Dataset(), Dataset()
    measures.PixelSpacing = [planes[0].pitch[1], planes[0].pitch[0]]
    facing.ImageOrientationPatient = [*planes[0].across, *planes[0].down]
    shared.PixelMeasuresSequence, shared.PlaneOrientationSequence = [measures], [facing]
    if scan.modality == "CT":
        values = Dataset()
        values.RescaleSlope, values.RescaleIntercept, values.RescaleType = 1, -1024, "HU"
        shared.PixelValueTransformationSequence = [values]
        del data.RescaleSlope, data.RescaleIntercept
    data.SharedFunctionalGroupsSequence = [shared]
    groups = []
    for plane in planes:
        group, place = Dataset(), Dataset()
        place.ImagePositionPatient = [round(part, 4) for part in plane.position]
        group.PlanePositionSequence = [place]
        groups.append(group)
    data.PerFrameFunctionalGroupsSequence = groups
    data.NumberOfFrames = len(planes)
    data.Rows, data.Columns = made[0].shape
    data.PixelData = b"".join(pixels.astype("<i2").tobytes() for pixels in made)
    return data
