"""The command evaluate, from files to result and page, with the packaged features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.pipeline.engines.fingerprint_workers import calibrations_of
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval as packaged
from medsanitize.verifiers.reid.overlap.models import ModelPaths, open_models
from medsanitize.verifiers.reid.training.training_dataset import digest_of_files
from PIL import Image


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pictures of three patients, one invalid file, and tables of them."""
    base = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(0)
    rows = ["picture,who,part"]
    for patient in range(3):
        look = rng.integers(0, 256, (6, 6))
        for visit in range(2):
            pixels = np.kron(np.roll(look, visit), np.ones((16, 16))).astype(np.uint8)
            Image.fromarray(pixels).save(base / f"{patient}-{visit}.png")
            rows.append(f"{patient}-{visit}.png,{patient},test")
    (base / "table.csv").write_text("\n".join(rows) + "\n")
    (base / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (base / "broken.csv").write_text("\n".join([*rows, "broken.png,0,test", "gone.png,1,test"]) + "\n")
    return base


def call(folder: Path, table: str, *more: str, split: str = "test") -> tuple[int, str]:
    columns = [
        part for name in ("file=picture", "patient_id=who", "split=part") for part in ("--column", name)
    ]
    where = ["--images", str(folder), "--labels", str(folder / table), "--split", split]
    done = CliRunner().invoke(cli, ["evaluate", "--kind", "radiograph", *where, *columns, *more])
    return done.exit_code, done.stdout + done.stderr


def test_images_and_a_table_give_a_result_and_a_page(folder: Path, tmp_path: Path) -> None:
    code, text = call(folder, "table.csv", "--json", "--output", str(tmp_path / "out"))
    facts = json.loads(text.splitlines()[0])
    assert code == facts["exit_code"] == 0
    assert (facts["images"], facts["patients"], facts["excluded"]) == (6, 3, {})
    assert 0 <= facts["retrieval"]["precision_at_1"] <= 1
    assert 0 <= facts["verification"]["auc"] <= 1
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"calibration.json", "evaluation.html", "results.json"}
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert stored["retrieval"] == facts["retrieval"]


def test_the_calibration_of_an_evaluation_names_its_models(folder: Path, tmp_path: Path) -> None:
    call(folder, "table.csv", "--output", str(tmp_path))
    models = open_models(ModelPaths())
    given = calibrations_of(tmp_path / "calibration.json", models)
    assert {modality: one.patients for modality, one in given.items()} == {Modality.RADIOGRAPH: 3}


def test_unreadable_images_are_counted_and_change_the_exit_code(folder: Path) -> None:
    code, text = call(folder, "broken.csv")
    assert code == 1
    assert "Excluded: 2" in text
    assert "image not found: 1" in text
    assert "not readable" in text
    assert "broken" not in text
    assert "gone" not in text


@pytest.mark.parametrize(
    ("more", "split", "said"),
    [
        ((), "train", "no row of the requested split"),
        (("--column", "patient=who"), "test", "--column is not NAME=COLUMN"),
        (("--model", "nowhere"), "test", "model"),
    ],
)
def test_invalid_requests_give_a_one_line_error(
    folder: Path, more: tuple[str, ...], split: str, said: str
) -> None:
    code, text = call(folder, "table.csv", *more, split=split)
    assert code == 2
    assert said in text
    assert "Traceback" not in text


def table_of(folder: Path, patients: int, *, copied: bool) -> Path:
    """Two images per patient: another exposure, or a copy of the first in another format."""
    rng, rows = np.random.default_rng(1), ["picture,who,part"]
    for patient in range(patients):
        for visit in range(2):
            name = f"c{patient}-{visit}.{'jpg' if copied and visit else 'png'}"
            if not copied or not visit:
                hills = rng.normal(size=(96, 96)).cumsum(0).cumsum(1)
                shown = (255 * (hills - hills.min()) / np.ptp(hills)).astype(np.uint8)
            Image.fromarray(shown).save(folder / name)
            rows.append(f"{name},{patient},test")
    (folder / "copies.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.mark.parametrize("copied", [False, True])
def test_copies_of_one_exposure_are_excluded_from_calibration(tmp_path: Path, copied: bool) -> None:
    code, text = call(table_of(tmp_path, 4, copied=copied), "copies.csv", "--output", str(tmp_path / "out"))
    assert code == 0
    assert (tmp_path / "out/calibration.json").is_file() is not copied
    assert ("No calibration.json" in text) is copied


def test_training_images_are_excluded_from_calibration(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = digest_of_files(sorted(folder.glob("[012]-[01].png")))
    monkeypatch.setattr("medsanitize.verifiers.reid.models.load.trained_on", lambda _folder: learned)
    monkeypatch.setattr(
        "medsanitize.verifiers.reid.models.load.open_retrieval", lambda _: packaged(Modality.RADIOGRAPH)
    )
    monkeypatch.setattr("medsanitize.verifiers.reid.models.load.stored_calibration", lambda _folder: None)
    (tmp_path / "calibration.json").write_text("{}")
    call(folder, "table.csv", "--model", str(tmp_path / "model"), "--output", str(tmp_path))
    assert not (tmp_path / "calibration.json").exists()


def test_pictures_of_unknown_kind_are_refused_with_the_next_step(folder: Path) -> None:
    where = ["--images", str(folder), "--labels", str(folder / "table.csv")]
    columns = ["--column", "file=picture", "--column", "patient_id=who"]
    done = CliRunner().invoke(cli, ["evaluate", *where, *columns])
    assert done.exit_code == 2
    assert "unknown kind" in done.stderr
    assert "--kind" in done.stderr
