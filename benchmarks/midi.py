"""The MIDI-B-like benchmark: its score, and the files with leaks among those released.

    python benchmarks/midi.py OUT [--workers N]
    python benchmarks/midi.py OUT --seed 2 [--lists benchmarks/midi_lists.json]

Releases bench/midi/public/input, or a variant that midi_make.py makes from pydicom's test files with another
seed and other phrases, under research, and scores it with midi_score.py and the data controller's ledger.
Exits 1 if an identifier survives in a released file, the score is below the bar, or a foreign reader finds an
error that the source has not.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from common import (
    EVERY_OBJECT,
    WITHOUT_GDCM,
    fresh,
    introduced_errors,
    medsanitize,
    run,
    script,
    shared,
    table,
)

LEAKS_IN_HEADER = (
    "text_removed",
    "date_shifted",
    "uid_changed",
    "no_leak_file",
    "overlay_clean",
    "path_clean",
)
LEAKS_IN_PIXELS = ("pixels_hidden",)
# Mean difference in gray levels between glyphs and surroundings, on a scale of 255 or more.
LEGIBLE = 0.5
# Percent of all checks; the published record of the challenge is 99.93.
BAR = 99.95


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, score, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, help="make a variant with this seed instead of the public set")
    parser.add_argument("--lists", type=Path, help="phrase lists of the variant")
    given = parser.parse_args(arguments)
    out, bench = fresh(given.out), shared() / "bench" / "midi"
    known = bench / "public" if given.seed is None else variant(bench, out / "bench", given.seed, given.lists)
    ran = run(out / "run", known / "input", "research", workers=given.workers, more=EVERY_OBJECT)
    uids, patients, failures, report = (
        out / name for name in ("uids.csv", "patients.csv", "failures.csv", "score.json")
    )
    linked = medsanitize(
        "ledger", ran.folder / "policy.yaml", "--uids", uids, "--patients", patients, cwd=out
    )
    if linked.returncode != 0:
        sys.exit(f"The ledger could not be exported:\n{linked.stderr}")
    script(
        *(bench / "midi_score.py", "--bench", known, "--output", ran.data),
        *("--uid-map", uids, "--patid-map", patients, "--failures", failures, "--json", report),
        start=("-c", WITHOUT_GDCM),
    )
    code = show(json.loads(report.read_text()), failures, released_sources(uids, ran.released()), known)
    held, compared, concerned = introduced_errors(ran)
    print(f"objects with an introduced error: {held}; {compared} of {concerned} were read by a validator")
    return int(bool(code or held))


def variant(bench: Path, out: Path, seed: int, lists: Path | None) -> Path:
    """Make another variant of the benchmark from the files in pydicom's wheel."""
    import pydicom

    source = Path(pydicom.__file__).parent / "data" / "test_files"
    also = ("--lists", lists.resolve()) if lists else ()
    script(bench / "midi_make.py", "--src", source, "--out", out, "--seed", str(seed), *also)
    return out


def released_sources(uids: Path, released: Sequence[Path]) -> set[str]:
    """Original SOP Instance UIDs of the released objects."""
    import pydicom

    with uids.open(newline="") as file:
        old = {row["id_new"]: row["id_old"] for row in csv.DictReader(file)}
    instances = (str(pydicom.dcmread(path, stop_before_pixels=True).SOPInstanceUID) for path in released)
    return {old[instance] for instance in instances if instance in old}


def legible(bench: Path, instance: str, box: str) -> bool:
    """Whether the glyphs named in the answer key differ from their surroundings.

    The maker draws some texts in the color of a uniform background, which leaves nothing to be removed.
    """
    import io
    import re
    import sqlite3

    import numpy as np
    import pydicom
    from PIL import Image
    from pydicom.pixels.decoders import JPEGBaseline8BitDecoder

    if "gdcm" in JPEGBaseline8BitDecoder.available_plugins:
        JPEGBaseline8BitDecoder.remove_plugin("gdcm")
    key = sqlite3.connect(bench / "answer_key.db")
    (path,) = key.execute("SELECT FilePath FROM answer_data WHERE SOPInstanceUID = ?", (instance,)).fetchone()
    left, top, right, bottom = (int(number) for number in re.findall(r"\d+", box)[:4])
    (mask,) = key.execute(
        "SELECT mask FROM burn WHERE SOPInstanceUID = ? AND x0 = ? AND y0 = ?", (instance, left, top)
    ).fetchone()
    glyphs = np.asarray(Image.open(io.BytesIO(mask))) > 127
    pixels = pydicom.dcmread(bench / "input" / path).pixel_array
    pixels = pixels.reshape(-1, *pixels.shape[-3:])[0] if pixels.ndim == 4 else pixels
    area = pixels[top:bottom, left:right].astype(float)
    return bool(np.any(np.abs(area[glyphs].mean(axis=0) - area[~glyphs].mean(axis=0)) >= LEGIBLE))


def show(
    report: dict[str, dict[str, dict[str, object]]], failures: Path, released: set[str], bench: Path
) -> int:
    """Print the score by action and the leaks in released files."""
    with failures.open(newline="") as file:
        failed = [row for row in csv.DictReader(file) if row["sop"] in released]
    counts = Counter(row["name"] for row in failed)
    rows = [
        (kind, name, tally["pct"], f"{tally['passed']} of {tally['total']}", counts[name])
        for kind in ("midi", "ext")
        for name, tally in report[kind].items()
    ]
    print(table(("part", "check", "%", "passed", "failed in released files"), rows))
    in_header = {row["sop"] for row in failed if row["name"] in LEAKS_IN_HEADER}
    seen = [row for row in failed if row["name"] in LEAKS_IN_PIXELS]
    in_pixels = {row["sop"] for row in seen if legible(bench, row["sop"], row["tag"])}
    print(f"\nreleased: {len(released)} of {report['instances']}")
    print(f"released files with a leak in the header: {len(in_header)}; in the pixels: {len(in_pixels)}")
    print(f"texts of the key that were drawn in the color of their background: {len(seen) - len(in_pixels)}")
    for row in failed:
        if row["name"] in LEAKS_IN_HEADER:
            print(f"leak: {row['name']} {row['tag']} in a {row['modality']} object", file=sys.stderr)
    score = float(str(report["midi"]["TOTAL"]["pct"]))
    print(f"score: {score} % (bar: {BAR} %)")
    return int(bool(in_header or in_pixels or score < BAR))


if __name__ == "__main__":
    sys.exit(main())
