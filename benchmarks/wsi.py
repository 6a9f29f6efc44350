"""Slides are not sanitised yet: none may reach a release, and no marker of theirs any file.

    python benchmarks/wsi.py OUT [--workers N]

Makes the synthetic slides of bench/wsi (where imagecodecs is installed, which that script needs), adds
those of data/wsi, and releases them together with one DICOM object. Exits 1 when a slide, a marker of
one or a run of bytes of one is found in the release.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from common import everything_written, fresh, run, script, shared, survivors, table


def markers_of(slides: Path) -> list[bytes]:
    """Every needle that the maker of the slides listed, in one byte and two bytes a character."""
    listed = json.loads((slides / "markers.json").read_text())
    needles = [str(marker["needle"]) for marker in listed if isinstance(marker["needle"], str)]
    spelled = {needle.encode(code) for needle in needles for code in ("utf-8", "utf-16-le")}
    return sorted(one for one in spelled if len(one) >= 6)


def pieces(path: Path) -> list[bytes]:
    """Three runs of 24 bytes of a slide that are not all alike."""
    data = path.read_bytes()
    runs = [data[len(data) * part // 4 :][:24] for part in (1, 2, 3)]
    return [run for run in runs if len(set(run)) > 8]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, search, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    out, where = fresh(given.out), shared()
    slides = out / "export" / "slides"
    slides.mkdir(parents=True)
    markers = []
    if find_spec("imagecodecs") is None:
        print("No synthetic slides: imagecodecs is not installed.", file=sys.stderr)
    else:
        script(where / "bench" / "wsi" / "make_slides.py", slides)
        markers = markers_of(slides)
        (slides / "markers.json").unlink()
    for path in sorted((where / "data" / "wsi").iterdir()):
        if path.suffix not in (".md", ".dcm"):
            shutil.copyfile(path, slides / path.name)
    given_slides = [path for path in slides.rglob("*") if path.is_file()]
    total = len(given_slides)
    markers += [one for path in given_slides for one in pieces(path)]
    shutil.copyfile(wheel_file("CT_small.dcm"), out / "export" / "ct.dcm")
    ran = run(out / "run", out / "export", "ps3.15-basic", workers=given.workers)
    left = survivors(everything_written(ran), markers, ran.folder)
    foreign = [path for path in ran.released() if path.suffix != ".dcm"]
    rows = [
        ("files given", total + 1),
        ("objects released", len(ran.released())),
        ("files in the release that are no DICOM objects", len(foreign)),
        ("quarantined", json.dumps(ran.result.get("quarantined", {}))),
        ("dropped", json.dumps(ran.result.get("dropped", {}))),
        (f"of {len(markers)} markers, found in any byte written", len(left)),
    ]
    print(table(("what", "result"), rows))
    return int(bool(left or foreign))


def wheel_file(name: str) -> str:
    """One of pydicom's own test files."""
    from pydicom.data import get_testdata_file

    return str(get_testdata_file(name, download=False))


if __name__ == "__main__":
    sys.exit(main())
