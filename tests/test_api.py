"""The public API: names, signatures, and behavior on real files."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import medsanitize
import pydicom
import pytest
from medsanitize import Deidentifier, Release, ReleaseKey
from medsanitize.sanitize.pieces import OutFile
from pydicom.data import get_testdata_file

ROOT = Path(__file__).parent.parent
KEY = ReleaseKey(bytes(range(40)))
CT = Path(str(get_testdata_file("CT_small.dcm", download=False)))

SIGNATURES = {
    "Deidentifier": "(policy, key)",
    "Deidentifier.__call__": "(self, source)",
    "Previewer": "(policy)",
    "Previewer.__call__": "(self, file)",
    "Release": "(path)",
    "Release.objects": "(self)",
    "Release.to_arrow": "(self)",
    "Release.to_pandas": "(self)",
    "Release.verify": "(self, *, key=None)",
    "ReleaseKey": "(material)",
    "ReleaseKey.from_env": "(name)",
    "ReleaseKey.from_file": "(path)",
    "ReleaseKey.generate": "()",
    "Result.save": "(self, folder)",
    "Result.to_bytes": "(self)",
    "add_rule": "(policy, attribute, action='X')",
    "attribute_rules": "(policy, search='')",
    "audit": "(release, *, policy=None)",
    "compare": (
        "(*datasets, labels=None, columns=None, models=(), verifiers=(), calibration=None, target=None,"
        " output=None, workers=None, progress=None)"
    ),
    "decision_log": "(policy)",
    "draft_policy": "(answers, *, name='my-release', version='1.0')",
    "edit_site_lists": "(policy, *, add_never=(), add_safe=(), remove_never=(), remove_safe=())",
    "import_policy": "(rules, *, preset='research', name='my-release')",
    "inventory": "(policy, *, workers=None, progress=None)",
    "keygen": "(path, *, signing=False)",
    "load_policy": "(source)",
    "open_review": "(policy, *, reviewer='')",
    "open_values": "(target, *, progress=None)",
    "plan": "(policy, *, workers=None, progress=None)",
    "policy_problems": "(text, *, base)",
    "policy_schema": "()",
    "propose_words": "(policy, *, least_patients=3, workers=None, progress=None)",
    "run": "(policy, *, workers=None, progress=None)",
    "site_lists": "(policy)",
    "staged_frame": "(file, frame=None, *, edge=1600)",
    "staged_header": "(file)",
    "status": "(policy)",
    "stop": "(policy)",
    "stored_inventory": "(policy)",
    "verify": "(release, *, key=None)",
}
VALUES = (
    "POLICY_QUESTIONS",
    *("EnvironmentFailure", "Finding", "ImportedPolicy", "IntegrityError", "KeyMaterialError"),
    *("MedsanitizeError", "Outcome"),
    *("Policy", "PolicyError", "Progress", "Result", "UsageError", "__version__"),
)


@pytest.fixture(scope="module")
def basic() -> Deidentifier:
    return Deidentifier("ps3.15-basic", KEY)


def plain_signature(named: str) -> str:
    found: Any = medsanitize
    for part in named.split("."):
        found = getattr(found, part)
    signature = inspect.signature(found)
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


# -- what is public -----------------------------------------------------------------------


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_pinned(name: str) -> None:
    assert plain_signature(name) == SIGNATURES[name]


def test_no_other_name_is_public() -> None:
    functions = {name.split(".")[0] for name in SIGNATURES}
    assert sorted(medsanitize.__all__) == sorted(functions | set(VALUES))
    assert set(medsanitize.__all__) <= set(dir(medsanitize))
    with pytest.raises(AttributeError, match="no attribute 'Sanitizer'"):
        medsanitize.Sanitizer  # noqa: B018


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in medsanitize.__all__ if not getattr(medsanitize, name).__doc__] == []


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, time; before = time.process_time(); import medsanitize;"
        " took = time.process_time() - before;"
        " print(took, any(name in sys.modules for name in ('pydantic', 'pyarrow', 'numpy')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    seconds, heavy = out.stdout.split()
    assert float(seconds) < 0.1
    assert heavy == "False"


# -- one object ---------------------------------------------------------------------------


def test_a_real_file_is_released_without_its_identifiers(basic: Deidentifier) -> None:
    result = basic(CT)
    source = pydicom.dcmread(CT)

    assert (result.outcome, result.kind, result.findings) == ("released", "dicom", ())
    assert result.dataset.PatientName != source.PatientName
    assert str(source.PatientName).encode() not in result.to_bytes()
    assert str(source.PatientID).encode() not in result.to_bytes()
    assert result.dataset.pixel_array.tolist() == source.pixel_array.tolist()
    assert result.actions["removed"] > 100


def test_bytes_paths_and_datasets_are_treated_alike(basic: Deidentifier) -> None:
    dataset = pydicom.dcmread(CT)
    before = dataset.to_json()

    from_path = basic(str(CT))

    assert basic(CT.read_bytes()).to_bytes() == from_path.to_bytes()
    assert basic(dataset).to_bytes() == from_path.to_bytes()
    assert dataset.to_json() == before


@pytest.mark.parametrize("preset", ["ps3.15-basic", "research"])
def test_a_run_is_deterministic(tmp_path: Path, preset: str) -> None:
    """For an object whose series shows nothing that a single object does not."""
    name = "MR_small.dcm" if preset == "ps3.15-basic" else "SC_rgb_small_odd.dcm"
    source = Path(str(get_testdata_file(name, download=False)))
    export = tmp_path / "export"
    export.mkdir()
    (export / "one").write_bytes(source.read_bytes())
    medsanitize.keygen(tmp_path / "release.key")
    policy = {
        "version": 1,
        "preset": preset,
        "release": {"name": "one", "version": "1", "mode": "pseudonymous"},
        "inputs": [str(export)],
        "output": str(tmp_path / "release"),
        "state": str(tmp_path / "state"),
        "keys": {"file": str(tmp_path / "release.key"), "scope": "project"},
    }
    lines: list[str] = []

    ending = medsanitize.run(policy, workers=1, progress=lines.append).ending
    result = Deidentifier(preset, ReleaseKey.from_file(tmp_path / "release.key"))(source)

    assert ending == "published"
    assert any(line.startswith("sanitize: 1 objects") for line in lines)
    release = Release(tmp_path / "release")
    (row,) = release.objects()
    assert (tmp_path / "release" / row.path).read_bytes() == result.to_bytes()
    assert row.path == f"data/{result.path}"
    assert (release.name, release.version, release.mode) == ("one", "1", "pseudonymous")
    assert release.to_arrow().num_rows == 1
    assert release.to_pandas().path.tolist() == [row.path]
    assert release.verify().status == "intact"
    assert medsanitize.verify(tmp_path / "release").problems == ()
    assert medsanitize.audit(tmp_path / "release", policy=policy).passed


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    export = tmp_path / "export"
    export.mkdir()
    (export / "one.dcm").write_bytes(CT.read_bytes())
    medsanitize.keygen(tmp_path / "release.key")
    (tmp_path / "policy.yaml").write_text(
        "version: 1\npreset: ps3.15-basic\nrelease: {name: a, version: '1', mode: pseudonymous}\n"
        "inputs: [./export]\noutput: ./release\nstate: ./state\nkeys: {file: ./release.key}\n"
    )

    planned = medsanitize.plan(tmp_path / "policy.yaml", workers=1)

    assert (planned.ending, planned.outcomes["released"]) == ("planned", 1)
    assert not (tmp_path / "release").exists()


def test_a_truncated_file_is_quarantined(basic: Deidentifier, tmp_path: Path) -> None:
    result = basic(CT.read_bytes()[:3000])

    assert result.outcome == "quarantined"
    assert [one.rule for one in result.findings] == ["truncated"]
    assert result.actions == {}
    for use in (result.to_bytes, lambda: result.dataset, lambda: result.save(tmp_path)):
        with pytest.raises(medsanitize.UsageError, match="quarantined"):
            use()


def test_an_object_that_fails_the_audit_is_quarantined(
    basic: Deidentifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leak caused by a sanitizer defect is found as in a run."""
    content = CT.read_bytes()
    done = basic._dicom

    def leaky(data: bytes, context: Any) -> Any:
        import dataclasses

        return dataclasses.replace(done(data, context), files=(OutFile(".dcm", (content,)),))

    monkeypatch.setattr(basic, "_dicom", leaky)
    result = basic(content)

    assert result.outcome == "quarantined"
    assert all(one.rule.startswith("audit:") for one in result.findings)


def test_a_defect_releases_nothing(basic: Deidentifier, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("PATIENT^NAME")

    monkeypatch.setattr(basic, "_dicom", broken)

    assert [one.rule for one in basic(CT).findings] == ["internal-error"]


def test_slices_wait_for_their_series_if_faces_are_checked() -> None:
    result = Deidentifier("hipaa-safe-harbor", KEY)(CT)
    assert [one.rule for one in result.findings] == ["face-not-looked-for"]


def test_files_that_are_no_images_and_mixed_patients_are_quarantined(basic: Deidentifier) -> None:
    dataset = pydicom.dcmread(CT)
    dataset.PatientID = ["1", "2"]

    assert [basic(one).findings[0].rule for one in (b"no image", b"PK\3\4" + bytes(60))] == [
        "other-file:text",
        "container-outside-run",
    ]
    assert basic(b"").outcome == "quarantined"
    assert [one.rule for one in basic(dataset).findings] == ["two-patient-ids"]


def test_a_data_set_that_cannot_be_written_is_quarantined(basic: Deidentifier) -> None:
    assert basic(pydicom.Dataset()).outcome == "quarantined"


def test_excluded_patients_are_dropped_and_assigned_pseudonyms_are_used(tmp_path: Path) -> None:
    identifier = str(pydicom.dcmread(CT).PatientID)
    (tmp_path / "out.csv").write_text(f"patient_id\n{identifier}\n")
    (tmp_path / "names.csv").write_text(f"patient_id,pseudonym\n{identifier},SUBJ-7\n")
    preset = {"preset": "ps3.15-basic"}

    named = Deidentifier({**preset, "pseudonyms": {"table": str(tmp_path / "names.csv")}}, KEY)(CT)
    left_out = Deidentifier({**preset, "exclude": str(tmp_path / "out.csv")}, KEY)(CT)

    assert named.dataset.PatientID == "SUBJ-7"
    assert [(one.rule, left_out.outcome) for one in left_out.findings] == [("consent", "dropped")]


def test_results_are_saved_once_and_never_overwrite_a_file(basic: Deidentifier, tmp_path: Path) -> None:
    result = basic(CT)

    path = result.save(tmp_path / "new")

    assert path.read_bytes() == result.to_bytes()
    assert path == tmp_path / "new" / result.path
    assert result.save(tmp_path / "new") == path
    path.write_bytes(b"other")
    with pytest.raises(medsanitize.UsageError, match="different file"):
        result.save(tmp_path / "new")


def test_a_missing_path_and_other_types_raise(basic: Deidentifier, tmp_path: Path) -> None:
    with pytest.raises(medsanitize.UsageError):
        basic(tmp_path / "nothing")
    with pytest.raises(medsanitize.UsageError):
        basic(tmp_path)
    with pytest.raises(TypeError):
        basic(BytesIO())  # type: ignore[arg-type]


def test_no_warning_shows_a_value(basic: Deidentifier, recwarn: pytest.WarningsRecorder) -> None:
    dataset = pydicom.dcmread(CT)
    dataset.StudyDate = "20040826"
    dataset._dict[pydicom.tag.Tag(0x00100030)] = pydicom.DataElement(0x00100030, "DA", "19700101")

    assert basic(dataset).outcome == "released"
    assert list(recwarn) == []


# -- keys, policies, releases ---------------------------------------------------------------


def test_keys_are_validated_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    medsanitize.keygen(tmp_path / "release.key")
    from_file = ReleaseKey.from_file(tmp_path / "release.key")
    monkeypatch.setenv("THE_KEY", (tmp_path / "release.key").read_text())

    assert ReleaseKey.from_env("THE_KEY").material == from_file.material
    assert ReleaseKey.generate().material != ReleaseKey.generate().material
    assert repr(from_file) == "ReleaseKey(...)"
    with pytest.raises(TypeError):
        pickle.dumps(from_file)
    for make in (
        lambda: ReleaseKey(b"short"),
        lambda: ReleaseKey(bytes(64)),
        lambda: ReleaseKey.from_env("NO"),
    ):
        with pytest.raises(medsanitize.KeyMaterialError):
            make()
    with pytest.raises(medsanitize.KeyMaterialError):
        medsanitize.keygen(tmp_path / "release.key")


def test_every_problem_of_a_policy_is_reported() -> None:
    with pytest.raises(medsanitize.PolicyError) as raised:
        medsanitize.load_policy({"version": 1, "preset": "research", "nonsense": 1})
    assert len(raised.value.problems) > 1
    with pytest.raises(medsanitize.PolicyError):
        Deidentifier({"preset": "ps3.15-basic", "dicom": {"nonsense": True}}, KEY)
    with pytest.raises(medsanitize.UsageError):
        medsanitize.load_policy("/no/such/policy.yaml")


def test_a_folder_without_a_release_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(medsanitize.UsageError):
        Release(tmp_path)
    (tmp_path / "RELEASE.json").write_text("{}")
    with pytest.raises(medsanitize.IntegrityError):
        Release(tmp_path)


def test_a_comparison_requires_two_datasets(tmp_path: Path) -> None:
    with pytest.raises(medsanitize.UsageError, match="Fewer than two"):
        medsanitize.compare(tmp_path)
    with pytest.raises(medsanitize.UsageError, match="labels"):
        medsanitize.compare(tmp_path, tmp_path, labels=[None])


# -- the manual ---------------------------------------------------------------------------


def test_the_examples_of_the_manual_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of docs/api.md, executed in order in a folder with an export."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "scan.dcm").write_bytes(CT.read_bytes())
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}

    for block in blocks:
        exec(compile(block, "docs/api.md", "exec"), scope)  # noqa: S102

    assert len(blocks) >= 4
    assert scope["result"].outcome == "released"


def test_every_public_name_is_documented_in_the_manual() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in medsanitize.__all__ if f"`{name}" not in page] == []
