"""Prepare real images as grounds: gray values, and where text of their own may be.

    python -m medsanitize.tools.text_detector.prepare OUT FOLDER [FOLDER ...] [--half train|report]

Reads DICOM, PNG, JPEG and NIfTI files. Files are divided by the digest of their names: half of them is for
training, the other half for measuring; a NIfTI volume, of which there are few, is cut into slabs, which are
divided in the same way. Text that OCR finds is marked, and is neither text nor ground in training. Slices of
volumes and mosaics of slices have no text, whatever OCR sees in them.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import pydicom
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.text_map import CELL
from medsanitize.tools.text_detector.grounds import Mask, Values
from PIL import Image

_LARGEST = 1400
_SMALLEST = 64
# Margin (pixels) around text of the image itself.
_AROUND = 6
_FRAMES = 2
_VOLUMES = (".nii", ".nii.gz")
# Slices of a slab of a volume, and tiles along a side of a mosaic.
_SLAB, _TILES = 16, (2, 3, 4, 6)
# Largest standard deviation of noise, as a part of the range of values.
_NOISE = 0.06


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one file per image; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--half", choices=("train", "report"), default="train")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    reader, seen = TextReader(), set()
    for folder in given.folders:
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            is_volume = path.name.endswith(_VOLUMES)
            if not is_volume and half_of(path) != given.half:
                continue
            images = volume_images(path, given.half) if is_volume else gray_images(path)
            for number, values in enumerate(images):
                digest = hashlib.sha256(values.tobytes()).hexdigest()[:16]
                if digest in seen:
                    continue
                seen.add(digest)
                name = f"{path.stem[:40]}-{number}-{digest}.npz"
                unknown = np.zeros(values.shape, bool) if is_volume else own_text(reader, values)
                np.savez_compressed(given.out / name, values=values, unknown=unknown)
    print(len(seen))
    return 0


def half_of(path: Path) -> str:
    """Return the half, ``train`` or ``report``, to which a file belongs by its name."""
    return "train" if hashlib.sha256(path.name.encode()).digest()[0] % 2 else "report"


def gray_images(path: Path) -> Iterator[Values]:
    """Yield a few frames of a file as stored gray values; nothing for files that are no images."""
    try:
        if path.suffix.lower() in (".png", ".jpg", ".jpeg"):
            frames = [np.asarray(Image.open(path).convert("L"), np.float32)]
        else:
            frames = list(_dicom_frames(path))
    except Exception:  # noqa: BLE001 - folders of any content: what cannot be decoded is no ground
        return
    for frame in frames:
        if min(frame.shape) < _SMALLEST or frame.min() == frame.max():
            continue
        top, left = (max(0, side - _LARGEST) // 2 for side in frame.shape)
        yield np.ascontiguousarray(frame[top : top + _LARGEST, left : left + _LARGEST], np.float32)


def _dicom_frames(path: Path) -> Iterator[Values]:
    dataset = pydicom.dcmread(path)
    pixels = np.asarray(dataset.pixel_array, np.float32)
    if dataset.SamplesPerPixel > 1:
        pixels = pixels[..., :3].mean(axis=-1)
    pixels = pixels.reshape(-1, *pixels.shape[-2:])
    step = max(1, len(pixels) // _FRAMES)
    yield from pixels[::step][:_FRAMES]


def volume_images(path: Path, half: str) -> Iterator[Values]:
    """Yield a slice and a mosaic, with noise, of each slab of a NIfTI volume that belongs to a half."""
    import nibabel  # installed for training only

    volume = np.asarray(nibabel.load(path).dataobj, np.float32)
    volume = volume.reshape(*volume.shape[:3], -1)[..., 0]
    rng = np.random.default_rng(0)
    for axis in range(3):
        slices = np.moveaxis(volume, axis, 0)
        for first in range(0, len(slices), _SLAB):
            if half_of(Path(f"{path.name}-{axis}-{first}")) != half:
                continue
            slab = [one for one in slices[first : first + _SLAB] if np.ptp(one) > 0]
            if len(slab) < _SLAB // 2 or min(slab[0].shape) < _SMALLEST // 2:
                continue
            if min(slab[0].shape) >= _SMALLEST:
                yield _with_noise(rng, slab[len(slab) // 2])
            yield _with_noise(rng, _mosaic(rng, slab))


def _mosaic(rng: np.random.Generator, slab: list[Values]) -> Values:
    """Slices beside and below each other, as scanners store them."""
    tiles, reduced = int(rng.choice(_TILES)), int(rng.integers(1, 4))
    chosen = [slab[int(at)][::reduced, ::reduced] for at in rng.integers(len(slab), size=tiles * tiles)]
    rows = [np.hstack(chosen[at : at + tiles]) for at in range(0, len(chosen), tiles)]
    return np.vstack(rows)[:_LARGEST, :_LARGEST]


def _with_noise(rng: np.random.Generator, values: Values) -> Values:
    """Add the noise of a magnitude image (a Rice distribution) and round to stored values of 12 bits."""
    low, span = float(values.min()), float(np.ptp(values))
    deviation = float(rng.uniform(0, _NOISE))
    first, second = rng.normal(0, deviation, (2, *values.shape))
    noisy = np.hypot((values - low) / span + first, second)
    return np.ascontiguousarray(np.round(noisy * rng.uniform(200, 4095)), np.float32)


def own_text(reader: TextReader, values: Values) -> Mask:
    """Mark text that an image has already."""
    low, high = float(values.min()), float(values.max())
    picture = ((values - low) / (high - low) * 255).astype(np.uint8)
    found = np.zeros(picture.shape, np.uint8)
    everywhere = np.ones([-(-side // CELL) for side in picture.shape], np.float32)
    read = reader.read(picture, everywhere)
    boxes = [(one.left, one.top, one.right, one.bottom) for one in read if one.text]
    for left, top, right, bottom in boxes:
        found[max(0, top - _AROUND) : bottom + _AROUND, max(0, left - _AROUND) : right + _AROUND] = 1
    return np.asarray(cv2.dilate(found, np.ones((5, 5), np.uint8)) > 0)


if __name__ == "__main__":
    sys.exit(main())
