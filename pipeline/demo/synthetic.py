"""The demo of synthetic images: a hospital of phantoms, models trained on it, its release, an explanation.

Every step is a command that users have: the demo passes them the same arguments.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.pipeline.demo.prepare import Demo, require_empty
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors

if TYPE_CHECKING:
    from medsanitize.generators.explain.explain import Explanation
    from medsanitize.pipeline.runtime.result import RunResult
    from medsanitize.policies.model import Policy
    from medsanitize.release.summary import SyntheticSummary

_CLASS: Final = "finding"
# Below 128 pixels, copies that were cropped or mirrored are not told from strangers.
_SIDE: Final = 128


@dataclass(frozen=True, slots=True)
class SyntheticSizes:
    """Number of patients by purpose, and the recipes of the models.

    Attributes
    ----------
    training, holdout, calibration
        Patients of the splits, with one image each.
    elsewhere
        Patients of another hospital, with two images each; the verification model learns from them.
    generator, verifier
        Recipes.
    residual
        ``synthesize.residual`` of the policy.
    side
        Width and height of the images in pixels.
    """

    training: int = 80
    holdout: int = 60
    calibration: int = 60
    elsewhere: int = 100
    generator: str = "demo-128"
    verifier: str = "copies"
    residual: float = 0.001
    side: int = _SIDE


# The one place that states what the gate is asked.
_POLICY: Final = """\
version: 1
preset: research
release: {{name: demo-synthetic, version: "1.0", mode: pseudonymous}}
inputs: [./hospital/train]
output: ./release
state: ./state
keys: {{file: ./release.key, signing: ./signing.key}}
raster: {{action: clean}}
synthesize:
  replace: all
  model: ./generator
  verifier: ./verifier
  reference: {{images: ./hospital, table: ./labels.csv, label: {label}}}
  residual: {residual}
"""


def prepare_synthetic_demo(folder: Path, sizes: SyntheticSizes) -> Demo:
    """Create a hospital of phantoms in three splits, another one, a policy and keys in a new folder.

    The name of each patient of the training split is planted in the metadata of the patient's image.

    Parameters
    ----------
    folder : Path
        A new or empty folder.
    sizes : SyntheticSizes
        Number of patients.

    Raises
    ------
    UsageError
        The folder is not empty, or an extra is not installed.
    """
    from medsanitize.generators.phantoms.cohorts import write_chests
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra, check_extras
    from medsanitize.policies.load import loads
    from medsanitize.policies.release_key import generate_release_key
    from medsanitize.release.attestation import generate_signing_key

    require_empty(folder)
    check_extra("generate")
    content = _POLICY.format(label=_CLASS, residual=sizes.residual)
    check_extras(loads(content, base=folder.absolute()))
    with storage_errors():
        folder.mkdir(parents=True, exist_ok=True)
        first, rows = 0, list[tuple[str, ...]]()
        for split, count, visits in _splits(sizes):
            # Numbers of patients do not overlap: splits must not share a patient.
            patients = range(first, first + count)
            table = write_chests(
                folder / "hospital" / split, patients, visits=visits, size=sizes.side, varied=True
            )
            rows += _rows(table, split)
            table.unlink()
            first += count
        # Training takes one image of a patient, but calibrates the model with two.
        elsewhere = range(first, first + sizes.elsewhere)
        write_chests(folder / "elsewhere", elsewhere, visits=(2, 2), size=sizes.side, varied=True)
        _write_table(folder / "labels.csv", rows)
        planted = tuple(_plant(folder / "hospital" / row[0], row[1]) for row in rows if row[2] == "train")
        policy = folder / "policy.yaml"
        policy.write_text(content, encoding="utf-8")
    generate_release_key(folder / "release.key")
    generate_signing_key(folder / "signing.key")
    return Demo(policy, len(planted), sizes.training, planted)


def train_models(folder: Path, sizes: SyntheticSizes, progress: Progress, cancellation: Cancellation) -> None:
    """Train verification model, generator and classifier, each on its own images."""
    from medsanitize.generators.diffusion.recipes import recipe_for as generator_recipe
    from medsanitize.generators.diffusion.train import train_generator
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.labels import LabelColumns, read_labels
    from medsanitize.verifiers.reid.models.config import ModelKind
    from medsanitize.verifiers.reid.training.recipes import recipe_for
    from medsanitize.verifiers.reid.training.train import train
    from medsanitize.verifiers.reid.training.train_classifier import class_recipe_for, train_classification

    table = folder / "elsewhere" / "labels.csv"
    elsewhere = read_labels(table, folder / "elsewhere", LabelColumns()).of_kind(Modality.RADIOGRAPH)
    recipe = recipe_for(ModelKind.VERIFICATION, sizes.verifier, None)
    train(ModelKind.VERIFICATION, elsewhere, recipe, None, folder / "verifier", progress, cancellation)
    rows = read_labels(folder / "labels.csv", folder / "hospital", LabelColumns(), "train").of_kind(
        Modality.RADIOGRAPH
    )
    chosen = generator_recipe(sizes.generator)
    train_generator(rows, _CLASS, chosen, None, folder / "generator", progress, cancellation)
    classes = class_recipe_for("frozen")
    columns = (LabelColumns(), _CLASS)
    train_classification(rows, columns, classes, None, folder / "classifier", progress, cancellation)


def verdict_of(policy: Policy) -> SyntheticSummary | None:
    """Return the verdict of the privacy gate on the policy's last run; None if nothing was replaced."""
    from medsanitize.pipeline.resume import open_for_reading
    from medsanitize.pipeline.state.stage_results import SYNTHETIC

    state = open_for_reading(policy)
    try:
        return SYNTHETIC.load(state)
    finally:
        state.close()


def explain_first(
    folder: Path, result: RunResult, progress: Progress, cancellation: Cancellation
) -> Explanation | None:
    """Explain a radiograph of the holdout by synthetic images of the release; None without any."""
    from medsanitize.pipeline.jobs.explain import ExplanationRequest, run_explain

    if result.release is None:
        return None
    image = sorted((folder / "hospital" / "holdout").rglob("*.png"))[0]
    request = ExplanationRequest(
        image, Path(result.release), everything=False, model=folder / "classifier", count=4,
        output=folder / "explanation",
    )  # fmt: skip
    return run_explain(request, progress, cancellation)


def show_synthetic_demo(
    demo: Demo, verdict: SyntheticSummary | None, explanation: Explanation | None, release: Path | str | None
) -> None:
    """Print the verdict with its numbers, the examples found, and the next commands."""
    from rich.console import Console

    folder = demo.policy.parent
    console = Console(soft_wrap=True, highlight=False)
    for line in (*verdict_lines(verdict), *explanation_lines(explanation)):
        console.print(line, markup=False)
    if explanation is not None:
        image = sorted((folder / "hospital" / "holdout").rglob("*.png"))[1]
        again = f"--catalog {release} --model {folder / 'classifier'}"
        console.print(f"Explain another:    medsanitize explain {image} {again}", markup=False)


def verdict_lines(verdict: SyntheticSummary | None) -> list[str]:
    """Return the sentences on the verdict."""
    if verdict is None:
        return ["No image was replaced."]
    return [
        f"Verdict of the privacy gate: {verdict.state}.",
        *verdict.statement,
        f"{verdict.replaced:,} images were replaced: {verdict.requested:,} synthetic ones requested,"
        f" {verdict.released:,} released, {verdict.removed:,} removed because they match a patient.",
    ]


def explanation_lines(explanation: Explanation | None) -> list[str]:
    """Return the sentences on the explanation."""
    if explanation is None:
        return ["No explanation: the release has no synthetic image."]
    answers = ", ".join(f"{one.name} {one.probability:.2f}" for one in explanation.answers)
    return [
        f"A radiograph that no model has seen: {answers}.",
        *(
            f"  {number}. {one.path}, class {one.label}, distance {one.distance:.3f}"
            for number, one in enumerate(explanation.by_features, 1)
        ),
    ]


def _splits(sizes: SyntheticSizes) -> tuple[tuple[str, int, tuple[int, int]], ...]:
    """Name, number of patients, and least and most images of each."""
    return (
        ("train", sizes.training, (1, 1)),
        ("holdout", sizes.holdout, (1, 1)),
        ("calibration", sizes.calibration, (1, 1)),
    )


def _rows(table: Path, split: str) -> list[tuple[str, ...]]:
    with table.open(newline="", encoding="utf-8") as file:
        return [
            (f"{split}/{row['file']}", row["patient_id"], split, row[_CLASS]) for row in csv.DictReader(file)
        ]


def _write_table(path: Path, rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("file", "patient_id", "split", _CLASS))
        writer.writerows(rows)


def _plant(path: Path, patient: str) -> str:
    """Write an invented name into the metadata of a PNG file, and return it."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    name, texts = f"Thistlewood^{patient}", PngInfo()
    texts.add_text("Comment", name)
    with Image.open(path) as image:
        # Read before the file is overwritten.
        image.load()
        image.save(path, "PNG", pnginfo=texts)
    return name
