"""Baseline for small files: pydicom reads a file, touches every value, and writes it.

    python benchmarks/yardstick.py SOURCE TARGET

Prints the CPU seconds for all files of a folder; imports and one warm-up file are excluded.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import pydicom


def touch(data_set: pydicom.Dataset) -> None:
    """Decode every value, including those in sequences."""
    for element in data_set:
        if element.VR == "SQ":
            for item in element.value:
                touch(item)
        else:
            element.value  # noqa: B018  reading decodes the value


def read_touch_write(source: Path, target: Path) -> float:
    """CPU seconds for all files of a folder."""
    target.mkdir(parents=True)
    paths = sorted(source.iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _one(paths[0], target)
        before = time.process_time()
        for path in paths:
            _one(path, target)
        return time.process_time() - before


def _one(path: Path, target: Path) -> None:
    data_set = pydicom.dcmread(path)
    touch(data_set)
    data_set.save_as(target / path.name)


if __name__ == "__main__":
    print(read_touch_write(Path(sys.argv[1]), Path(sys.argv[2])))
