"""A run compares what it releases with the sources, and keeps back what it made invalid."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydicom
import pytest
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.stages import validate
from medsanitize.pipeline.storage import named_files
from medsanitize.policies.model import Policy
from medsanitize.verifiers.validity.dciodvfy import find_dciodvfy
from medsanitize.verifiers.validity.findings import Validity

from tests.helpers.hospital import write_ct

Workplace = Callable[..., Policy]
ONE = Options(workers=1)
needs_dciodvfy = pytest.mark.skipif(find_dciodvfy() is None, reason="needs dciodvfy")


def two_series(policy: Policy) -> None:
    export = policy.inputs[0]
    assert isinstance(export, Path)
    shutil.rmtree(export)
    for number in range(4):
        write_ct(export / str(number), number, study=number % 2)


def pack(export: Path) -> None:
    """Replace the files of a folder by an archive of them."""
    shutil.make_archive(str(export.with_name("all")), "zip", export)
    shutil.rmtree(export)
    export.mkdir()
    shutil.move(export.with_name("all.zip"), export)


def gate(result: RunResult) -> str:
    return next(one.result for one in result.gates if one.name == "valid DICOM")


def validity(policy: Policy) -> dict[str, Any]:
    facts = json.loads((policy.state / "audit.json").read_text())["validity"]
    assert isinstance(facts, dict)
    return facts


@needs_dciodvfy
@pytest.mark.parametrize(("mode", "checked"), [("sample", 2), ("all", 4)])
def test_a_sample_has_one_object_of_each_series(workplace: Workplace, mode: str, checked: int) -> None:
    policy = workplace(validation=mode)
    two_series(policy)

    result = run(policy, ONE)

    facts = validity(policy)
    assert (facts["concerned"], facts["checked"], facts["pixels"]) == (4, checked, checked)
    assert (gate(result), facts["introduced"]) == ("passed", {})


def test_an_object_with_an_error_of_ours_is_quarantined(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = workplace(validation="all")
    two_series(policy)
    judged = iter([Validity(True, {"/Rows(0028,0010) Missing": 1}), *[Validity(judged=True)] * 3])
    monkeypatch.setattr(validate, "compare_errors", lambda *_: next(judged))

    result = run(policy, ONE)

    assert (gate(result), result.quarantined) == ("flagged", {"introduced-error": 1})
    assert len(list((policy.output / "data").rglob("*.dcm"))) == 3
    (found,) = validity(policy)["introduced"].values()
    assert found == {"/Rows(0028,0010) Missing (dciodvfy)": 1}


def test_of_a_series_with_an_error_of_ours_every_object_is_compared(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = workplace(validation="sample")
    two_series(policy)
    error = Validity(True, {"/Rows(0028,0010) Missing": 1})
    # The two sampled objects, then the other one of the first series.
    judged = iter([error, Validity(judged=True), error])
    monkeypatch.setattr(validate, "compare_errors", lambda *_: next(judged))

    result = run(policy, ONE)

    assert result.quarantined == {"introduced-error": 2}
    assert validity(policy)["checked"] == 3


def test_an_object_whose_pixels_others_read_differently_is_quarantined(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = workplace(validation="all")
    two_series(policy)
    differ = iter([True, False, False, False])
    monkeypatch.setattr(validate, "pixels_differ", lambda *_: next(differ))

    assert run(policy, ONE).quarantined == {"pixels-differ": 1}


NOT_JUDGED = Validity(judged=False)


@pytest.mark.parametrize(("missing", "result"), [(("dciodvfy",), "passed"), (("both",), "not_run")])
def test_the_gate_says_which_validator_looked(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...], result: str
) -> None:
    policy = workplace()
    two_series(policy)
    monkeypatch.setattr(validate, "find_dciodvfy", lambda: None)
    monkeypatch.setattr(validate, "compare_errors", lambda *_: NOT_JUDGED)
    if missing == ("both",):
        monkeypatch.setattr(validate, "has_dicom_validator", lambda: False)
        monkeypatch.setattr(validate, "compare_modules", lambda *_: NOT_JUDGED)

    done = run(policy, ONE)

    (found,) = [one for one in done.gates if one.name == "valid DICOM"]
    assert (done.ending, found.result) == ("published", result)
    assert "0 by dciodvfy, which is not installed (extra validate)" in found.detail
    assert ("2 by dicom-validator." in found.detail) == (result == "passed")


def test_a_required_attribute_that_the_sanitizer_loses_is_found_by_dicom_validator(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = workplace(validation="all")
    two_series(policy)
    monkeypatch.setattr(validate, "compare_errors", lambda *_: NOT_JUDGED)
    compare = validate.compare_modules

    def losing(source: Path, released: Path) -> Validity:
        data_set = pydicom.dcmread(released)
        del data_set.SeriesInstanceUID
        data_set.save_as(tmp_path / "lost.dcm")
        return compare(source, tmp_path / "lost.dcm")

    monkeypatch.setattr(validate, "compare_modules", losing)

    result = run(policy, ONE)

    assert result.quarantined == {"introduced-error": 4}
    (found,) = validity(policy)["introduced"].values()
    kind = "/SeriesInstanceUID(0020,000e) TagMissing Module=<general-series> (dicom-validator)"
    assert (found, validity(policy)["validators"]) == ({kind: 4}, {"dicom-validator": 4})


def test_the_policy_can_switch_the_comparison_off(workplace: Workplace) -> None:
    policy = workplace(validation='"off"')
    two_series(policy)

    result = run(policy, ONE)

    assert (gate(result), validity(policy)) == ("not_run", {})


@needs_dciodvfy
def test_sources_in_a_container_are_compared_as_well(workplace: Workplace) -> None:
    policy = workplace(validation="all")
    two_series(policy)
    export = policy.inputs[0]
    assert isinstance(export, Path)
    for path in export.iterdir():
        data_set = pydicom.dcmread(path)
        del data_set.SliceThickness  # an error of the source
        data_set.save_as(path)
    pack(export)

    result = run(policy, ONE)

    facts = validity(policy)
    assert (facts["concerned"], facts["checked"], facts["introduced"]) == (4, 4, {})
    assert (gate(result), bool(facts["kept"])) == ("passed", True)


def test_where_a_file_cannot_be_named_its_source_is_not_compared(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = workplace(validation="all")
    two_series(policy)
    export = policy.inputs[0]
    assert isinstance(export, Path)
    pack(export)
    monkeypatch.setattr(named_files, "_PROCESSES", tmp_path / "none")  # as on macOS

    result = run(policy, ONE)

    assert (result.ending, gate(result)) == ("published", "not_run")


@needs_dciodvfy
def test_the_gate_says_how_much_it_looked_at(workplace: Workplace) -> None:
    policy = workplace()
    two_series(policy)

    (found,) = [one for one in run(policy, ONE).gates if one.name == "valid DICOM"]

    assert (found.looked_at, found.concerned) == (2, 4)


@needs_dciodvfy
def test_pixels_that_were_left_out_are_no_error_of_ours(workplace: Workplace) -> None:
    policy = workplace(validation="all")
    two_series(policy)
    assert isinstance(policy.inputs[0], Path)
    for path in policy.inputs[0].iterdir():
        data = path.read_bytes()
        path.write_bytes(data.replace(b"1.2.840.10008.1.2.1\0", b"1.2.826.0.1.123456\0\0", 1))

    result = run(policy, ONE)

    assert (result.quarantined, validity(policy)["checked"]) == ({}, 4)
