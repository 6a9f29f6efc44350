"""The demo of federated training: a server and three hospitals with phantoms, processes of one machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from medsanitize.pipeline.demo.prepare import require_empty
from medsanitize.pipeline.demo.two_hospitals import free_port
from medsanitize.pipeline.jobs.evaluate_model import EvaluationRequest, run_evaluation
from medsanitize.pipeline.jobs.run_federation import run_on_this_machine
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors

NAMES: Final = ("north-hospital", "south-hospital", "west-hospital")
SERVER: Final = "registry"
RECIPE: Final = "moments-256"
_JOB: Final = """version: 1
name: demo
party: ./server
sites: [{sites}]
model: retrieval
recipe: {recipe}
kind: radiograph
output: ./federated
state: ./job
patience: 120
listen: 127.0.0.1:{port}
"""
_SITE: Final = """version: 1
party: ./party
server: {server}
address: https://127.0.0.1:{port}
images: {images}
labels: {labels}
split: train
state: ./state
output: ./model
accept:
  recipes: [retrieval/{recipe}]
  sites: [{others}]
"""


@dataclass(frozen=True, slots=True)
class Federation:
    """The prepared demo: the job, and the policies of the sites by name."""

    job: Path
    sites: Mapping[str, Path]

    @property
    def folder(self) -> Path:
        """Folder of the demo."""
        return self.job.parent


@dataclass(frozen=True, slots=True)
class Compared:
    """P@1 on the test images of all sites, by who has trained; and the server's result.

    Attributes
    ----------
    alone
        Of each site that trains on its own images.
    pooled
        Of a training on the images of all sites together.
    federated
        Of the federated training.
    told
        What the server has printed as JSON.
    """

    alone: Mapping[str, float]
    pooled: float
    federated: float
    told: Mapping[str, Any]


def prepare_federation(folder: Path, *, patients: int = 36, size: int = 256) -> Federation:
    """Create phantoms, keys, mutual trust, the policies of three sites and a job in a new folder.

    Parameters
    ----------
    folder : Path
        A new or empty folder.
    patients, size : int
        Patients of each site, a third of whom are for the test, and the size of their radiographs.

    Raises
    ------
    UsageError
        The folder is not empty, or an extra is not installed.
    """
    from medsanitize.generators.phantoms.cohorts import write_chests
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra

    require_empty(folder)
    check_extra("federated")
    tables = {}
    for place, name in enumerate(NAMES):
        numbers = range(place * patients, (place + 1) * patients)
        tables[name] = write_chests(folder / name / "images", numbers, visits=(2, 3), size=size)
    return found_federation(folder, {name: (table.parent, table) for name, table in tables.items()})


def found_federation(
    folder: Path, tables: Mapping[str, tuple[Path, Path]], recipe: str = RECIPE, *, plain: bool = False
) -> Federation:
    """Create keys, mutual trust, the policies of sites and a job on this machine.

    Parameters
    ----------
    folder : Path
        Where; it may hold images already.
    tables : mapping of str to (Path, Path)
        Folder of images and table of each site.
    recipe : str
        Recipe of the training.
    plain : bool
        Whether to do without secure aggregation.
    """
    from medsanitize.federation.parties.identity import create_party

    port, sites = free_port(), {}
    with storage_errors():
        create_party(folder / "server", SERVER)
        for name, (images, labels) in tables.items():
            create_party(folder / name / "party", name)
            others = ", ".join(one for one in tables if one != name)
            text = _SITE.format(
                server=SERVER, port=port, recipe=recipe, others=others, images=images, labels=labels
            )
            sites[name] = folder / name / "site.yaml"
            sites[name].write_text(text + "  plain: true\n" * plain, encoding="utf-8")
        job = folder / "job.yaml"
        text = _JOB.format(sites=", ".join(tables), recipe=recipe, port=port)
        job.write_text(text + "aggregation: plain\n" * plain, encoding="utf-8")
    _trust_all([folder / "server", *(folder / name / "party" for name in tables)])
    return Federation(job, sites)


def compare_trainings(federation: Federation, progress: Progress, cancellation: Cancellation) -> Compared:
    """Train at each site alone, on all images together, and federated; measure all on all test images."""
    told = run_on_this_machine(federation.job, list(federation.sites.values()), progress, cancellation)
    folder = federation.folder
    everything = _joined_table(folder, list(federation.sites))
    alone = {}
    for name in federation.sites:
        table = folder / name / "images" / "labels.csv"
        _train(table.parent, table, folder / "alone" / name, progress, cancellation)
        alone[name] = _measured(folder, everything, folder / "alone" / name, progress, cancellation)
    _train(folder, everything, folder / "pooled", progress, cancellation)
    pooled = _measured(folder, everything, folder / "pooled", progress, cancellation)
    federated = _measured(folder, everything, folder / "federated", progress, cancellation)
    return Compared(alone, pooled, federated, told)


def compared_lines(compared: Compared) -> list[str]:
    """Say what was trained and measured."""
    rows = [
        *compared.alone.items(),
        ("all images together", compared.pooled),
        ("federated", compared.federated),
    ]
    width = max(len(name) for name, _ in rows)
    return [
        "P@1 on the test patients of all sites, by where the model was trained:",
        *(f"  {name:<{width}}  {value:.3f}" for name, value in rows),
        str(compared.told["statement"]),
    ]


def _train(root: Path, table: Path, output: Path, progress: Progress, cancellation: Cancellation) -> None:
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.labels import LabelColumns, read_labels
    from medsanitize.verifiers.reid.models.config import ModelKind
    from medsanitize.verifiers.reid.training.recipes import recipe_for
    from medsanitize.verifiers.reid.training.train import train

    labels = read_labels(table, root, LabelColumns(), "train").of_kind(Modality.RADIOGRAPH)
    recipe = recipe_for(ModelKind.RETRIEVAL, RECIPE)
    train(ModelKind.RETRIEVAL, labels, recipe, None, output, progress, cancellation)


def _measured(root: Path, table: Path, model: Path, progress: Progress, cancellation: Cancellation) -> float:
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.labels import LabelColumns

    request = EvaluationRequest(
        root, table, LabelColumns(), "test", model, None, 0.01, None, Modality.RADIOGRAPH
    )
    return run_evaluation(request, progress, cancellation).retrieval.precision_at_1


def _joined_table(folder: Path, names: Sequence[str]) -> Path:
    """Write one table of the images of all sites."""
    lines: list[str] = []
    for name in names:
        head, *rows = (folder / name / "images" / "labels.csv").read_text(encoding="utf-8").splitlines()
        lines += [head] if not lines else []
        # The file is the first column; patient numbers differ between the sites.
        lines += [f"{name}/images/{row}" for row in rows]
    table = folder / "labels.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def _trust_all(parties: Sequence[Path]) -> None:
    from medsanitize.federation.parties.identity import IDENTITY, open_party, read_identity
    from medsanitize.federation.parties.trust import trust_partner

    for one in parties:
        for other in parties:
            if one != other:
                file = other / IDENTITY
                trust_partner(open_party(one), file, read_identity(file).fingerprint)


def facts_of(compared: Compared) -> dict[str, Any]:
    """Return the result as JSON types."""
    facts = {"alone": dict(compared.alone), "pooled": compared.pooled, "federated": compared.federated}
    return json.loads(json.dumps({**facts, **compared.told}))  # type: ignore[no-any-return]
