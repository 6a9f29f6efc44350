"""All commands in sequence, as a user calls them, on phantoms.

No command line names anything outside of one folder.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from medsanitize.generators.phantoms.cohorts import write_chests

from tests.helpers.hospital import policy_text, write_ct

ROOT = Path(__file__).parents[2]
MEDSANITIZE = str(Path(sys.executable).parent / "medsanitize")
SPARK = str(ROOT / "examples" / "spark_release.py")
_SPLITS = ("train", "holdout", "calibration", "train")
# Exit codes: success; success with something to review; a gate or verdict is negative.
ENDED_WELL = (0, 1, 3)
_KEY = bytes(range(32)).hex()


@dataclass(frozen=True)
class Step:
    """A command; a cluster needs loopback, and Java a user with a name."""

    words: tuple[str, ...]
    cluster: bool = False
    java: bool = False

    @property
    def name(self) -> str:
        """The command's first words, and the folder of its policy."""
        return " ".join(Path(word).parent.name if "/" in word else word for word in self.words[1:4])


def prepare(base: Path) -> None:
    """Phantoms with labels, and policies for a run of each engine on a few CT slices."""
    table = write_chests(base / "scans", range(36), visits=(1, 2), size=48, seed=4)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (base / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("file", "patient_id", "split", "label"))
        for row in rows:
            patient = int("".join(filter(str.isdigit, row["patient_id"])))
            label = ("clear", "effusion")[patient % 3 > 0]
            writer.writerow((row["file"], row["patient_id"], _SPLITS[patient % 4], label))
    table.unlink()
    write_chests(base / "cohort", range(84), visits=(1, 1), size=48)
    for name, sections in (("local", {}), ("ray", {"engine": "{kind: ray, address: local}"}), ("spark", {})):
        folder = base / name
        for number in range(6):
            write_ct(folder / "export" / f"i{number}.dcm", number, f"P{number % 3}", number % 3)
        (folder / "release.key").write_text(_KEY)
        (folder / "release.key").chmod(0o600)
        (folder / "policy.yaml").write_text(policy_text(**sections))


def copy_demo(base: Path, demo: Path) -> None:
    """Copy export, policy and keys of a demo, without its results."""
    shutil.copytree(demo, base / "demo", ignore=shutil.ignore_patterns("release", "state"))


def steps(base: Path, *, demo: bool) -> Iterator[Step]:
    """Every command that reads or makes images, in an order in which each finds its input.

    With ``demo`` the demo is made, otherwise the one copied by `copy_demo` is run again.
    """
    policy, release, elsewhere = (f"{base}/demo/{name}" for name in ("policy.yaml", "release", "elsewhere"))
    asked = f"--images {base}/scans --labels {base}/labels.csv"
    trained = f"{asked} --split train --recipe tiny --output {base}"
    image = min((base / "scans").rglob("*.png"))
    lines = (
        f"demo {base}/demo" if demo else f"run {policy}",
        f"doctor {policy}",
        f"plan {policy}",
        f"verify {release}",
        f"audit {release} --policy {policy}",
        f"review {policy}",
        f"ledger {policy} --patients {base}/patients.csv",
        f"identities {policy} --suspects {base}/suspects.csv",
        f"index {elsewhere} --output {base}/index --kind radiograph --workers 2",
        f"overlap {release} {base}/index --output {base}/overlap",
        f"attack linkage {release} --background {release} --output {base}/linkage",
        f"attack embeddings --images {base}/cohort --labels {base}/cohort/labels.csv --kind radiograph",
        f"train retrieval {trained}/retrieval --kind radiograph",
        f"train verification {trained}/verification --kind radiograph",
        f"train classifier {trained}/classifier --class label --kind radiograph",
        f"train generator {trained}/generator --class label",
        f"evaluate {asked} --kind radiograph --model {base}/retrieval --verifier {base}/verification"
        f" --output {base}/evaluated",
        f"synthesize {base}/generator {asked} --class label --verifier {base}/verification -n 8 --unvetted"
        f" --output {base}/synthetic",
        f"explain {image} --catalog {release} --all --output {base}/explained",
        f"run {base}/local/policy.yaml --workers 2",
        f"run {base}/ray/policy.yaml --workers 2",
    )
    for line in lines:
        yield Step((MEDSANITIZE, *line.split()), cluster="/ray/" in line)
    yield Step((sys.executable, SPARK, f"{base}/spark/policy.yaml", "--shards", "2"), cluster=True, java=True)
