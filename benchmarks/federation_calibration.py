"""Federated calibration and epsilon: what follows from sums is what follows from all patients together."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from common import shared, table
from federation_jobs import called, run, tables_of
from medsanitize.pipeline.demo.federation import NAMES, RECIPE, Federation, found_federation
from medsanitize.pipeline.runtime.calibrations import read_gate_calibration, read_given_calibration

LARGEST_GAP = 0.05
RATES = (0.05, 0.1, 0.25)


def calibration_job(federation: Federation, recipe: str, more: str, models: str = "") -> Federation:
    """Turn the job of a training into one of a calibration."""
    job = federation.job.read_text()
    head = f"model: retrieval\nrecipe: {RECIPE}\n"
    federation.job.write_text(job.replace(head, f"model: calibration\nrecipe: {recipe}\n{more}{models}"))
    for path in federation.sites.values():
        text = path.read_text().replace(f"[retrieval/{RECIPE}]", f"[calibration/{recipe}]")
        path.write_text(text.replace("split: train\n", models))
    return federation


def matchers(out: Path) -> bool:
    """Calibrate the packaged features on the test images of data/cxr, by source, and on all together."""
    from medsanitize.verifiers.reid.training.calibration_counts import distance_grid, lowered

    root = shared() / "data" / "cxr"
    tables = tables_of(out, root, lambda row: row["split"] == "test")
    federation = found_federation(out, {name: (root, tables[name]) for name in NAMES})
    began = time.perf_counter()
    run(calibration_job(federation, "matcher", ""))
    seconds = time.perf_counter() - began
    images = ("--images", root, "--kind", "radiograph")
    found = {"federated": read_given_calibration(out / "federated" / "calibration.json").file.calibration}
    for name in (*NAMES, "all"):
        called(out, "evaluate", *images, "--labels", tables[name], "--output", out / f"evaluated-{name}")
        own = out / f"evaluated-{name}" / "calibration.json"
        found[name] = read_given_calibration(own).file.calibration
    rows: list[list[object]] = []
    for name, one in found.items():
        bounds = [f"{one.for_false_non_match(rate).false_non_match.upper:.1%}" for rate in RATES]
        rows.append([name, one.patients, len(one.genuine), *bounds])
    print(f"\nCalibration of the packaged features, data/cxr (test) by source, one sum in {seconds:.0f} s:\n")
    head = [f"bound at {rate:.0%} missed" for rate in RATES]
    print(table(["calibrated on", "patients", "with two images", *head], rows))
    grid = distance_grid()
    pooled = np.sort(grid[lowered(np.array(found["all"].genuine), grid)])
    same = found["federated"].genuine == tuple(pooled.tolist())
    print(f"Scores of the sum = scores of all patients together, on the grid: {same}.")
    return same


def gate(out: Path, generator: Path, verifier: Path, parts: Path, most: int) -> bool:
    """Calibrate the gate of a generator on patients of data/cxr by source; one image of each."""
    from medsanitize.federation.training.calibrated_models import open_models
    from medsanitize.generators.diffusion.generator import open_generator
    from medsanitize.generators.privacy_gate.confidence_bounds import threshold
    from medsanitize.policies.federation import CalibratedModels
    from medsanitize.verifiers.reid.images.image import Modality

    classes = open_generator(generator).classes
    held = calibration_patients(parts, classes)
    root, seen = shared() / "data" / "cxr", dict.fromkeys(NAMES, frozenset[str]())

    def chosen(row: object) -> bool:
        from federation_jobs import site_of

        name, patient = site_of(row), row["patient_id"]  # type: ignore[arg-type,index]
        if row["file"] not in held or patient in seen[name] or len(seen[name]) >= most:  # type: ignore[index]
            return False
        seen[name] |= {patient}
        return True

    tables = tables_of(out, root, chosen)
    federation = found_federation(out, {name: (root, tables[name]) for name in NAMES})
    named = f"models: {{generator: {generator}, verification: {verifier}}}\n"
    column = f"classes: {{column: finding, names: {json.dumps(list(classes))}}}\n"
    began = time.perf_counter()
    run(calibration_job(federation, "gate", column, named))
    seconds = time.perf_counter() - began
    found = read_gate_calibration(out / "federated" / "calibration.json")
    opened = open_models(CalibratedModels(generator=generator, verification=verifier), Modality.RADIOGRAPH)
    raw = {name: control_scores(root, tables[name], opened, list(classes)) for name in NAMES}
    rows: list[list[object]] = []
    for name, scores in {**raw, "all": np.concatenate(list(raw.values())), "federated": found.lowest}.items():
        limit = threshold(scores, 0.975)
        rows.append([name, limit.patients, f"{limit.value:.4f}", f"{limit.missed:.2%}"])
    print(f"\nCalibration of the gate, one sum in {seconds:.0f} s:\n")
    print(table(["calibrated on", "patients (n)", "threshold", "beta(n) at 97.5 %"], rows))
    same = pooled_equals(np.concatenate(list(raw.values())), found.lowest)
    print(f"Scores of the sum = scores of all patients together, on the grid: {same}.")
    return same


def pooled_equals(raw: np.ndarray, counted: np.ndarray) -> bool:
    """Whether counted scores are the raw ones on the grid."""
    from medsanitize.verifiers.reid.training.calibration_counts import lowered, score_grid

    return bool(np.array_equal(np.sort(score_grid()[lowered(raw, score_grid())]), counted))


def calibration_patients(parts: Path, classes: tuple[str, ...]) -> frozenset[str]:
    """Files of the calibration split of a generator's table."""
    import csv

    with parts.open(newline="") as file:
        rows = list(csv.DictReader(file))
    kept = [row for row in rows if row["split"] == "calibration" and row["finding"] in classes]
    return frozenset(row["file"] for row in kept)


def control_scores(root: Path, labels: Path, opened: object, classes: list[str]) -> np.ndarray:
    """Lowest score of each patient's copies, of one site, before any is counted."""
    from medsanitize.federation.training.calibration_site import CalibrationSite
    from medsanitize.generators.privacy_gate.confidence_bounds import lowest_scores
    from medsanitize.progress import Cancellation, NoProgress
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.labels import read_labels

    terms = {"strength": 0.2, "classes": {"column": "finding", "names": classes}}
    rows = read_labels(labels, root).of_kind(Modality.RADIOGRAPH)
    site = CalibrationSite(rows, terms, {}, opened, NoProgress(), Cancellation())  # type: ignore[arg-type]
    return lowest_scores(site.score_controls()[0])


def epsilon() -> bool:
    """Epsilon of federated private trainings by three accountants."""
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe
    from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget
    from medsanitize.verifiers.reid.training.private_sums import PrivateLinearSums, PrivateTerms

    rows: list[list[object]] = []
    holds = True
    for wanted in (1.0, 4.0, 8.0):
        promised = PrivateTerms(PrivacyBudget(wanted, 1e-5), 1.0, 3)
        sums = PrivateLinearSums(LinearRecipe(), Modality.RADIOGRAPH, 2, 10_000, promised)
        facts = sums.plan({"fit_patients": np.array(500.0)}).facts()
        pld, prv, rdp = (facts["spent"][name] for name in ("pld", "prv", "rdp"))
        gap = abs(prv - pld) / pld
        holds = holds and gap <= LARGEST_GAP and rdp >= pld
        noise = f"{facts['noise_multiplier']:.3f}"
        rows.append([wanted, noise, f"{pld:.3f}", f"{prv:.3f}", f"{gap:.2%}", f"{rdp:.3f}"])
    print("\nEpsilon at delta 1e-5 of a private classifier, 60 steps, each patient with probability 1/4:\n")
    print(table(["ceiling", "noise multiplier", "by PLD", "by PRV", "gap", "by RDP"], rows))
    return holds
