"""The stage overlap in whole runs: comparison with earlier releases, actions on matches, reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pydicom
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import KeyMaterialError, UsageError
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.pipeline.plan import plan
from medsanitize.pipeline.requeue import requeue
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import Attacks
from medsanitize.pipeline.state.stage_results import ATTACKS
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy
from medsanitize.release.manifest import read_rows
from medsanitize.release.registry import Registry
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.verifiers.reid.calibration import Calibration, calibrate
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.overlap.calibration_file import CalibrationFile
from medsanitize.verifiers.reid.overlap.models import ModelPaths, Models
from PIL import Image
from pydicom.data import get_testdata_file
from pydicom.uid import generate_uid

SIZE = 48
KEYS = derive_sub_keys(bytes(range(60)), scope="demo")
CR = "1.2.840.10008.5.1.4.1.1.1"


class Coarse:
    """A model that sees the picture at 8 x 8 pixels."""

    modality = Modality.RADIOGRAPH
    dimension = 64

    def __init__(self, digest: str = "c" * 64) -> None:
        self.digest = digest

    def embed(self, pictures: Any) -> Any:
        small = [Image.fromarray(p.pixels).resize((8, 8), Image.Resampling.BOX) for p in pictures]
        return np.stack([np.asarray(one, np.float32).reshape(-1) for one in small])


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> dict[str, Models]:
    """Compute fingerprints in this process, with a model that needs no weights; tests may replace it."""
    in_pool = LocalEngine.map

    def in_process(
        self: LocalEngine, task: Any, batches: Any, *, isolate: bool = False, ordered: bool = True
    ) -> Iterator[Any]:
        return in_pool(self, task, batches, isolate=isolate and self.workers > 1, ordered=ordered)

    held = {"now": Models({one: Coarse() for one in Modality})}  # type: ignore[misc]

    def opened(_paths: ModelPaths) -> Models:
        return held["now"]

    monkeypatch.setattr(LocalEngine, "map", in_process)
    for place in (
        "pipeline.engines.fingerprint_workers",
        "pipeline.jobs.compare_datasets",
        "verifiers.reid.overlap.models",
    ):
        monkeypatch.setattr(f"medsanitize.{place}.open_models", opened)
    return held


def shown(patient: int, visit: int) -> Any:
    """A noise image per patient, with other noise at each visit."""
    face = np.random.default_rng(patient).random((8, 8)).repeat(SIZE // 8, 0).repeat(SIZE // 8, 1)
    noise = np.random.default_rng([patient, visit]).random((SIZE, SIZE))
    return (0.6 * face + 0.4 * noise).astype(np.float32)


def displayed(patient: int, visit: int) -> Any:
    """The image as a model reads it from DICOM, where no window is stated."""
    pixels = shown(patient, visit)
    low, high = np.quantile(pixels, [0.005, 0.995])
    return ((pixels - low) / (high - low)).clip(0, 1).astype(np.float32)


def given(scores: Calibration) -> str:
    """A calibration file for the distances of the model."""
    return CalibrationFile(Modality.RADIOGRAPH, Coarse().digest, scores).to_json()


def calibration() -> str:
    """Calibration of the model on other patients."""
    taken = [(patient, visit) for patient in range(900, 970) for visit in (0, 1)]
    pictures = [ImageArray(displayed(*one), Modality.RADIOGRAPH) for one in taken]
    vectors, patients = Coarse().embed(pictures), np.array([patient for patient, _ in taken])
    first, second = np.triu_indices(len(taken), 1)
    scores = -np.linalg.norm(vectors[first] - vectors[second], axis=1)
    return given(calibrate(scores, patients[first], patients[second]))


def radiograph(path: Path, patient: int, visit: int) -> None:
    """A CR object of a patient."""
    data = pydicom.dcmread(str(get_testdata_file("CT_small.dcm", download=False)))
    pixels = (4000 * shown(patient, visit)).astype("<u2")
    data.PixelData, data.Rows, data.Columns = pixels.tobytes(), SIZE, SIZE
    data.BitsStored, data.HighBit, data.PixelRepresentation = 12, 11, 0
    for keyword in (
        "RescaleSlope",
        "RescaleIntercept",
        "PixelPaddingValue",
        "SmallestImagePixelValue",
        "LargestImagePixelValue",
        "WindowCenter",
        "WindowWidth",
    ):
        if keyword in data:
            delattr(data, keyword)
    data.PatientID, data.PatientName = f"MRN{patient:07d}", f"QUIXLEY{patient}^A"
    data.Modality, data.SOPClassUID, data.BodyPartExamined = "CR", CR, "CHEST"
    data.StudyInstanceUID = generate_uid(entropy_srcs=["study", str(patient), str(visit)])
    data.SeriesInstanceUID = generate_uid(entropy_srcs=["series", str(patient), str(visit)])
    data.SOPInstanceUID = generate_uid(entropy_srcs=["object", str(patient), str(visit)])
    data.file_meta.MediaStorageSOPClassUID = CR
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
    data.save_as(path)


Make = Callable[..., Policy]


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three exports: the second shares three patients (other visits) with the first, the third none."""
    base = tmp_path_factory.mktemp("exports")
    plans = {
        "first": [(patient, visit) for patient in range(6) for visit in (0, 1)],
        "second": [(p, v) for p in range(100, 103) for v in (0, 1)]
        + [(p, v) for p in (3, 4, 5) for v in (7, 8)],
        "third": [(patient, visit) for patient in range(200, 206) for visit in (0, 1)],
    }
    for name, taken in plans.items():
        (base / name).mkdir()
        for patient, visit in taken:
            radiograph(base / name / f"{patient}-{visit}.dcm", patient, visit)
    return base


@pytest.fixture
def make(tmp_path: Path, exports: Path) -> Make:
    """A policy on one of the exports, with a shared registry and key."""
    for name in ("release.key", "registry.key"):
        (tmp_path / name).write_text(bytes(range(9, 60)).hex())
        (tmp_path / name).chmod(0o600)
    (tmp_path / "calibration.json").write_text(calibration())

    def policy(
        export: str, *, section: str | None = "", tag: str = "", version: str = "1.0", **more: str
    ) -> Policy:
        lines = {
            "version": "1",
            "preset": "ps3.15-basic",
            "release": f'{{name: {export}, version: "{version}", mode: pseudonymous}}',
            "inputs": f"[{exports / export}]",
            "output": f"./{export}{tag}/release",
            "state": f"./{export}{tag}/state",
            "keys": "{file: ./release.key}",
            "registry": "{path: ./registry, key: {file: ./registry.key}}",
            **({} if section is None else {"overlap": f"{{calibration: ./calibration.json{section}}}"}),
            **more,
        }
        return loads("".join(f"{key}: {value}\n" for key, value in lines.items()), base=tmp_path)

    return policy


def go(policy: Policy, workers: int = 1) -> RunResult:
    return run(policy, Options(workers=workers))


def gate(result: RunResult) -> tuple[str, str]:
    found = next(one for one in result.gates if one.name == "overlap")
    return found.result, found.detail


def test_without_the_section_nothing_is_compared_and_this_is_reported(make: Make) -> None:
    result = go(make("third", section=None))
    assert gate(result) == ("not_run", "Other releases were not searched for the same patients.")
    assert {row.check_overlap for row in read_rows(result.release or Path())} == {"not_run"}


def test_without_an_earlier_release_only_the_embeddings_are_kept(
    make: Make, tmp_path: Path, models: dict[str, Models]
) -> None:
    result = go(make("first"))
    assert gate(result) == ("not_run", "The registry contains no release of another name to compare with.")
    assert Registry(tmp_path / "registry").missing("first", "1.0", models["now"].identity) == 0


def test_patients_of_earlier_releases_are_flagged_and_pairs_stay_private(make: Make) -> None:
    go(make("first"))
    policy = make("second")
    result = go(policy)
    assert result.ending == "published"
    assert gate(result)[0] == "flagged"
    assert "3 patients match, strictly or possibly (flag, 6 objects)" in gate(result)[1]
    checks = [row.check_overlap for row in read_rows(policy.output)]
    assert (checks.count("flagged"), len(checks)) == (6, 12)
    rows = pq.read_table(workspace_of(policy).pairs).to_pylist()
    assert {row["decision"] for row in rows} >= {"same_patient", "different"}
    assert workspace_of(policy).pairs.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("action", "outcome"), [("drop", "dropped"), ("quarantine", "quarantined")])
def test_all_objects_of_a_matching_patient_are_excluded(make: Make, action: str, outcome: str) -> None:
    go(make("first"))
    result = go(make("second", section=f", action: {action}"))
    assert getattr(result, outcome) == {"overlap": 6}
    assert result.outcomes["released"] == 6
    assert len(list(read_rows(result.release or Path()))) == 6


def test_with_no_overlap_allowed_nothing_is_published(make: Make) -> None:
    go(make("first"))
    policy = make("second", section=", action: fail")
    result = go(policy)
    assert (result.ending, gate(result)[0], result.exit_code) == ("refused", "failed", 3)
    assert not (policy.output / "RELEASE.json").exists()


def doubtful() -> str:
    """A calibration for which two visits of one patient are a possible match, never a strict one."""
    genuine = np.r_[np.full(8, -1.0), np.full(292, -1e-4)]
    first, second = np.r_[np.arange(300), np.arange(20)], np.r_[np.arange(300), np.arange(20) + 20]
    return given(calibrate(np.r_[genuine, np.full(20, -5.0)], first, second))


@pytest.mark.parametrize(
    ("action", "ending", "said"),
    [
        ("fail", "refused", "failed"),
        ("flag", "published", "flagged"),
        # More possible matches than chance explains: even without these patients nothing is concluded.
        ("quarantine", "published", "flagged"),
    ],
)
def test_the_action_also_applies_to_possible_matches(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, ending: str, said: str
) -> None:
    # As if the calibration were of these images: its strangers are made up.
    monkeypatch.setattr("medsanitize.verifiers.reid.overlap.thresholds.difference", lambda *_: "")
    go(make("first"))
    (tmp_path / "calibration.json").write_text(doubtful())
    policy = make("second", section=f", action: {action}")
    result = go(policy)
    decisions = {row["decision"] for row in pq.read_table(workspace_of(policy).pairs).to_pylist()}
    assert decisions == {"possibly_same_patient", "different"}
    assert (result.ending, gate(result)[0]) == (ending, said)


def test_an_exclusive_release_passes_with_the_bound(make: Make) -> None:
    go(make("first"))
    policy = make("third", section=", action: fail")
    result = go(policy)
    assert gate(result)[0] == "passed"
    assert "probability of missing a patient who is in both is at most" in gate(result)[1]
    assert {row.check_overlap for row in read_rows(policy.output)} == {"passed"}


def test_other_versions_of_the_same_release_are_not_an_overlap(make: Make) -> None:
    go(make("first"))
    result = go(make("first", version="2.0", tag="-2", section=", action: fail"))
    assert result.ending == "published"


def test_a_registry_of_other_models_is_rejected_before_reading(make: Make, models: dict[str, Models]) -> None:
    go(make("first"))
    models["now"] = Models({one: Coarse("d" * 64) for one in Modality})  # type: ignore[misc]
    policy = make("second", section=None, overlap="{action: flag}")
    with pytest.raises(
        UsageError, match="1 earlier releases in the registry were not embedded by these models"
    ):
        go(policy)
    assert not list(policy.state.glob("*.sqlite"))


def test_a_release_without_embeddings_is_rejected_until_added_again(make: Make, tmp_path: Path) -> None:
    first = make("first", section=None)
    go(first)
    with pytest.raises(UsageError, match="not embedded"):
        go(make("second"))
    arguments = ["registry", "add", str(first.output), "--registry", str(tmp_path / "registry"), "--embed"]
    done = CliRunner().invoke(cli, [*arguments, "--key", str(tmp_path / "registry.key"), "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "12 objects, 12 embeddings" in done.output
    assert "3 patients match" in gate(go(make("second")))[1]


def test_a_registry_under_another_key_is_rejected_before_reading(make: Make, tmp_path: Path) -> None:
    go(make("first"))
    (tmp_path / "other.key").write_text(bytes(range(50, 90)).hex())
    (tmp_path / "other.key").chmod(0o600)
    policy = make("second", registry="{path: ./registry, key: {file: ./other.key}}")
    with pytest.raises(KeyMaterialError, match="another key"):
        go(policy)
    assert not list(policy.state.glob("*.sqlite"))


def test_a_plan_reports_that_nothing_was_compared(make: Make) -> None:
    assert gate(plan(make("second"), Options(workers=1))) == ("not_run", "A plan embeds no images.")


def test_a_run_killed_after_fingerprinting_gives_the_same_bytes(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(make("first"))
    whole = go(make("second"))
    interrupted = make("second", tag="-again", registry="{path: ./copy, key: {file: ./registry.key}}")
    registry = tmp_path / "registry"
    Registry(registry).remove("second", "1.0")
    registry.rename(tmp_path / "copy")
    with monkeypatch.context() as broken:
        broken.setattr("medsanitize.pipeline.stages.manifests.write_manifests", _killed)
        with pytest.raises(KeyboardInterrupt):
            go(interrupted)
    resumed = go(interrupted)
    ours, theirs = (files(result.release or Path()) for result in (whole, resumed))
    assert ours == theirs


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def files(release: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(release)): path.read_bytes() for path in release.rglob("*") if path.is_file()
    }


def test_neither_scores_nor_pairs_are_in_the_release(make: Make) -> None:
    go(make("first"))
    policy = make("second")
    go(policy)
    firsts = {row.patient for row in read_rows(make("first", section=None).output)}
    for path in policy.output.rglob("*"):
        if path.is_file() and path.suffix != ".dcm":
            content = path.read_bytes()
            assert not any(one.encode() in content for one in firsts)
    kept = json.loads((policy.state / "audit.json").read_text())["overlap"]
    assert kept["patients"] == 3


def attack(result: RunResult) -> tuple[str, str]:
    found = next(one for one in result.gates if one.name == "linkage attack")
    return found.result, found.detail


def test_a_release_is_attacked_with_itself_using_stored_embeddings(make: Make) -> None:
    result, told = attack(go(make("first")))
    assert result == "flagged"
    assert "Linked by their radiographs, of patients with two images or more: 6 of 6 (Rs 1.000" in told


def test_a_release_is_attacked_with_earlier_ones_that_share_pseudonyms(make: Make) -> None:
    keys = "{file: ./release.key, scope: project}"
    go(make("first", keys=keys))
    told = attack(go(make("second", keys=keys)))[1]
    assert "who are also in earlier releases: 3 of 3 (Rs 1.000" in told


def test_an_earlier_release_with_other_pseudonyms_is_no_background(make: Make) -> None:
    go(make("first"))
    assert "earlier releases too" not in attack(go(make("second")))[1]


def test_the_report_checklist_is_based_on_the_attack_with_other_data(make: Make) -> None:
    keys = "{file: ./release.key, scope: project}"
    go(make("first", keys=keys))
    text = ((go(make("second", keys=keys)).release or Path()) / "report.html").read_text()
    assert "linked 3 of 3 patients to other images of theirs" in text
    assert "No linkage attack was run" not in text


def test_images_without_embeddings_are_reported_by_the_attack(make: Make, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for visit in (0, 1):
        radiograph(tmp_path / "more" / f"{visit}.dcm", 7, visit)
    data = pydicom.dcmread(tmp_path / "more" / "1.dcm")
    data.Modality = "MR"
    data.save_as(tmp_path / "more" / "2.dcm")
    data.SOPInstanceUID = data.file_meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["other"])
    data.save_as(tmp_path / "more" / "2.dcm")
    result, told = attack(go(make("third", inputs=f"[{tmp_path / 'more'}]")))
    assert result == "flagged"
    assert "Images in no attack: 1." in told


def test_a_run_killed_during_the_attack_gives_the_same_bytes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = files(go(make("first")).release or Path())
    interrupted = make("first", tag="-again", registry="{path: ./other, key: {file: ./registry.key}}")
    with monkeypatch.context() as broken:
        broken.setattr("medsanitize.pipeline.stages.linkage_attack._earlier_images", _killed)
        with pytest.raises(KeyboardInterrupt):
            go(interrupted)
    assert files(go(interrupted).release or Path()) == whole


def test_the_attack_is_repeated_when_outcomes_change(tmp_path: Path) -> None:
    state = State(None, KEYS)
    ATTACKS.store(state, Attacks())
    requeue(state, [], tmp_path)
    left = ATTACKS.load(state)
    state.close()
    assert left is None


def test_a_release_with_one_image_per_patient_has_no_linkable_patients(make: Make, tmp_path: Path) -> None:
    (tmp_path / "single").mkdir()
    for patient in (1, 2):
        radiograph(tmp_path / "single" / f"{patient}.dcm", patient, 0)
    result, told = attack(go(make("third", inputs=f"[{tmp_path / 'single'}]")))
    assert (result, told.startswith("There is no link to find")) == ("not_run", True)


def test_without_embeddings_no_attack_is_run(make: Make) -> None:
    assert attack(go(make("first", section=None)))[0] == "not_run"


def test_an_attack_on_many_images_uses_a_sample_of_patients(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medsanitize.pipeline.stages.linkage_attack.MAX_IMAGES", 5)
    assert "with two images or more: 2 of 2" in attack(go(make("first")))[1]
