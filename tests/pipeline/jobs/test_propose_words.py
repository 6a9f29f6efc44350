"""Drafts of the site's lists: staff and places, kept names, removed words; no name on the terminal."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import medsanitize
import pytest
from click.testing import CliRunner, Result
from medsanitize.cli import cli
from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.propose_words import propose_words
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy
from medsanitize.policies.site_lists import read_site_lists
from medsanitize.progress import Cancellation, Cancelled

from tests.helpers.hospital import prepare, tree, write_ct

NAMES = ("Kaltenbrunner", "Musterstadt", "Zackwill", "MRWERNER", "Quaxton", "Kopfspule")
HEADER: dict[str, Any] = {
    "ReferringPhysicianName": "Kaltenbrunner^Hans^^Dr.",
    "OperatorsName": "Technician",
    "InstitutionName": "Klinikum Musterstadt",
    "InstitutionalDepartmentName": "Radiology",
    "StationName": "MRWERNER",
    "StudyDescription": "CT chest Kopfspule Quickscan",
    "SeriesDescription": "Routine, seen by Kaltenbrunner",
}


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two objects each of four patients; the operator of one is entered as the patient."""
    root = tmp_path_factory.mktemp("words") / "export"
    for number in range(8):
        patient = number % 4
        name = f"Zackwill^P{patient}"
        own = {"PatientName": name, "PerformingPhysicianName": name if patient else "Quaxton^Mia"}
        comment = f"Only once {'Nativserie' if not patient else ''}"
        write_ct(
            root / f"{number}.dcm", number, f"P{patient}", patient, **own, **HEADER, ImageComments=comment
        )
    return root


def policy(base: Path, export: Path, **sections: str) -> Policy:
    return prepare(base, preset="research", inputs=f'["{export}"]', **sections)


def drafts(policy: Policy) -> tuple[list[str], list[str]]:
    """The lines of both drafts without comments and headings; unused entries begin with a number sign."""
    found = []
    for name in ("deny", "allow"):
        lines = (policy.state / f"chest-ct-1.0.{name}-list.txt").read_text().splitlines()
        found.append([line.partition("  #")[0] for line in lines if line and not line.startswith("# ")])
    return found[0], found[1]


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory, export: Path) -> Policy:
    """A policy whose drafts were written once."""
    own = policy(tmp_path_factory.mktemp("drafted"), export)
    propose_words(own, workers=1)
    return own


def test_staff_and_places_of_headers_are_proposed_as_never_words(drafted: Policy) -> None:
    deny, _ = drafts(drafted)
    assert {"Kaltenbrunner^Hans", "Quaxton^Mia", "Klinikum Musterstadt", "MRWERNER"} <= set(deny)
    assert {"#Radiology", "#Technician"} <= set(deny)


def test_names_of_patients_are_proposed_nowhere(drafted: Policy) -> None:
    deny, allow = drafts(drafted)
    assert not any("zackwill" in line.lower() for line in (*deny, *allow))


def test_removed_words_of_several_patients_are_proposed_as_unused_safe_words(drafted: Policy) -> None:
    _, allow = drafts(drafted)
    assert {"#Kopfspule", "#Quickscan"} <= set(allow)
    # Nativserie occurs with one patient, and Kaltenbrunner is a known name.
    assert not {"#Nativserie", "#Kaltenbrunner"} & set(allow)


def test_each_entry_states_how_often_and_where_it_occurs(drafted: Policy) -> None:
    deny = (drafted.state / "chest-ct-1.0.deny-list.txt").read_text()
    allow = (drafted.state / "chest-ct-1.0.allow-list.txt").read_text()
    assert "Kaltenbrunner^Hans  # 4 patients, 8 objects\n" in deny
    assert "Quaxton^Mia  # 1 patient, 2 objects\n" in deny
    assert "#Kopfspule  # 4 patients, 8 objects: StudyDescription\n" in allow


def test_the_drafts_are_valid_lists_that_a_run_applies(drafted: Policy, tmp_path: Path, export: Path) -> None:
    text = f'{{deny_list: "{drafted.state}/chest-ct-1.0.deny-list.txt", allow_list: ./safe.txt}}'
    draft = (drafted.state / "chest-ct-1.0.allow-list.txt").read_text()
    (tmp_path / "safe.txt").write_text(draft.replace("\n#Kopfspule", "\nKopfspule"))
    own = policy(
        tmp_path,
        export,
        text=text,
        dicom="{options: {clean_pixel_data: false}}",
        pixels="{at_risk: release, faces: ignore}",
    )
    assert read_site_lists(own.text).allow == ("Kopfspule",)
    assert "Klinikum Musterstadt" in read_site_lists(own.text).deny
    assert run(own, Options(workers=1)).ending == "published"


def test_only_the_owner_can_read_the_drafts_and_nothing_else_is_written(drafted: Policy) -> None:
    assert sorted(path.name for path in drafted.state.iterdir()) == [
        "chest-ct-1.0.allow-list.txt",
        "chest-ct-1.0.deny-list.txt",
    ]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in drafted.state.iterdir())
    assert isinstance(drafted.output, Path)
    assert not drafted.output.exists()


def test_the_same_export_gives_the_same_drafts_with_two_workers(
    drafted: Policy, tmp_path: Path, export: Path
) -> None:
    again = policy(tmp_path, export)
    before = tree(export)
    propose_words(again, workers=2)
    assert drafts(again) == drafts(drafted)
    assert tree(export) == before


def test_entries_of_the_lists_are_not_proposed_again(tmp_path: Path, export: Path) -> None:
    lists = "{deny_list: [Kaltenbrunner, Klinikum Musterstadt], allow_list: [Kopfspule]}"
    own = policy(tmp_path, export, text=lists)
    propose_words(own, workers=1)
    deny, allow = drafts(own)
    assert not {"Kaltenbrunner^Hans", "Klinikum Musterstadt"} & set(deny)
    assert "#Kopfspule" not in allow
    assert "#Quickscan" in allow


def test_words_need_the_number_of_patients(tmp_path: Path, export: Path) -> None:
    own = policy(tmp_path, export)
    made = propose_words(own, workers=1, least_patients=5)
    deny, allow = drafts(own)
    assert (made.objects, made.patients, made.allow) == (8, 4, 0)
    assert allow == []
    assert made.deny == len(deny)


def test_excluded_patients_are_not_read(tmp_path: Path, export: Path) -> None:
    tmp_path.joinpath("withdrawn.csv").write_text("patient_id\nP0\n")
    own = policy(tmp_path, export, exclude="./withdrawn.csv")
    assert propose_words(own, workers=1).patients == 3
    assert "Quaxton^Mia" not in drafts(own)[0]


def test_edited_drafts_are_not_overwritten(drafted: Policy) -> None:
    before = tree(drafted.state)
    with pytest.raises(UsageError) as caught:
        propose_words(drafted, workers=1)
    assert "drafts of an earlier call" in str(caught.value)
    assert tree(drafted.state) == before


def test_a_signal_ends_the_command_without_drafts(tmp_path: Path, export: Path) -> None:
    own, stop = policy(tmp_path, export), Cancellation()
    stop.number = 2
    with pytest.raises(Cancelled):
        propose_words(own, workers=1, cancellation=stop)
    assert list(own.state.iterdir()) == []


def test_unreadable_files_are_left_out(tmp_path: Path) -> None:
    write_ct(tmp_path / "export/whole.dcm", 1, **HEADER)
    whole = (tmp_path / "export/whole.dcm").read_bytes()
    (tmp_path / "export/cut.dcm").write_bytes(whole[:700])
    (tmp_path / "export/note.txt").write_text("Kaltenbrunner")
    own = prepare(tmp_path, preset="research")
    assert propose_words(own, workers=1).objects >= 1


# -- command and API ----------------------------------------------------------------------


def called(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["words", *arguments])


@pytest.mark.parametrize("options", [(), ("--json",), ("--log-json",)])
def test_no_name_is_printed(tmp_path: Path, export: Path, options: tuple[str, ...]) -> None:
    own = policy(tmp_path, export)
    done = called(str(tmp_path / "policy.yaml"), "--workers", "1", *options)
    assert done.exit_code == 0
    assert not any(name.lower() in (done.stdout + done.stderr).lower() for name in NAMES)
    assert str(own.state) in done.stdout


def test_json_is_one_object_with_counts_and_paths(tmp_path: Path, export: Path) -> None:
    policy(tmp_path, export)
    facts = json.loads(called(str(tmp_path / "policy.yaml"), "--workers", "1", "--json").stdout)
    assert (facts["type"], facts["objects"], facts["patients"], facts["exit_code"]) == ("result", 8, 4, 0)
    assert all(os.path.exists(facts[name]) for name in ("deny_path", "allow_path"))
    assert facts["deny"] >= 4


def test_an_invalid_list_is_reported_by_line_with_exit_code_2(tmp_path: Path, export: Path) -> None:
    policy(tmp_path, export, text="{deny_list: ./never.txt}")
    (tmp_path / "never.txt").write_text("Kaltenbrunner\n-\n")
    done = called(str(tmp_path / "policy.yaml"))
    assert done.exit_code == 2
    assert "2:1: The entry has no letter or digit" in done.stderr
    assert "Kaltenbrunner" not in done.stderr


def test_the_public_function_does_the_same(tmp_path: Path, export: Path) -> None:
    own = policy(tmp_path, export)
    made = medsanitize.propose_words(own, workers=1)
    assert (made.objects, made.deny_path.parent) == (8, own.state)
