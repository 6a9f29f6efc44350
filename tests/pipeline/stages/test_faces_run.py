"""A run over head scans: one decision per series, independent of how the run is executed."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pydicom
import pytest
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.plan import plan
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.stages.faces import faces_of, judge_faces
from medsanitize.pipeline.stages.inventory import take_inventory
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.shards import Shard
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation
from medsanitize.release.manifest import read_rows
from medsanitize.sanitize.pseudonyms import derive_sub_keys

from tests.helpers import phantoms
from tests.helpers.hospital import CANARIES, KEY, prepare, tree
from tests.helpers.phantoms import CORONAL, SAGITTAL, Scan, head, write_series

ONE = Options(workers=1)
KEYS = derive_sub_keys(KEY, scope="project")
Place = Callable[..., Policy]


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head CT in axial slices, an enhanced MR of it, its localizer, and a trunk: 69 files."""
    root = tmp_path_factory.mktemp("heads") / "export"
    ct = Scan(head(), pixel=5, gap=7)
    write_series(root / "a", ct, number=1)
    coronal = Scan(head(), modality="MR", pixel=5, gap=7, orientation=CORONAL)
    write_series(root / "b", coronal, number=2, enhanced=True)
    write_series(root / "c", Scan(head(), pixel=5, gap=20, cover=60, orientation=SAGITTAL), number=3)
    trunk = Scan(phantoms.torso(), pixel=10, gap=10, view=400, cover=280)
    write_series(root / "d", trunk, number=4, PatientID="OTHER", StudyInstanceUID="1.2.3")
    return root


@pytest.fixture
def place(tmp_path: Path, heads: Path) -> Place:
    def make(faces: str, name: str = "w", **sections: str) -> Policy:
        base = tmp_path / name
        if not (base / "export").exists():
            base.mkdir()
            shutil.copytree(heads, base / "export")
        pixels = f"{{faces: {faces}, at_risk: release}}"
        return prepare(base, pixels=pixels, **sections)

    return make


def checks(policy: Policy) -> Counter[tuple[str, int, str]]:
    return Counter((row.modality, row.frames or 0, str(row.check_faces)) for row in read_rows(policy.output))


def released(policy: Policy) -> dict[str, pydicom.Dataset]:
    """Released objects by modality and number of slices of their series."""
    found = [pydicom.dcmread(path) for path in sorted(policy.output.rglob("*.dcm"))]
    sizes = Counter(data.SeriesInstanceUID for data in found)
    return {f"{data.Modality}{sizes[data.SeriesInstanceUID]}/{data.InstanceNumber}": data for data in found}


def test_flagged_heads_are_released_and_reported(place: Place) -> None:
    policy = place("flag")
    result = run(policy, ONE)
    report = (policy.output / "report.html").read_text()
    assert result.outcomes["released"] == 69
    assert checks(policy) == {
        ("CT", 1, "flagged"): 37,
        ("MR", 37, "flagged"): 1,
        ("CT", 1, "passed"): 31,
    }
    assert "38 released objects may show a face" in report
    assert {data.RecognizableVisualFeatures for data in released(policy).values()} == {"YES", "NO"}


def test_quarantined_heads_are_not_released(place: Place) -> None:
    policy = place("quarantine")
    result = run(policy, ONE)
    assert result.quarantined == {"recognizable-face": 38}
    assert set(checks(policy)) == {("CT", 1, "passed")}


def test_a_defaced_head_shows_no_face(place: Place) -> None:
    policy = place("deface")
    result = run(policy, ONE)
    assert result.outcomes == {"released": 69, "dropped": 0, "quarantined": 0}
    assert set(checks(policy)) == {("CT", 1, "passed"), ("MR", 37, "passed")}
    assert result.rules["face-defaced"] > 10
    again = place("flag", "again")
    shutil.rmtree(again.inputs[0])
    shutil.copytree(policy.output / "data", again.inputs[0])
    assert run(again, ONE).outcomes["released"] == 69
    before, after = depths(place("flag", "other").inputs[0] / "a"), depths(policy.output / "data", 37)
    face = np.s_[20:30, 22:30]  # from below the brow to the chin, 40 mm to either side of the nose
    assert (after[face] - before[face]).min() >= 2


def depths(folder: Path, slices: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The foremost row of tissue by slice from above and by column, as in a frontal rendering."""
    found = [pydicom.dcmread(path) for path in folder.rglob("*.dcm")]
    sizes = Counter(data.SeriesInstanceUID for data in found)
    found = [
        one
        for one in found
        if one.Modality == "CT" and (not slices or sizes[one.SeriesInstanceUID] == slices)
    ]
    found.sort(key=lambda data: -data.ImagePositionPatient[2])
    tissue = np.stack([data.pixel_array - 1024 > -300 for data in found])
    return np.where(tissue.any(axis=1), tissue.argmax(axis=1), 99)


def test_a_localizer_loses_the_profile_code_of_its_frame_of_reference(place: Place) -> None:
    policy = place("deface")
    run(policy, ONE)
    codes = {
        name: [item.CodeValue for item in data.DeidentificationMethodCodeSequence]
        for name, data in released(policy).items()
    }
    assert "113102" in codes["CT3/2"]
    assert not any("113102" in found for name, found in codes.items() if name.startswith("CT28"))


def test_an_ignored_face_check_reads_no_pixels(place: Place) -> None:
    policy = place("ignore")
    result = run(policy, ONE)
    assert "faces" not in {stage.name for stage in result.stages}
    assert {check for _, _, check in checks(policy)} == {"not_run"}
    assert not any("RecognizableVisualFeatures" in data for data in released(policy).values())


def test_a_plan_predicts_the_outcome_of_heads(place: Place) -> None:
    assert plan(place("quarantine"), ONE).quarantined == {"recognizable-face": 38}


def test_workers_and_shards_agree(place: Place) -> None:
    one, two, split = place("deface", "one"), place("deface", "two"), place("deface", "split")
    run(one, ONE)
    run(two, Options(workers=2))
    run(split, Options(workers=1, inventory_only=True))
    for index in (2, 1):
        run(split, Options(workers=1, shard=Shard(index, 2)))
    run(split, ONE)
    assert released_bytes(one) == released_bytes(two) == released_bytes(split)


def released_bytes(policy: Policy) -> list[str]:
    return sorted(path.rpartition(" ")[2] for path in tree(policy.output / "data").values())


def test_an_anonymous_run_checks_faces_as_well(place: Place) -> None:
    policy = place("quarantine", release='{name: chest-ct, version: "1.0", mode: anonymous}', keys="{}")
    assert run(policy, ONE).quarantined == {"recognizable-face": 38}


def test_a_checked_series_is_not_checked_again(place: Place) -> None:
    policy = place("deface")
    with LocalEngine(Setup(policy, KEYS, None, keep_links=False), 1, Cancellation()) as engine:
        state = State(None, KEYS)
        take_inventory(state, policy.inputs, engine)
        seen: list[int] = []
        judge_faces(state, engine, seen.append)
        rows = state.db.execute("SELECT * FROM faces ORDER BY series").fetchall()
        state.db.execute("DELETE FROM meta WHERE name = 'faces'")
        state.db.execute("DELETE FROM faces WHERE series = ?", (rows[0][0],))
        again: list[int] = []
        judge_faces(state, engine, again.append)
        after = state.db.execute("SELECT series, verdict FROM faces ORDER BY series").fetchall()
        state.close()
    assert sum(seen) == 69
    assert 0 < sum(again) < 69
    assert after == [row[:2] for row in rows]


def test_single_slices_in_separate_series_are_checked_together(place: Place) -> None:
    policy = place("quarantine")
    for number, path in enumerate(sorted((policy.inputs[0] / "a").iterdir())):
        data = pydicom.dcmread(path)
        data.SeriesInstanceUID = f"1.2.826.{number + 1}"
        data.save_as(path)
    assert run(policy, ONE).quarantined["recognizable-face"] >= 37


def test_a_head_that_cannot_be_decoded_is_treated_as_showing_a_face(place: Place) -> None:
    policy = place("deface")
    for path in (policy.inputs[0] / "a").iterdir():
        data = pydicom.dcmread(path)
        data.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.4.90"
        data.PixelData = pydicom.encaps.encapsulate([b"\xff\x4f\xff\x51" + bytes(64)])
        data["PixelData"].is_undefined_length = True
        data["PixelData"].VR = "OB"
        data.save_as(path)
    result = run(policy, ONE)
    assert result.outcomes["quarantined"] >= 34


def test_a_scout_is_a_projection_and_is_left_unchanged(place: Place) -> None:
    policy = place("deface")
    for path in (policy.inputs[0] / "c").iterdir():
        data = pydicom.dcmread(path)
        data.ImageType = ["ORIGINAL", "PRIMARY", "LOCALIZER"]
        data.save_as(path)
    run(policy, ONE)
    assert checks(policy)[("CT", 1, "not_applicable")] == 3


def test_the_state_does_not_reveal_where_faces_are(place: Place) -> None:
    policy = place("deface")
    run(policy, ONE)
    kept = b"".join(path.read_bytes() for path in policy.state.rglob("*.sqlite*"))
    assert not any(canary.encode() in kept for canary in CANARIES)
    assert b"ImagePosition" not in kept
    assert json.dumps([5.0, 5.0]).encode() not in kept


def test_objects_that_are_no_slices_get_no_face_decision(place: Place) -> None:
    policy = place("ignore")
    state = State(None, KEYS)
    assert faces_of(state, policy.pixels.faces)(0) is None
    state.close()
