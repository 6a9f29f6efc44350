"""Prepare real images as grounds: gray values, and where text of their own may be.

    python -m medsanitize.tools.text_detector.prepare OUT FOLDER [FOLDER ...] [--half train|report]

Reads DICOM, PNG and JPEG files. Files are divided by the digest of their names: half of them is for training,
the other half for measuring. Text that OCR finds is marked, and is neither text nor
ground in training.
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
            if half_of(path) != given.half:
                continue
            for number, values in enumerate(gray_images(path)):
                digest = hashlib.sha256(values.tobytes()).hexdigest()[:16]
                if digest in seen:
                    continue
                seen.add(digest)
                name = f"{path.stem[:40]}-{number}-{digest}.npz"
                np.savez_compressed(given.out / name, values=values, unknown=own_text(reader, values))
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
