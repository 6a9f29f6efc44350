"""The command overlap: exit codes, what it writes, and what it never says."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.pipeline.engine import LocalEngine
from medsanitize.verifiers.overlap.models import Models
from medsanitize.verifiers.pictures.picture import Modality
from PIL import Image


class Coarse:
    digest = "c" * 64
    modality = Modality.RADIOGRAPH
    dimension = 64

    def embed(self, pictures: Any) -> Any:
        small = [Image.fromarray(p.pixels).resize((8, 8), Image.Resampling.BOX) for p in pictures]
        return np.stack([np.asarray(one, np.float32).reshape(-1) for one in small])


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look in this process, with a model that needs no weights."""
    in_pool = LocalEngine.map

    def in_process(self: LocalEngine, task: Any, batches: Any, *, isolate: bool = False) -> Iterator[Any]:
        assert isolate
        return in_pool(self, task, batches, isolate=False)

    monkeypatch.setattr(LocalEngine, "map", in_process)
    models = Models({Modality.RADIOGRAPH: Coarse(), Modality.SLIDE: Coarse()})  # type: ignore[dict-item]
    monkeypatch.setattr("medsanitize.pipeline.overlap.open_models", lambda _paths: models)


def folder_of(root: Path, patients: list[int], visit: int = 0, split: str = "") -> Path:
    """Two images of each patient, and a table of them."""
    root.mkdir(exist_ok=True)
    rows = []
    for patient in patients:
        face = np.random.default_rng(patient).random((8, 8)).repeat(6, 0).repeat(6, 1)
        for number in (visit, visit + 1):
            noise = np.random.default_rng([patient, number]).random((48, 48))
            name = f"SECRETFILE{patient}-{number}.png"
            Image.fromarray((255 * (0.6 * face + 0.4 * noise)).astype(np.uint8)).save(
                root / name, compress_level=1
            )
            rows.append([name, f"SECRETPATIENT{patient}", split])
    table = root / "labels.csv"
    new = not table.exists()
    with table.open("a", newline="") as file:
        csv.writer(file).writerows([["file", "patient_id", "split"], *rows] if new else rows)
    return root


def ask(*arguments: str | Path) -> Any:
    return CliRunner().invoke(cli, ["overlap", "--workers", "1", *map(str, arguments)])


def with_tables(*folders: Path) -> list[str | Path]:
    tables = [(f"--labels-{letter}", one / "labels.csv") for letter, one in zip("abc", folders, strict=False)]
    return [*folders, *(part for pair in tables for part in pair)]


def test_exclusive_folders_end_with_0_and_say_what_that_rests_on(tmp_path: Path) -> None:
    a, b = folder_of(tmp_path / "a", list(range(60))), folder_of(tmp_path / "b", list(range(100, 130)))
    done = ask(*with_tables(a, b))
    assert done.exit_code == 0, done.output
    assert "A and B are exclusive: none of 1,800 pairs of patients matched" in done.output


def test_overlapping_folders_end_with_3_and_leave_pairs_for_the_holder_alone(tmp_path: Path) -> None:
    a = folder_of(tmp_path / "a", list(range(60)))
    b = folder_of(tmp_path / "b", [*range(100, 110), 7, 8, 9], visit=5)
    out = tmp_path / "out"
    done = ask(*with_tables(a, b), "--output", out, "--json")
    facts = json.loads(done.stdout)
    assert (done.exit_code, facts["verdict"], facts["exit_code"]) == (3, "overlapping", 3)
    rows = pq.read_table(out / "pairs.parquet").to_pylist()
    matched = {(row["patient_a"], row["patient_b"]) for row in rows if row["decision"] == "same patient"}
    assert matched == {(f"SECRETPATIENT{number}",) * 2 for number in (7, 8, 9)}
    assert rows[0]["false_non_match_bound"] >= rows[0]["false_non_match_rate"]
    assert {path.stat().st_mode & 0o077 for path in (out / "pairs.parquet", out / "pairs.html")} == {0}
    page = (out / "pairs.html").read_text()
    assert "shows patients" in page
    assert "data:image/png;base64," in page
    assert "Orange: what made these two alike" in page
    assert "http://" not in page.replace("http-equiv", "")


def test_neither_patients_nor_files_are_named_in_the_terminal(tmp_path: Path) -> None:
    a = folder_of(tmp_path / "a", list(range(20)))
    b = folder_of(tmp_path / "b", [3, 4, 5], visit=5)
    (b / "SECRETBAD.png").write_bytes(b"\x89PNG\r\n\x1a\nbad")
    done = ask(*with_tables(a, b), "--output", tmp_path / "out", "--log-json")
    assert "SECRET" not in done.output
    assert "SECRET" not in (tmp_path / "out/overlap.json").read_text()


def test_folders_without_names_of_patients_cannot_be_told_and_end_with_1(tmp_path: Path) -> None:
    a, b = folder_of(tmp_path / "a", [1, 2, 3]), folder_of(tmp_path / "b", [4, 5])
    done = ask(a, b)
    assert done.exit_code == 1
    assert "cannot be told: the model is not calibrated for radiographs" in done.output


def test_a_link_out_of_a_folder_is_not_followed_and_leaves_a_doubt(tmp_path: Path) -> None:
    a, b = folder_of(tmp_path / "a", list(range(60))), folder_of(tmp_path / "b", list(range(100, 130)))
    (b / "more").symlink_to(a)
    done = ask(*with_tables(a, b))
    assert done.exit_code == 1
    assert "a link 1" in done.output


def test_the_splits_of_a_table_are_checked_against_each_other(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "all", list(range(60)), split="train")
    folder_of(root, list(range(200, 230)), split="test")
    assert ask("--labels", root / "labels.csv", "--images", root).exit_code == 0
    folder_of(root, [11], visit=7, split="test")
    leaking = ask("--labels", root / "labels.csv", "--images", root)
    assert leaking.exit_code == 3
    assert "the table names 1 patients on both sides" in leaking.output


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["one"],
        ["one", "two", "--labels", "t", "--images", "i"],
        ["--labels", "t"],
        ["one", "two", "--labels-c", "t"],
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: list[str]) -> None:
    assert ask(*arguments).exit_code == 2
