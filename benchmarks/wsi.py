"""Release slides of every vendor; search for remaining identifiers and for changes that a viewer would show.

    python benchmarks/wsi.py OUT [--plain] [--seed N] [--workers N]

Makes the synthetic slides of bench/wsi, adds the real ones of data/wsi, releases both under the preset
research, and scores the synthetic ones with bench/wsi/measure.py. Of the markers that are bytes of pictures,
those that the source repeats many times are excluded: they are runs of white. Exits 1 if a marker, label or
macro remains, or a viewer shows anything else than in the source.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from common import Ran, fresh, medsanitize, run, script, shared, table

_DATE = re.compile(rb"(?<!\d)(?:19|20)\d\d[-:/](?:0[1-9]|1[0-2])[-:/](?:[0-2]\d|3[01])(?!\d)")
_TOLD = re.compile(
    rb"(?i)(?:user|filename|title|imageid|barcode|scanscope id|serial\w*|s/n|slideid|computername|reference)"
    rb"\s*[=>]\s*\"?([A-Za-z0-9][^|\"<>\r\n\0]{4,60})"
)
# More occurrences in the source than a unique piece of a label or macro has.
_REPEATED = 8


def planted(out: Path, seed: int, *, plain: bool) -> tuple[Path, Path]:
    """Make the slides: a folder with them, and another with the answer keys."""
    export, side = out / "slides", out / "side"
    side.mkdir()
    flags = ["--plain"] if plain else []
    script(shared() / "bench" / "wsi" / "make_slides.py", export, "--seed", str(seed), *flags)
    for name in ("markers.json", "ref"):
        shutil.move(export / name, side / name)
    return export, side


def measure(where: Path) -> ModuleType:
    """Import the scoring script of bench/wsi as a module."""
    spec = importlib.util.spec_from_file_location("measure", where / "bench" / "wsi" / "measure.py")
    if spec is None or spec.loader is None:
        sys.exit("bench/wsi/measure.py is missing.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def released_from(ran: Ran) -> dict[str, str]:
    """Original name of every main file or UID -> name in the release, by the ledger."""
    ledger = ran.folder / "ledger.csv"
    done = medsanitize("ledger", ran.folder / "policy.yaml", "--uids", ledger, cwd=ran.folder)
    if done.returncode != 0:
        sys.exit(f"The ledger could not be read: {done.stderr[-500:]}")
    with ledger.open(encoding="utf-8", newline="") as file:
        return {row["id_old"]: row["id_new"] for row in csv.DictReader(file)}


def sorted_out(ran: Ran, export: Path, target: Path) -> None:
    """Copy the released files of each folder of ``export`` to a folder of the same name."""
    names = released_from(ran)
    for folder in sorted(path for path in export.iterdir() if path.is_dir()):
        out = target / folder.name
        out.mkdir(parents=True)
        for source in sorted(path for path in folder.rglob("*") if path.is_file()):
            if source.suffix == ".dcm":
                from pydicom import dcmread

                new = names.get(str(dcmread(source, stop_before_pixels=True).SOPInstanceUID), "")
            else:
                new = names.get(source.name, "")
            for found in ran.data.glob(f"*/*/*/{new}*") if new else ():
                place = out / found.name
                shutil.copytree(found, place) if found.is_dir() else shutil.copyfile(found, place)


def markers(side: Path, export: Path) -> tuple[list[dict[str, str]], int]:
    """The planted markers without unspecific picture bytes, and the number of those.

    Such bytes encode white or flat areas in any JPEG: the source repeats them many times.
    """
    listed = json.loads((side / "markers.json").read_text())["markers"]
    sources: dict[str, bytes] = {}
    kept = []
    for one in listed:
        # An AFI list refers to SVS files, which are in their folder.
        one["format"] = "svs" if one["format"] == "afi" else one["format"]
        if one["kind"] == "image":
            files = (path for path in sorted((export / one["format"]).rglob("*")) if path.is_file())
            if one["format"] not in sources:
                sources[one["format"]] = b"".join(path.read_bytes() for path in files)
            if sources[one["format"]].count(bytes.fromhex(one["needle"])) > _REPEATED:
                continue
        kept.append(one)
    return kept, len(listed) - len(kept)


def tiles_apart(given: str, made: str) -> int:
    """Tiles of the source's pages that are missing in the release; a macro may be tiled as well."""
    import tifffile

    try:
        with tifffile.TiffFile(given) as old, tifffile.TiffFile(made) as new:
            shapes = {page.shape for page in new.pages}
            return sum(
                len(page.dataoffsets) for page in old.pages if page.is_tiled and page.shape not in shapes
            )
    except tifffile.TiffFileError:
        return 0


def scores(score: ModuleType, side: Path, export: Path, out: Path) -> Iterator[tuple[str, bool, list[Any]]]:
    """A row of the table for every format."""
    planted, _ = markers(side, export)
    for kind in sorted({one["format"] for one in planted}):
        files = score.files_of(str(out / kind))
        given, made = score.first_open(score.files_of(str(export / kind))), score.first_open(files)
        if made is None:
            yield kind, False, [kind, "-", "does not open", "-", "-", "-"]
            continue
        found = score.score(kind, given, made, files, planted, str(side / "ref"))
        tiles = found.get("tiles", "-")
        viewer = all(
            found.get(name) for name in ("opens", "vendor_ok", "mpp_ok", "power_ok", "levels_ok", "pixels")
        )
        apart = tiles_apart(given, made)
        same = tiles == "-" or int(tiles.split("/")[0]) + apart == int(tiles.split("/")[1])
        tiles += f" ({apart} are of the macro)" if apart else ""
        clean = viewer and same and not found["left"] and not found["pictures"]
        told = [
            kind,
            f"{found['left']} of {found['total']}",
            found.get("vendor") if found.get("vendor_ok") else "lost",
        ]
        yield kind, clean, [*told, "same" if viewer else "differ", found["pictures"] or "none", tiles]


def told_by(path: Path) -> set[bytes]:
    """Dates and values of identifying keys (people, devices, files) in the metadata of a real slide."""
    data = path.read_bytes()
    # Removing null bytes turns UTF-16 texts into ASCII.
    plain = data.replace(b"\0", b"")
    found = set(_DATE.findall(plain)) | {value.strip() for value in _TOLD.findall(plain)}
    return {one for one in found | {path.stem.encode()} if len(one) > 5}


def real_ones(ran: Ran, slides: Sequence[Path]) -> Iterator[list[Any]]:
    """Dates, serial numbers, users and file names of every real slide that occur in its release."""
    names = released_from(ran)
    for path in slides:
        new = names.get(path.name, "-")
        data = b"".join(one.read_bytes() for one in ran.data.glob(f"*/*/*/{new}*"))
        told = told_by(path)
        # UTF-16 as well: several vendors store XML and INI texts in it.
        left = sum(one in data or one.decode("latin-1").encode("utf-16-le") in data for one in told)
        yield [path.suffix, f"{left} of {len(told)}", "released" if data else "not released"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make, release, score, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    out, where = fresh(given.out), shared()
    export, side = planted(out, given.seed, plain=given.plain)
    ran = run(out / "run", export, "research", workers=given.workers)
    sorted_out(ran, export, out / "sorted")
    score = measure(where)
    rows = list(scores(score, side, export, out / "sorted"))
    head = ("format", "markers left", "vendor", "levels, mpp, power, pixels", "pictures", "tiles identical")
    print(table(head, [row for _, _, row in rows]))
    white = markers(side, export)[1]
    print(f"\nLeft out: {white} markers that are runs of flat picture data, which the source repeats.")
    real = out / "real"
    shutil.copytree(where / "data" / "wsi", real, ignore=shutil.ignore_patterns("*.md", "*.dcm"))
    slides = sorted(real.iterdir())
    again = run(out / "run-real", real, "research", workers=given.workers)
    outcomes = list(real_ones(again, slides))
    print("\n" + table(("real slide", "told by its metadata, left", "outcome"), outcomes))
    failed = [kind for kind, clean, _ in rows if not clean]
    left = [row for row in outcomes if not row[1].startswith("0 ") or row[2] != "released"]
    return int(bool(failed or left))


if __name__ == "__main__":
    sys.exit(main())
