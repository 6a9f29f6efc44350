"""The command overlap: exit codes, output files, and absence of PHI in messages."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import medsanitize.verifiers.reid.overlap.fingerprint
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.release.canonical_json import document_json
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap import fingerprint_index
from medsanitize.verifiers.reid.overlap.models import Models
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
    """Compute fingerprints in this process, with a model that needs no weights."""
    in_pool = LocalEngine.map

    def in_process(self: LocalEngine, task: Any, batches: Any, *, isolate: bool = False) -> Iterator[Any]:
        assert isolate
        return in_pool(self, task, batches, isolate=False)

    monkeypatch.setattr(LocalEngine, "map", in_process)
    models = Models({Modality.RADIOGRAPH: Coarse(), Modality.SLIDE: Coarse()})  # type: ignore[dict-item]
    for place in ("engines.fingerprint_workers", "jobs.compare_datasets"):
        monkeypatch.setattr(f"medsanitize.pipeline.{place}.open_models", lambda _paths: models)


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
    return CliRunner().invoke(
        cli, ["overlap", "--workers", "1", "--kind", "radiograph", *map(str, arguments)]
    )


def with_tables(*folders: Path) -> list[str | Path]:
    tables = [(f"--labels-{letter}", one / "labels.csv") for letter, one in zip("abc", folders, strict=False)]
    return [*folders, *(part for pair in tables for part in pair)]


def test_exclusive_datasets_exit_0_and_report_the_basis_of_the_verdict(tmp_path: Path) -> None:
    a, b = folder_of(tmp_path / "a", list(range(60))), folder_of(tmp_path / "b", list(range(100, 130)))
    done = ask(*with_tables(a, b))
    assert done.exit_code == 0, done.output
    assert "A and B are exclusive: none of 1,800 pairs of patients matched" in done.output


def test_overlapping_datasets_exit_3_and_write_pairs_to_a_private_folder(tmp_path: Path) -> None:
    a = folder_of(tmp_path / "a", list(range(60)))
    b = folder_of(tmp_path / "b", [*range(100, 130), 7, 8, 9], visit=5)
    out = tmp_path / "out"
    done = ask(*with_tables(a, b), "--output", out, "--json")
    facts = json.loads(done.stdout)
    assert (done.exit_code, facts["verdict"], facts["exit_code"]) == (3, "overlapping", 3)
    rows = pq.read_table(out / "pairs.parquet").to_pylist()
    matched = {(row["patient_a"], row["patient_b"]) for row in rows if row["decision"] == "same_patient"}
    assert matched == {(f"SECRETPATIENT{number}",) * 2 for number in (7, 8, 9)}
    assert rows[0]["false_non_match_bound"] >= rows[0]["false_non_match_rate"]
    assert {path.stat().st_mode & 0o077 for path in (out / "pairs.parquet", out / "pairs.html")} == {0}
    page = (out / "pairs.html").read_text()
    assert "shows patients" in page
    assert "data:image/png;base64," in page
    assert "Orange: regions that made the two images similar" in page
    assert "http://" not in page.replace("http-equiv", "")


def test_terminal_output_contains_no_patient_or_file_names(tmp_path: Path) -> None:
    a = folder_of(tmp_path / "a", list(range(20)))
    b = folder_of(tmp_path / "b", [3, 4, 5], visit=5)
    (b / "SECRETBAD.png").write_bytes(b"\x89PNG\r\n\x1a\nbad")
    done = ask(*with_tables(a, b), "--output", tmp_path / "out", "--log-json")
    assert "SECRET" not in done.output
    assert "SECRET" not in (tmp_path / "out/overlap.json").read_text()


def test_folders_without_patient_mapping_are_inconclusive_and_exit_1(tmp_path: Path) -> None:
    a, b = folder_of(tmp_path / "a", [1, 2, 3]), folder_of(tmp_path / "b", [4, 5])
    done = ask(a, b)
    assert done.exit_code == 1
    assert (
        "Inconclusive whether A and B share patients: how often strangers match among these radiographs is"
        " unknown" in done.output
    )


def test_a_link_out_of_a_folder_is_not_followed_and_is_reported_for_review(tmp_path: Path) -> None:
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
    assert "the table lists 1 patients in both datasets" in leaking.output


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
def test_datasets_that_cannot_be_compared_are_rejected(arguments: list[str]) -> None:
    assert ask(*arguments).exit_code == 2


def index(folder: Path, to: Path) -> Any:
    arguments = [folder, "--labels", folder / "labels.csv", "--output", to, "--workers", "1"]
    return CliRunner().invoke(cli, ["index", "--kind", "radiograph", *map(str, arguments)])


@pytest.fixture
def indexed(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders that share three patients, each with an index next to it: ``a`` and ``a-index``."""
    first, second = list(range(60)), [*range(100, 130), 7, 8, 9]
    folders = folder_of(tmp_path / "a", first), folder_of(tmp_path / "b", second, visit=5)
    for one in folders:
        assert index(one, Path(f"{one}-index")).exit_code == 0
    return folders


def test_an_index_replaces_the_images(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    by_images = ask(*with_tables(*indexed), "--json", "--output", tmp_path / "1")
    by_index = ask(*(f"{one}-index" for one in indexed), "--json", "--output", tmp_path / "2")
    assert json.loads(by_index.stdout) == json.loads(by_images.stdout)
    images, kept = (pq.read_table(tmp_path / name / "pairs.parquet") for name in "12")
    assert kept.equals(images)
    assert (tmp_path / "2/pairs.html").read_text() == (tmp_path / "1/pairs.html").read_text()


def test_an_index_works_after_its_images_are_deleted(indexed: tuple[Path, Path]) -> None:
    for one in indexed:
        one.rename(f"{one}-elsewhere")
    assert ask(*(f"{one}-index" for one in indexed)).exit_code == 3


def test_images_changed_since_indexing_are_reported_for_review(tmp_path: Path) -> None:
    a, b = folder_of(tmp_path / "a", list(range(60))), folder_of(tmp_path / "b", list(range(100, 130)))
    index(b, tmp_path / "i")
    (b / "SECRETFILE100-0.png").write_bytes((a / "SECRETFILE3-0.png").read_bytes())
    done = ask(a, "--labels-a", a / "labels.csv", tmp_path / "i", "--json")
    facts = json.loads(done.stdout)
    assert (facts["verdict"], facts["datasets"][1]["unread"]) == ("inconclusive", {"changed": 1})


def test_an_image_that_changes_during_indexing_is_reported_for_review(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = folder_of(tmp_path / "a", list(range(60))), folder_of(tmp_path / "b", list(range(100, 130)))
    keep = fingerprint_index.write_fingerprint_index

    def late(*given: Any) -> None:
        (b / "SECRETFILE100-0.png").write_bytes((a / "SECRETFILE3-0.png").read_bytes())
        keep(*given)

    monkeypatch.setattr("medsanitize.pipeline.jobs.compare_datasets.write_fingerprint_index", late)
    index(b, tmp_path / "i")
    facts = json.loads(ask(a, "--labels-a", a / "labels.csv", tmp_path / "i", "--json").stdout)
    assert (facts["verdict"], facts["datasets"][1]["unread"]) == ("inconclusive", {"changed": 1})


@pytest.mark.parametrize(
    "name",
    [
        "images.parquet",
        "radiograph/retrieval/index.json",
        "radiograph/retrieval/vectors.f32",
        "radiograph/retrieval/rows.parquet",
    ],
)
def test_a_modified_index_is_rejected(indexed: tuple[Path, Path], name: str) -> None:
    target = Path(f"{indexed[0]}-index") / name
    content = bytearray(target.read_bytes())
    content[len(content) // 2] ^= 1
    target.write_bytes(bytes(content))
    done = ask(*(f"{one}-index" for one in indexed))
    assert done.exit_code == 4
    assert "index" in done.stderr


@pytest.mark.parametrize(
    ("change", "restated"),
    [
        ({"unread": {"a link": 1}}, False),
        ({"non_images": 9}, False),
        ({"digest": ""}, False),
        ({"unread": []}, True),
        ({"models": None}, True),
        ({"files": {}}, True),
        ({"files": {"images.parquet": "", "../x": ""}}, True),
        ({"format": 2}, True),
        ([], True),
        (None, True),
    ],
)
def test_an_index_with_inconsistent_metadata_is_rejected(
    indexed: tuple[Path, Path], change: Any, restated: bool
) -> None:
    told = Path(f"{indexed[0]}-index") / "fingerprint.json"
    facts = json.loads(told.read_bytes())
    if isinstance(change, dict):
        rest = {key: value for key, value in {**facts, **change}.items() if key != "digest"}
        honest = sha256(document_json(rest)).hexdigest()
        change = {**rest, "digest": honest if restated else change.get("digest", facts["digest"])}
    told.write_text(json.dumps(change))
    assert ask(*(f"{one}-index" for one in indexed)).exit_code == 4


def test_an_index_of_other_models_is_rejected(
    indexed: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Coarse()
    other.digest = "e" * 64
    models = Models({Modality.RADIOGRAPH: other, Modality.SLIDE: other})  # type: ignore[dict-item]
    for place in ("engines.fingerprint_workers", "jobs.compare_datasets"):
        monkeypatch.setattr(f"medsanitize.pipeline.{place}.open_models", lambda _paths: models)
    done = ask(*(f"{one}-index" for one in indexed))
    assert done.exit_code == 2
    assert "A is an index of other models" in done.stderr


@pytest.mark.parametrize("place", [".", "new", "../b", "../b/labels.csv", "../b-index"])
def test_an_index_overwrites_nothing_and_is_written_next_to_the_images(
    indexed: tuple[Path, Path], place: str
) -> None:
    before = {path: path.read_bytes() for path in indexed[0].parent.rglob("*") if path.is_file()}
    done = index(indexed[0], indexed[0] / place)
    assert done.exit_code == 2, done.output
    assert {path: path.read_bytes() for path in indexed[0].parent.rglob("*") if path.is_file()} == before


def test_a_folder_of_images_with_an_index_name_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    victim = folder_of(tmp_path / "victim" / "radiograph", [1, 2]).parent
    other = folder_of(tmp_path / "a", [3, 4])
    assert index(other, victim).exit_code == 2
    assert len(list((victim / "radiograph").glob("*.png"))) == 4


def test_two_concurrent_runs_cannot_write_one_index(indexed: tuple[Path, Path]) -> None:
    (indexed[0].parent / "new.part").mkdir()
    done = index(indexed[0], indexed[0].parent / "new")
    assert done.exit_code == 2
    assert "incomplete index" in done.stderr


def test_a_failed_index_run_leaves_no_files(
    indexed: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("medsanitize.verifiers.reid.overlap.fingerprint_index.build_index", stopped)
    assert index(indexed[0], indexed[0].parent / "new").exit_code != 0
    assert not list(indexed[0].parent.glob("new*"))


@pytest.mark.parametrize("place", ["a/labels.csv/x", "a/labels.csv/x/y", "/proc/x", "x" * 252])
def test_an_impossible_output_path_is_reported(indexed: tuple[Path, Path], place: str) -> None:
    done = index(indexed[1], indexed[0].parent / place)
    assert done.exit_code == 2, done.output
    assert "cannot be created" in done.stderr
    compared = ask(*with_tables(*indexed), "--output", indexed[0].parent / place)
    assert compared.exit_code == 2 or place == "x" * 252


def test_the_output_of_overlap_cannot_be_inside_a_dataset(indexed: tuple[Path, Path]) -> None:
    for place in ("a", "a/new", "a-index"):
        done = ask(*with_tables(*indexed), f"{indexed[0]}-index", "--output", indexed[0].parent / place)
        assert done.exit_code == 2, done.output
        assert "output folder is inside a dataset" in done.stderr


def test_a_replaced_image_with_the_same_mtime_is_detected(tmp_path: Path) -> None:
    a = folder_of(tmp_path / "a", [1, 2])
    index(a, tmp_path / "i")
    target = a / "SECRETFILE1-0.png"
    before = target.stat()
    target.write_bytes(target.read_bytes())
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    facts = json.loads(ask(tmp_path / "i", a, "--json").stdout)
    assert facts["datasets"][0]["unread"] == {"changed": 1}


def test_an_image_written_to_while_it_is_read_counts_as_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = folder_of(tmp_path / "a", [1, 2])
    look = medsanitize.verifiers.reid.overlap.fingerprint._fingerprint

    def looked(image: Any) -> Any:
        found = look(image)
        if image.path.name == "SECRETFILE1-0.png":
            image.path.touch()
        return found

    monkeypatch.setattr("medsanitize.verifiers.reid.overlap.fingerprint._fingerprint", looked)
    facts = json.loads(ask(a, folder_of(tmp_path / "b", [3]), "--json").stdout)
    assert facts["datasets"][0]["unread"]["changed"] == 1


def test_an_index_is_readable_by_its_owner_only_and_not_printed(tmp_path: Path) -> None:
    done = index(folder_of(tmp_path / "a", [1, 2, 3]), tmp_path / "i")
    assert "6 images of 3 patients are in the index" in done.output
    assert "SECRET" not in done.output
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "i", *(tmp_path / "i").rglob("*"))} == {0}


def test_pictures_of_unknown_kind_are_not_compared_and_the_next_step_is_named(tmp_path: Path) -> None:
    a, b = folder_of(tmp_path / "a", [1, 2]), folder_of(tmp_path / "b", [3, 4])
    done = CliRunner().invoke(cli, ["overlap", "--workers", "1", *map(str, with_tables(a, b))])
    assert done.exit_code == 1
    assert "8 images could not be read or compared in full (unknown-kind 8)" in done.output
    assert "State the kind with --kind" in done.output


def test_a_table_states_the_kind_of_each_picture(tmp_path: Path) -> None:
    a, b = folder_of(tmp_path / "a", [1, 2]), folder_of(tmp_path / "b", [3, 4])
    for folder, kind in ((a, "radiograph"), (b, "slide")):
        head, *rows = (folder / "labels.csv").read_text().splitlines()
        (folder / "labels.csv").write_text("\n".join([f"{head},kind", *(f"{row},{kind}" for row in rows)]))
    done = CliRunner().invoke(cli, ["overlap", "--workers", "1", *map(str, with_tables(a, b))])
    assert done.exit_code == 1
    assert "the datasets have no images of one modality in common" in done.output
