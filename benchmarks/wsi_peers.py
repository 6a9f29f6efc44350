"""Other tools on the slides of bench/wsi and the real ones, compared with medsanitize.

    python benchmarks/wsi_peers.py OUT --python /path/to/venv/bin/python [--plain] [--seed N]

The interpreter must have pathsafe, tifftools and wsidicomizer with their commands next to it, and
libturbojpeg (a system library; otherwise set the variable TURBOJPEG). PathSafe and wsidicomizer run with all
their options; tifftools is a library, so it runs the usual script of its users, which removes pages of labels
and macros, tags that identify people, dates and devices, and Aperio's keys for them. A cell lists remaining
markers and other defects. The exit code is always 0.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from common import fresh, machine, run, shared, table
from wsi import measure, planted, real_ones, scores, sorted_out, told_by

TIFFTOOLS = """
import re, sys
import tifftools
source, target = sys.argv[1:]
info = tifftools.read_tiff(source)
people = {269, 285, 305, 306, 315, 316, 700, 33432, 34377, 34675, 65427, 65428, 65442, 65449}
keys = r"\\|(?:ScanScope ID|Filename|Title|Date|Time|Time Zone|User|ImageID|Barcode|Rack|Slide|DSR ID)[^|]*"
kept = []
for page in info["ifds"]:
    tags = page["tags"]
    said = str(tags.get(270, {}).get("data", ""))
    kind = tags.get(254, {}).get("data", [0])[0]
    lens = tags.get(65421, {}).get("data", [1])[0]
    named = re.search("(?i)label|macro", said) or kind in (1, 9)
    if named and 324 not in tags or lens < 0:
        continue
    for tag in people & set(tags):
        if tag != 305:
            del tags[tag]
    if 270 in tags:
        tags[270]["data"] = re.sub(keys, "", said)
    kept.append(page)
info["ifds"] = kept
tifftools.write_tiff(info, target)
"""
_TIFFS = frozenset([".svs", ".ndpi", ".tif", ".tiff", ".scn", ".bif", ".qptiff"])
_LIMIT = 300
# Python, a folder with one slide, output folder: whether the tool reported success.
Tool = Callable[[Path, Path, Path], bool]


def called(*command: str | Path) -> bool:
    """Run the command of another tool; a timeout is a failure."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, check=False, timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main_files(folder: Path) -> list[Path]:
    """The files of a folder that are the input of a tool."""
    wanted = _TIFFS | {".mrxs", ".vms"}
    return sorted(path for path in folder.iterdir() if path.suffix in wanted or path.is_dir())


def by_pathsafe(python: Path, source: Path, target: Path) -> bool:
    """PathSafe's own command on the folder, with its own file names."""
    return called(
        python.parent / "pathsafe", "deidentify", source, "-o", target, "--rename", "auto", "-y", "-w", "1"
    )


def by_tifftools(python: Path, source: Path, target: Path) -> bool:
    """The script above on every TIFF."""
    slides = [path for path in main_files(source) if path.suffix in _TIFFS]
    ran = (
        called(python, "-c", TIFFTOOLS, path, target / f"slide{number}{path.suffix}")
        for number, path in enumerate(slides)
    )
    return bool(slides) and all(list(ran))


def by_wsidicomizer(python: Path, source: Path, target: Path) -> bool:
    """Convert without label, overview and confidential metadata."""
    flags = ("--no-label", "--no-overview", "--no-confidential", "-w", "1")
    ran = (
        called(python.parent / "wsidicomizer", "-i", path, "-o", target / f"slide{number}", *flags)
        for number, path in enumerate(main_files(source))
    )
    return all(list(ran))


TOOLS: dict[str, Tool] = {
    "PathSafe": by_pathsafe,
    "tifftools script": by_tifftools,
    "wsidicomizer": by_wsidicomizer,
}


def cell(row: Sequence[Any]) -> str:
    """Summarize a row of `wsi.scores`."""
    kind, left, vendor, viewer, pictures, tiles = row
    if vendor == "does not open":
        return "does not open"
    given = [str(left).replace(" of ", "/")]
    given += ["V-"] if vendor == "lost" else []
    given += ["differs"] if viewer == "differ" and vendor != "lost" else []
    given += ["P"] if pictures not in ("none", "-") else []
    found = [int(one) for one in re.findall(r"\d+", str(tiles))]
    of_macro = found[2] if kind == "scn" and len(found) > 2 else 0
    given += [f"tiles {found[0]}/{found[1] - of_macro}"] if found and found[0] + of_macro != found[1] else []
    return " ".join(given)


def outcome(path: Path, files: Sequence[Path]) -> str:
    """For a real slide: identifiers of its metadata that remain, whether vendor and levels are equal."""
    from openslide import OpenSlide, OpenSlideError

    data = b"".join(one.read_bytes() for one in files)
    told = told_by(path)
    left = sum(one in data or one.decode("latin-1").encode("utf-16-le") in data for one in told)
    said = [f"{left}/{len(told)}" if data else "nothing written"]
    for one in files:
        try:
            with OpenSlide(path) as old, OpenSlide(one) as new:
                said += (
                    ["V-"] if old.properties["openslide.vendor"] != new.properties["openslide.vendor"] else []
                )
                said += ["levels"] if old.level_dimensions != new.level_dimensions else []
                said += ["P"] if {"label", "macro"} & set(new.associated_images) else []
            break
        except OpenSlideError:
            continue
    return " ".join(said)


def real_slides(python: Path, out: Path) -> Iterator[list[str]]:
    """One row per real slide, one column per tool."""
    for path in sorted((shared() / "data" / "wsi").iterdir()):
        if path.suffix not in _TIFFS:
            continue
        alone = out / "real" / path.stem / "source"
        alone.mkdir(parents=True)
        shutil.copyfile(path, alone / path.name)
        row = [path.suffix]
        for name, tool in TOOLS.items():
            target = alone.parent / name
            target.mkdir()
            done = tool(python, alone, target)
            files = sorted(one for one in target.rglob("*") if one.is_file())
            row.append(outcome(path, files) + ("" if done else " (failed)"))
        ran = run(alone.parent / "run", alone, "research", workers=1, also=(3,))
        told = next(iter(real_ones(ran, [alone / path.name])))[1]
        row.append(str(told).replace(" of ", "/"))
        yield row


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the slides, run all tools on them, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", type=Path, required=True, help="interpreter that has the other tools")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args(arguments)
    out, where = fresh(given.out), shared()
    export, side = planted(out, given.seed, plain=given.plain)
    cells: dict[str, dict[str, str]] = {}
    seconds: dict[str, float] = {}
    for name, tool in TOOLS.items():
        failed, before = set(), time.monotonic()
        for folder in sorted(export.iterdir()):
            target = out / name / folder.name
            target.mkdir(parents=True)
            if not tool(given.python, folder, target):
                failed.add(folder.name)
        seconds[name] = time.monotonic() - before
        scored = scores(measure(where), side, export, out / name)
        cells[name] = {kind: cell(row) + (" (failed)" if kind in failed else "") for kind, _, row in scored}
    before = time.monotonic()
    sorted_out(run(out / "run", export, "research", workers=1), export, out / "medsanitize")
    seconds["medsanitize"] = time.monotonic() - before
    scored = scores(measure(where), side, export, out / "medsanitize")
    cells["medsanitize"] = {kind: cell(row) for kind, _, row in scored}
    print(f"{machine()}\n")
    kinds = sorted(cells["medsanitize"])
    print(table(("format", *cells), [[kind, *(cells[name][kind] for name in cells)] for kind in kinds]))
    print("\nSeconds: " + ", ".join(f"{name} {value:.0f}" for name, value in seconds.items()))
    print("\n" + table(("real slide", *cells), real_slides(given.python, out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
