"""Planted identifiers: what survives, what is quarantined, what remains valid and useful.

    python benchmarks/peers.py OUT [--workers N]

Runs the four planted sets under ps3.15-basic, and the sets that measure utility and intervals under research
as well; scores them with the scripts of the sets, searches all written bytes for the markers of their
set, and has every released object compared with its source by dciodvfy, pydicom and GDCM (`validation: all`).
Exits 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from common import (
    EVERY_OBJECT,
    Ran,
    everything_written,
    fresh,
    introduced_errors,
    run,
    script,
    shared,
    survivors,
    table,
)

SETS = ("dense", "real", "nasty", "ref")
ME = "medsanitize"
REFUSED = 3
LEAST = {"dense": 0, "real": 262, "nasty": 48, "ref": 0}


def lay_out(folder: Path, runs: dict[str, Ran]) -> Path:
    """Arrange releases as the scoring scripts expect: FOLDER/medsanitize/SET."""
    for name, ran in runs.items():
        (folder / ME).mkdir(parents=True, exist_ok=True)
        if ran.data.is_dir():
            (folder / ME / name).symlink_to(ran.data, target_is_directory=True)
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    """Read a table written by a script."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def marker_rows(planted: Path, runs: dict[str, Ran]) -> list[tuple[str, int, int, list[tuple[str, str]]]]:
    """Set, markers, released files, and (file, marker id) of every survivor in any written byte."""
    recorded = json.loads((planted / "markers.json").read_text())
    rows = []
    for name, ran in runs.items():
        records = [
            (one["id"], one[kind])
            for file, entry in recorded.items()
            if file.startswith(f"{name}/")
            for one in entry["recs"]
            for kind in ("hex", "alt")
            if one.get(kind)
        ]
        markers = [bytes.fromhex(value) for _, value in records]
        left = survivors(everything_written(ran), markers, ran.folder)
        named = [(file, str(records[number][0])) for file, number in left]
        rows.append((name, len(markers), len(ran.released()), named))
    return rows


def judge(label: str, value: object, target: str, met: bool) -> tuple[str, object, str, str]:
    """Format one line of the results table."""
    return label, value, target, "met" if met else "**missed**"


def score(
    planted: Path, out: Path, e11: Path, runs: dict[str, dict[str, Ran]]
) -> list[tuple[str, object, str, str]]:
    """Score both presets with the scripts of the sets."""
    scripts = planted.parent
    results: list[tuple[str, object, str, str]] = []
    for preset, ran in runs.items():
        laid, kept = lay_out(out / preset / "laid-out", ran), out / preset / "results"
        kept.mkdir()
        script(scripts / "evaluate.py", planted, laid, kept, ME)
        for row in rows_of(kept / "flags.csv"):
            least = LEAST[row["set"]] if preset == "ps3.15-basic" else 0
            met = int(row["outputs"]) >= least
            results.append(
                judge(
                    f"{preset}, {row['set']}: released",
                    f"{row['outputs']} of {row['inputs']}",
                    f">= {least}",
                    met,
                )
            )
        left = len(rows_of(kept / "survivors.csv"))
        results.append(judge(f"{preset}: survivors (evaluate.py)", left, "0", left == 0))
        for row in rows_of(kept / "uids_dates.csv"):
            follow, days = row["refs_follow"], row["studydate_interval_days(in=37)"]
            results.append(judge(f"{preset}: references that follow", follow, "12/12", follow == "12/12"))
            if preset == "research":
                results.append(judge(f"{preset}: interval in days", days, "37", days == "37"))
        results.extend(score_validity(preset, ran))
        script(scripts / "utility.py", planted, laid, e11, kept, ME)
        kept_share = float(rows_of(kept / "utility.csv")[0]["percent"])
        if preset == "research":
            results.append(
                judge(f"{preset}: public elements unchanged, %", kept_share, ">= 99.0", kept_share >= 99.0)
            )
        else:
            results.append((f"{preset}: public elements unchanged, %", kept_share, "", ""))
    return results


def score_validity(preset: str, runs: dict[str, Ran]) -> list[tuple[str, object, str, str]]:
    """Judge how many objects a run holds back for an error that the source has not."""
    results = []
    for name, ran in runs.items():
        held, compared, concerned = introduced_errors(ran)
        looked = f"{compared} of {concerned} objects"
        label = f"{preset}, {name}: introduced errors in {looked} read by a validator"
        results.append(judge(label, held, "0", not held) if compared else (label, "not made", "0", ""))
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, score, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    out, planted = fresh(given.out), shared() / "bench" / "peers" / "planted"
    e11 = shared() / "reference" / "ps3.15-table-E.1-1.json"
    runs = {
        preset: {
            name: run(
                out / preset / name,
                planted / name,
                preset,
                workers=given.workers,
                also=(REFUSED,),
                more=EVERY_OBJECT,
            )
            for name in (SETS if preset == "ps3.15-basic" else ("real", "ref"))
        }
        for preset in ("ps3.15-basic", "research")
    }
    results = []
    for preset, ran in runs.items():
        for name, markers, released, left in marker_rows(planted, ran):
            results.append(
                judge(f"{preset}, {name}: {markers} markers in any byte", len(left), "0", not left)
            )
            if ran[name].code == REFUSED:
                results.append(judge(f"{preset}, {name}: release", "refused by a gate", "published", False))
            for file, marker in left[:20]:
                print(f"survivor: {preset}/{name}: {file}: marker {marker}", file=sys.stderr)
            print(f"{preset}, {name}: {released} objects released", file=sys.stderr)
            for rule, count in sorted(ran[name].result.get("quarantined", {}).items()):
                print(f"  quarantined by {rule}: {count}", file=sys.stderr)
    results.extend(score(planted, out, e11, runs))
    print(table(("what", "result", "target", ""), results))
    return int(any(verdict.startswith("**") for _, _, _, verdict in results))


if __name__ == "__main__":
    sys.exit(main())
