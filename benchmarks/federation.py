"""Federated training: accuracy, the price of secure aggregation, deaths, and what 50 sites would cost.

    python benchmarks/federation.py OUT [--recipe moments-256] [--kills 6] [--skip-accuracy]

Splits the training images of data/cxr by their source into three sites. Trains a retrieval model at each site
alone, on all images together and federated, each with the command line, and measures P@1 on all test images.
Trains phantoms of three sites with and without secure aggregation, and kills server and sites in turn.
Measures masks and sums, and computes the cost of 50 sites with a million images from them. Exits 1 if the
federated P@1 is more than 2 points below the pooled one or less than 3 above the mean single site, if secure
aggregation takes 2 x the time of plain sums, or if a job that was killed ends with another model.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from common import fresh, machine, medsanitize, shared, table
from medsanitize.pipeline.demo.federation import NAMES, Federation, found_federation, prepare_federation
from medsanitize.pipeline.jobs.run_federation import program, result_of

# Of the sources: a collection, national societies with their portals, and the rest, mostly journals.
COLLECTION, SOCIETIES = ("radiopaedia.org",), ("www.sirm.org", "www.eurorad.org", "ml-workgroup")
BELOW, ABOVE, TIMES = 0.02, 0.03, 2.0
SITES, IMAGES = 50, 1_000_000
LINE = 100e6 / 8


def site_of(row: Mapping[str, str]) -> str:
    """The site of an image, by where it was published."""
    source = row["source_url"]
    if urlsplit(source).netloc in COLLECTION:
        return NAMES[0]
    fits = urlsplit(source).netloc in SOCIETIES or SOCIETIES[-1] in source
    return NAMES[1] if fits else NAMES[2]


def tables_of(out: Path, root: Path) -> dict[str, Path]:
    """Write a table for each site, one of all training images, and one for the test."""
    with (root / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # A patient with images of several sources belongs to the first of them.
    home: dict[str, str] = {}
    for row in rows:
        home.setdefault(row["patient_id"], site_of(row))
    chosen = {
        **{name: [row for row in rows if home[row["patient_id"]] == name] for name in NAMES},
        "all": rows,
    }
    found = {}
    for name, part in chosen.items():
        found[name] = out / f"{name}.csv"
        with found[name].open("w", newline="") as file:
            writer = csv.DictWriter(file, ["file", "patient_id", "split", "view"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(part)
    return found


def called(out: Path, *arguments: str | Path) -> dict[str, Any]:
    """Result of a command."""
    done = medsanitize(*arguments, "--json", cwd=out)
    if done.returncode > 1:
        sys.exit(f"A command ended with exit code {done.returncode}: {done.stdout[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def accuracy(out: Path, recipe: str) -> bool:
    """P@1 of each site alone, of all images together, and federated."""
    root = shared() / "data" / "cxr"
    tables = tables_of(out, root)
    folder = out / "federated"
    folder.mkdir()
    federation = found_federation(folder, {name: (root, tables[name]) for name in NAMES}, recipe)
    began = time.perf_counter()
    told = run(federation)
    seconds = time.perf_counter() - began
    models = {"federated": folder / "federated"}
    images = ("--images", root, "--kind", "radiograph")
    for name in (*NAMES, "all"):
        models[name] = out / f"model-{name}"
        common = ("--labels", tables[name], "--split", "train", "--recipe", recipe)
        called(out, "train", "retrieval", *images, *common, "--output", models[name])
    rows: list[list[object]] = []
    reached: dict[str, float] = {}
    for name, model in models.items():
        measured = called(
            out, "evaluate", *images, "--labels", tables["all"], "--split", "test", "--model", model
        )
        reached[name] = float(measured["retrieval"]["precision_at_1"])
        counts = json.loads((model / "training.json").read_text())["counts"]
        rows.append([name, counts["fit_images"], counts["fit_patients"], f"{reached[name]:.4f}"])
    print(f"\nRecipe {recipe}, data/cxr by source; {told['rounds']} sums in {seconds:.0f} s:\n")
    print(table(["trained on", "images", "patients", "P@1 on all test images"], rows))
    calibrations = {
        name: json.loads((models[name] / "calibration.json").read_text()) for name in ("federated", "all")
    }
    print(
        "\nCalibration patients: "
        + ", ".join(f"{name} {one['patients']}" for name, one in calibrations.items())
    )
    alone = sum(reached[name] for name in NAMES) / len(NAMES)
    within, better = reached["all"] - reached["federated"] <= BELOW, reached["federated"] - alone >= ABOVE
    print(f"Within 2 points of all images together: {within}. 3 points above the mean single site: {better}.")
    return within and better


def run(federation: Federation) -> dict[str, Any]:
    """Result of the server, with all sites on this machine."""
    sites = [part for path in federation.sites.values() for part in ("--site", str(path))]
    done = subprocess.run(
        [*program("run"), str(federation.job), *sites, "--json"], capture_output=True, check=False
    )
    return result_of(done.stdout)


def price(out: Path) -> bool:
    """Wall time with and without secure aggregation on the same phantoms."""
    seconds = {}
    for kind in ("plain", "secure"):
        prepared = prepare_federation(out / kind, patients=12, size=128)
        federation = prepared
        if kind == "plain":
            federation = found_federation(
                out / "plain-job",
                {
                    name: (out / kind / name / "images", out / kind / name / "images" / "labels.csv")
                    for name in NAMES
                },
                plain=True,
            )
        began = time.perf_counter()
        run(federation)
        seconds[kind] = time.perf_counter() - began
    ratio = seconds["secure"] / seconds["plain"]
    print(
        f"\nThe same job on phantoms: {seconds['plain']:.1f} s with plain sums, {seconds['secure']:.1f} s"
        f" with secure aggregation ({ratio:.2f} x)."
    )
    return ratio < TIMES


def deaths(out: Path, kills: int) -> bool:
    """Kill server and sites in turn at random moments; whether every job ends with the undisturbed model."""
    first = prepare_federation(out / "undisturbed", patients=12, size=128)
    began = time.perf_counter()
    expected, length = run(first)["digest"], time.perf_counter() - began
    draw, same, hit = random.Random(0), 0, 0  # noqa: S311  moments, not keys
    images = {name: first.folder / name / "images" for name in NAMES}
    for number in range(kills):
        folder = out / f"killed-{number}"
        folder.mkdir(parents=True)
        federation = found_federation(
            folder, {name: (one, one / "labels.csv") for name, one in images.items()}
        )
        called(out, "federation", "provision", federation.job)
        invitation = str(folder / "job" / "invitation.json")
        commands = {name: ["site", str(path), invitation] for name, path in federation.sites.items()}
        commands["server"] = ["server", str(federation.job)]
        running = {name: process(arguments) for name, arguments in commands.items()}
        victim = ("server", *NAMES)[number % 4]
        time.sleep(draw.uniform(0.1, 0.9) * length)
        if running[victim].poll() is None:
            hit += 1
            running[victim].send_signal(signal.SIGKILL)
            running[victim].communicate()
            running[victim] = process(commands[victim])
        digests = {result_of(one.communicate()[0])["digest"] for one in running.values()}
        same += digests == {expected}
    print(
        f"\nkill -9 of server and sites in turn: {hit} of {kills} were hit; {same} jobs ended with the same"
        " model."
    )
    return same == kills


def process(arguments: list[str]) -> subprocess.Popen[bytes]:
    """A process of the federation."""
    return subprocess.Popen(
        [*program(*arguments), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def costs() -> None:
    """Masks and sums by their measured rates, and what 50 sites with a million images would take."""
    import numpy as np
    from medsanitize.federation.secure_aggregation.collector import added
    from medsanitize.federation.secure_aggregation.masks import add_mask
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.training.moment_sums import COVARIANCES, PRODUCTS, MomentSums
    from medsanitize.verifiers.reid.training.recipes import RETRIEVAL
    from medsanitize.verifiers.reid.training.sums import PHASE

    length = 4_000_000
    vector, content = np.zeros(length, np.uint64), bytes(8 * length)
    cpu = time.process_time()
    add_mask(vector, bytes(32))
    mask = (time.process_time() - cpu) / length
    cpu = time.process_time()
    added([content], length)
    add = (time.process_time() - cpu) / length
    rows: list[list[object]] = []
    for recipe in ("moments-256", "moments"):
        sums = MomentSums(RETRIEVAL[recipe], Modality.RADIOGRAPH, IMAGES)  # type: ignore[arg-type]
        sizes = []
        for phase in (0, COVARIANCES, PRODUCTS):
            state = {PHASE: np.array(float(phase)), "fit_images": np.array(float(IMAGES))}
            sizes.append(sum(int(np.prod(one.shape)) for one in sums.asked(state).values()))
        numbers = sum(sizes)
        rows.append(
            [
                recipe,
                f"{numbers / 1e6:.1f}",
                f"{8 * numbers / 1e6:.0f}",
                f"{8 * numbers / LINE:.0f}",
                f"{numbers * mask * SITES:.0f}",
                f"{SITES * 8 * numbers / 1e9:.1f}",
                f"{numbers * (mask + add) * SITES:.0f}",
            ]
        )
    print(f"\nMeasured: {mask * 1e9:.2f} ns of CPU a number and mask, {add * 1e9:.2f} ns a number added.")
    print(
        f"Computed for {SITES} sites; the number of images changes only what each site computes by itself:\n"
    )
    head = ["recipe", "million numbers", "MB a site", "s at 100 Mbit/s", "CPU s of masks a site"]
    print(table([*head, "GB at the server", "CPU s of the server"], rows))


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--recipe", default="moments-256")
    options.add_argument("--kills", type=int, default=6)
    options.add_argument("--skip-accuracy", action="store_true")
    given = options.parse_args()
    out = fresh(given.out)
    print(machine())
    costs()
    holds = price(out / "price")
    holds = deaths(out / "deaths", given.kills) and holds
    if not given.skip_accuracy:
        (out / "accuracy").mkdir()
        holds = accuracy(out / "accuracy", given.recipe) and holds
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
