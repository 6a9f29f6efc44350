"""Lossless JPEG of few bits per sample, encoded by hand (T.81 annex H): what other codecs do not write."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pydicom
from numpy.typing import NDArray
from pydicom.data import get_testdata_file
from pydicom.encaps import encapsulate
from pydicom.uid import JPEGLosslessSV1, generate_uid


def lossless_jpeg(samples: NDArray[np.uint8], bits: int) -> bytes:
    """Encode gray samples with the predictor of the left neighbor; categories have codes of four bits."""
    rows, columns = samples.shape
    head = b"\xff\xd8" + _segment(0xC3, bytes([bits]) + _words(rows, columns) + b"\x01\x01\x11\x00")
    counts = bytes([0, 0, 0, 9] + [0] * 12)
    head += _segment(0xC4, b"\x00" + counts + bytes(range(9)))
    head += _segment(0xDA, b"\x01\x01\x00\x01\x00\x00")
    return head + _entropy_coded(samples.astype(int), bits) + b"\xff\xd9"


def _segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + _words(len(body) + 2) + body


def _words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(2, "big") for number in numbers)


def _entropy_coded(samples: NDArray[np.int_], bits: int) -> bytes:
    out = ""
    for row in range(samples.shape[0]):
        # The first sample is predicted by half the range, later rows by the sample above (H.1.2.1).
        left = 1 << (bits - 1) if row == 0 else int(samples[row - 1, 0])
        for value in map(int, samples[row]):
            difference, left = value - left, value
            size = abs(difference).bit_length()
            extra = difference if difference > 0 else difference + (1 << size) - 1
            out += f"{size:04b}" + (f"{extra:0{size}b}" if size else "")
    out += "1" * (-len(out) % 8)
    return int(out, 2).to_bytes(len(out) // 8, "big").replace(b"\xff", b"\xff\x00")


def few_bit_image(number: int, bits: int) -> pydicom.Dataset:
    """A CT whose pixels are such a stream; different for each number."""
    data_set = pydicom.dcmread(str(get_testdata_file("CT_small.dcm", download=False)))
    samples = ((np.add.outer(np.arange(32), np.arange(40)) + number) % (1 << bits)).astype(np.uint8)
    data_set.Rows, data_set.Columns = samples.shape
    data_set.BitsAllocated, data_set.BitsStored, data_set.HighBit = 8, bits, bits - 1
    data_set.PixelRepresentation = 0
    data_set.PixelData = encapsulate([lossless_jpeg(samples, bits)])
    data_set["PixelData"].VR = "OB"
    data_set.file_meta.TransferSyntaxUID = JPEGLosslessSV1
    data_set.SOPInstanceUID = generate_uid(entropy_srcs=[f"few{number}"])
    data_set.file_meta.MediaStorageSOPInstanceUID = data_set.SOPInstanceUID
    return data_set


def write_few_bit_images(folder: Path, count: int) -> None:
    """Write such images of seven bits."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        stream = BytesIO()
        few_bit_image(number, 7).save_as(stream)
        (folder / f"few{number:02d}.dcm").write_bytes(stream.getvalue())
