"""Jobs of federations for the benchmarks: sites of data/cxr, commands and processes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from common import installed, medsanitize
from medsanitize.pipeline.demo.federation import NAMES, Federation
from medsanitize.pipeline.jobs.run_federation import program, result_of

# Of the sources: a collection, national societies with their portals, and the rest, mostly journals.
COLLECTION, SOCIETIES = ("radiopaedia.org",), ("www.sirm.org", "www.eurorad.org", "ml-workgroup")
COLUMNS = ("file", "patient_id", "split", "view", "finding")
Row = Mapping[str, str]


def site_of(row: Row) -> str:
    """The site of an image, by where it was published."""
    source = row["source_url"]
    if urlsplit(source).netloc in COLLECTION:
        return NAMES[0]
    fits = urlsplit(source).netloc in SOCIETIES or SOCIETIES[-1] in source
    return NAMES[1] if fits else NAMES[2]


def tables_of(out: Path, root: Path, chosen: Callable[[Row], bool] = lambda _: True) -> dict[str, Path]:
    """Write a table for each site, and one of all images, of the chosen rows of data/cxr."""
    with (root / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # A patient with images of several sources belongs to the first of them.
    home: dict[str, str] = {}
    for row in rows:
        home.setdefault(row["patient_id"], site_of(row))
    rows = [row for row in rows if chosen(row)]
    parts = {name: [row for row in rows if home[row["patient_id"]] == name] for name in NAMES}
    return {name: written(out / f"{name}.csv", part) for name, part in {**parts, "all": rows}.items()}


def written(path: Path, rows: list[Row]) -> Path:
    """Write a table."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def called(out: Path, *arguments: str | Path) -> dict[str, Any]:
    """Result of a command."""
    done = medsanitize(*arguments, "--json", cwd=out)
    if done.returncode > 1:
        sys.exit(f"A command ended with exit code {done.returncode}: {done.stdout[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(federation: Federation) -> dict[str, Any]:
    """Result of the server, with all sites on this machine."""
    sites = [part for path in federation.sites.values() for part in ("--site", str(path))]
    done = subprocess.run(
        [*program("run"), str(federation.job), *sites, "--json"],
        capture_output=True,
        check=False,
        env=installed(),
    )
    return result_of(done.stdout)


def process(arguments: list[str]) -> subprocess.Popen[bytes]:
    """A process of the federation."""
    return subprocess.Popen(
        [*program(*arguments), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=installed(),
    )
