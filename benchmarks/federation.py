"""Federated training and calibration: accuracy, the price of secure aggregation, deaths, bounds and costs.

    python benchmarks/federation.py OUT [--recipe moments-256] [--kills 30] [--only PART ...]
        [--generator FOLDER --verifier FOLDER --parts TABLE]

Parts, all of which run by default:

- `costs`: masks and sums by their measured rates, and the cost of 50 sites with a million images from them.
- `epsilon`: epsilon of private trainings by two accountants, which must agree within 5 %, and by Renyi
  divergences, which must be larger.
- `price`: trains phantoms of three sites with and without secure aggregation; less than 2 x the wall time.
- `deaths`: kills server and sites in turn; every job must end with the undisturbed model.
- `calibration`: calibrates the packaged features on the test images of data/cxr, split by source into three
  sites, and on all together; the scores must be equal.
- `gate`: the same for the privacy gate of a generator, if one is named with its verifier and its table.
- `accuracy`: trains a retrieval model at each site of data/cxr alone, on all images together and federated,
  with the command line, and measures P@1 on all test images; federated at most 2 points below all together,
  and at least 3 above the mean single site.

Exits 1 if something of this is not met.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from common import fresh, machine, shared, table
from federation_calibration import epsilon, gate, matchers
from federation_deaths import deaths
from federation_jobs import called, run, tables_of
from medsanitize.pipeline.demo.federation import NAMES, found_federation, prepare_federation

BELOW, ABOVE, TIMES = 0.02, 0.03, 2.0
SITES, IMAGES = 50, 1_000_000
LINE = 100e6 / 8
PARTS = ("costs", "epsilon", "price", "deaths", "calibration", "gate", "accuracy")


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


def measured(part: str, out: Path, given: argparse.Namespace) -> bool:
    """Measure one part; whether it is met."""
    out.mkdir()
    if part == "costs":
        costs()
        return True
    if part == "epsilon":
        return epsilon()
    if part == "price":
        return price(out)
    if part == "deaths":
        return deaths(out, given.kills)
    if part == "calibration":
        return matchers(out)
    if part == "accuracy":
        return accuracy(out, given.recipe)
    if None in (given.generator, given.verifier, given.parts):
        print("\nThe gate was not calibrated: name --generator, --verifier and --parts.")
        return True
    return gate(out, *(one.resolve() for one in (given.generator, given.verifier, given.parts)), given.most)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--recipe", default="moments-256")
    options.add_argument("--kills", type=int, default=30)
    options.add_argument("--only", action="append", choices=PARTS, help="measure this part only")
    options.add_argument("--generator", type=Path, help="of the gate: folder of a generator")
    options.add_argument("--verifier", type=Path, help="of the gate: folder of a verification model")
    options.add_argument("--parts", type=Path, help="of the gate: table with the generator's splits")
    options.add_argument("--most", type=int, default=10_000, help="of the gate: patients of a site")
    given = options.parse_args()
    out = fresh(given.out)
    print(machine(), flush=True)
    met = {}
    for part in given.only or PARTS:
        met[part] = measured(part, out / part, given)
        sys.stdout.flush()
    print("\nMet: " + ", ".join(f"{part} {'yes' if holds else 'NO'}" for part, holds in met.items()) + ".")
    sys.exit(0 if all(met.values()) else 1)


if __name__ == "__main__":
    main()
