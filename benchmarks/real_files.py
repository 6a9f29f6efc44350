"""Real files: how many of the objects that a reader can decode are released, and why the others not.

    python benchmarks/real_files.py [FOLDER ...] [--preset research]

Pydicom's test files are always read, and every folder that is named here or in MEDSANITIZE_REAL_FILES, which
lists folders as PATH does. Objects are de-identified one by one, without the check for faces, which is one of
series. An object counts as decodable if pydicom reads its data set to the end and decodes its pixels, if it
has any. Exits 1 if a preset releases less than 99 % of these.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pydicom
from common import table
from pydicom.uid import DeflatedExplicitVRLittleEndian

UNDEFINED = 0xFFFFFFFF
PRESETS = ("ps3.15-basic", "research", "hipaa-safe-harbor")
BAR = 0.99


@dataclass(frozen=True)
class Counted:
    """Objects of one source under one preset; ``held`` are (rule, file) of decodable ones not released."""

    decodable: int
    held: tuple[tuple[str, str], ...]
    undecodable: tuple[tuple[str, str], ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """De-identify, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--preset", choices=PRESETS, action="append", help="by default all")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # pydicom's warnings quote values
    named = os.environ.get("MEDSANITIZE_REAL_FILES", "")
    folders = [own_files(), *given.folders, *(Path(one) for one in named.split(os.pathsep) if one)]
    rows, met = [], True
    for folder in folders:
        for preset in given.preset or PRESETS:
            counted = count(folder, preset)
            released = counted.decodable - len(counted.held)
            share = released / counted.decodable if counted.decodable else 1.0
            met = met and share >= BAR
            rows.append((folder.name, preset, counted.decodable, released, f"{100 * share:.2f}"))
            for what, those in (("held", counted.held), ("undecodable", counted.undecodable)):
                for rule, name in those:
                    print(f"{folder.name}, {preset}: {what} by {rule}: {name}", file=sys.stderr)
    print(table(("files", "preset", "decodable", "released", "%"), rows))
    return int(not met)


def own_files() -> Path:
    """The folder of pydicom's test files."""
    return Path(pydicom.__file__).parent / "data" / "test_files"


def count(folder: Path, preset: str) -> Counted:
    """De-identify every DICOM object of a folder."""
    from medsanitize import Deidentifier, ReleaseKey

    deidentify = Deidentifier({"preset": preset, "pixels": {"faces": "ignore"}}, ReleaseKey.generate())
    decodable, held, undecodable = 0, [], []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        result = deidentify(path)
        if result.kind in ("dicomdir", "not-an-image", "raster", "slide"):
            continue
        readable = decodes(path)
        decodable += readable
        if str(result.outcome) != "released":
            rule = result.findings[0].rule if result.findings else "unknown"
            (held if readable else undecodable).append((rule, path.name))
    return Counted(decodable, tuple(held), tuple(undecodable))


def decodes(path: Path) -> bool:
    """Whether pydicom reads the whole data set, and its decoders the pixels."""
    from pydicom.pixels.utils import iter_pixels

    try:
        data_set = pydicom.dcmread(path, force=True)
        if not len(data_set) or _is_cut(path, data_set):
            return False
        if "PixelData" not in data_set or "Rows" not in data_set:
            return True
        for _ in iter_pixels(data_set, raw=True):
            pass
    except Exception:  # noqa: BLE001  whatever a reader raises, it did not read the object
        return False
    return True


def _is_cut(path: Path, data_set: pydicom.Dataset) -> bool:
    """Whether the file ends before its last element does, which pydicom reads without a word."""
    if data_set.file_meta.get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
        return False
    last = data_set.get_item(max(data_set.keys()))
    # A value that was not converted yet states its length and place; one read from the end is shorter.
    length, place = getattr(last, "length", 0), getattr(last, "value_tell", 0)
    return length != UNDEFINED and place + length > path.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
