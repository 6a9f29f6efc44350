"""Every object has one outcome with the right rule, and no other file is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pydicom
import pytest
from medsanitize.errors import EnvironmentFailure, KeyMaterialError, UsageError
from medsanitize.pipeline.preflight import locked
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.policies.model import Policy
from medsanitize.progress import NoProgress
from medsanitize.release.manifest import read_rows
from medsanitize.release.verify import verify_release

from tests.helpers.hospital import CANARIES, real_file, tree, write_ct

ONE = Options(workers=1)
Workplace = Callable[..., Policy]


def test_a_run_publishes_a_release_that_verifies(workplace: Workplace) -> None:
    policy = workplace()
    result = run(policy, ONE)
    assert (result.ending, verify_release(policy.output, key=None).status) == ("published", "intact")


def test_a_release_names_the_edition_of_the_standard_everywhere(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, ONE)

    out = policy.output
    metadata = pq.read_schema(out / "manifest" / "objects.parquet").metadata
    objects = [path.read_bytes() for path in (out / "data").rglob("*.dcm")]
    named = [path for path in ("report.html", "conformance.md") if "PS3.15 2026d" in (out / path).read_text()]
    assert metadata[b"ps3.15"] == b"2026d"
    assert json.loads((out / "RELEASE.json").read_text())["standard"] == {"PS3.15": "2026d"}
    assert named == ["report.html", "conformance.md"]
    assert all(b"PS3.15 2026d" in content for content in objects)


def test_every_object_has_exactly_one_outcome_and_rule(workplace: Workplace) -> None:
    result = run(workplace(), ONE)
    assert result.outcomes == {"released": 15, "dropped": 2, "quarantined": 3}
    assert result.dropped == {"duplicate-bytes": 1, "ignored:dicomdir": 1}
    assert result.quarantined["other-file:text"] == 1
    assert result.exit_code == 1


def test_no_planted_identifier_remains_in_release_or_state(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, ONE)
    for root in (policy.output, policy.state):
        for path in root.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            for canary in CANARIES:
                assert canary.encode() not in content, path.name
                assert canary not in str(path.relative_to(root))


def test_the_sources_are_not_modified(workplace: Workplace) -> None:
    policy = workplace()
    before = tree(policy.inputs[0])
    run(policy, ONE)
    assert tree(policy.inputs[0]) == before


def test_nothing_is_written_outside_output_and_state(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, ONE)
    assert {path.name for path in policy.output.parent.iterdir()} == {
        "export",
        "policy.yaml",
        "release",
        "release.key",
        "state",
    }


def test_the_state_is_accessible_by_its_owner_only(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, ONE)
    assert policy.state.stat().st_mode & 0o777 == 0o700
    for path in policy.state.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_links_and_pipes_are_never_opened(workplace: Workplace, tmp_path: Path) -> None:
    policy = workplace()
    shutil.rmtree(policy.inputs[0])
    write_ct(policy.inputs[0] / "one", 1)
    outside = write_ct(tmp_path / "elsewhere" / "two", 2)
    (policy.inputs[0] / "file").symlink_to(outside)
    (policy.inputs[0] / "folder").symlink_to(outside.parent)
    os.mkfifo(policy.inputs[0] / "pipe")
    result = run(policy, ONE)
    assert result.quarantined == {"other-file:link": 2, "other-file:special": 1}
    assert result.outcomes["released"] == 1


def test_files_with_undecodable_names_are_read(workplace: Workplace) -> None:
    policy = workplace()
    shutil.rmtree(policy.inputs[0])
    write_ct(policy.inputs[0] / os.fsdecode(b"caf\xe9 \n"), 1)
    assert run(policy, ONE).outcomes["released"] == 1


def test_two_patients_in_one_study_quarantine_the_study(workplace: Workplace) -> None:
    policy = workplace()
    shutil.rmtree(policy.inputs[0])
    write_ct(policy.inputs[0] / "a", 1, "PAT-A-1", study=1)
    write_ct(policy.inputs[0] / "b", 2, "PAT-B-2", study=1)
    write_ct(policy.inputs[0] / "c", 3, "PAT-B-2", study=2)
    result = run(policy, ONE)
    assert (result.quarantined, result.outcomes["released"]) == ({"two-patients-in-study": 2}, 1)


def test_patients_without_id_are_separated_by_study(workplace: Workplace) -> None:
    policy = workplace()
    shutil.rmtree(policy.inputs[0])
    for number in range(4):
        write_ct(policy.inputs[0] / f"{number}", number, "", study=number % 2)
    run(policy, ONE)
    assert len({row.patient for row in read_rows(policy.output)}) == 2


def test_ids_are_trimmed_and_keyed_with_their_issuer(workplace: Workplace) -> None:
    policy = workplace()
    shutil.rmtree(policy.inputs[0])
    people = (("SAME-ID", "A"), ("SAME-ID ", "A"), ("SAME-ID", "B"))
    for number, (patient, issuer) in enumerate(people):
        write_ct(policy.inputs[0] / f"{number}", number, patient, number, IssuerOfPatientID=issuer)
    run(policy, ONE)
    assert len({row.patient for row in read_rows(policy.output)}) == 2


def test_excluded_patients_are_dropped_and_missing_ones_counted(workplace: Workplace) -> None:
    policy = workplace(exclude="./gone.csv")
    (policy.output.parent / "gone.csv").write_text(f"patient_id\n{CANARIES[1]}0\nNOBODY\n")
    result = run(policy, ONE)
    report = json.loads((policy.state / "audit.json").read_text())
    assert result.dropped["consent"] == 5  # four objects and the copy of one
    assert report["excluded"] == {"listed": 2, "not_found": 1}


def test_a_pseudonym_table_is_followed(workplace: Workplace) -> None:
    policy = workplace(pseudonyms="{table: ./names.csv}")
    (policy.output.parent / "names.csv").write_text(f"patient_id,pseudonym\n{CANARIES[1]}0,case-17\n")
    run(policy, ONE)
    assert len(list((policy.output / "data" / "case-17").rglob("*.dcm"))) == 4


def test_a_source_changed_during_the_run_is_quarantined(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medsanitize.pipeline.stages import sanitize as module

    policy = workplace()
    original = module.sanitize_objects

    def tamper(*given: object, **named: object) -> None:
        with (policy.inputs[0] / "p0" / "i0003").open("ab") as file:
            file.write(b"\0\0")
        (policy.inputs[0] / "p0" / "i0006").unlink()
        original(*given, **named)

    monkeypatch.setattr(module, "sanitize_objects", tamper)
    result = run(policy, ONE)
    assert result.quarantined["changed-since-inventory"] == 1
    assert result.quarantined["unreadable"] == 1


def test_compressed_copies_of_an_image_are_flagged(workplace: Workplace) -> None:
    policy = workplace()
    shutil.rmtree(policy.inputs[0])
    policy.inputs[0].mkdir()
    for number, name in enumerate(("MR_small.dcm", "MR_small_RLE.dcm")):
        data = pydicom.dcmread(real_file(name))
        data.SOPInstanceUID = data.file_meta.MediaStorageSOPInstanceUID = f"2.25.{number + 5}"
        data.save_as(policy.inputs[0] / name)
    result = run(policy, ONE)
    flagged = [row for row in read_rows(policy.output) if row.check_duplicates == "flagged"]
    assert len(flagged) == 2
    assert [gate.result for gate in result.gates if gate.name == "duplicates by pixels"] == ["flagged"]


@pytest.mark.parametrize(
    ("verdict", "released", "ending"),
    [
        ("drop", 1, "published"),
        ("quarantine", 0, "refused"),
        ("fail", 2, "refused"),
        ("ignore", 2, "published"),
    ],
)
def test_the_policy_decides_on_equal_pixels(
    workplace: Workplace, verdict: str, released: int, ending: str
) -> None:
    policy = workplace(deduplicate=f"{{pixels: {verdict}}}")
    shutil.rmtree(policy.inputs[0])
    pixels = pydicom.dcmread(real_file("CT_small.dcm")).PixelData
    for number in range(2):
        write_ct(policy.inputs[0] / f"{number}", number, PixelData=pixels)
    result = run(policy, ONE)
    assert (result.outcomes["released"], result.ending) == (released, ending)


# -- refusals before anything is read ------------------------------------------------------


def test_a_weak_key_is_rejected_before_reading(workplace: Workplace) -> None:
    policy = workplace()
    (policy.output.parent / "release.key").write_bytes(b"aaaabbbb" * 8)
    with pytest.raises(KeyMaterialError):
        run(policy, ONE)
    assert {path.name for path in policy.state.iterdir()} == {"metrics.prom", "return.json", "run.lock"}


@pytest.mark.parametrize(
    "sections",
    [
        {"output": "./export/release"},
        {"state": "./release/state"},
        {"inputs": "[./nowhere]"},
        {"inputs": "[./export, ./export/p0]"},
        {"exclude": "./nowhere.csv"},
        {"tables": "[{name: labels, file: ./nowhere.csv, patient: id}]"},
    ],
)
def test_unusable_paths_are_rejected(workplace: Workplace, sections: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        run(workplace(**sections), ONE)


def test_a_non_empty_output_is_rejected(workplace: Workplace) -> None:
    policy = workplace()
    policy.output.mkdir()
    (policy.output / "thesis.doc").write_text("precious")
    with pytest.raises(UsageError, match="files of something else"):
        run(policy, ONE)
    assert (policy.output / "thesis.doc").read_text() == "precious"


def test_an_unwritable_output_is_rejected(workplace: Workplace) -> None:
    policy = workplace(output="./file/release")
    (policy.output.parent.parent / "file").write_text("")
    with pytest.raises(UsageError):
        run(policy, ONE)


def test_two_concurrent_runs_are_rejected(workplace: Workplace) -> None:
    policy = workplace()
    policy.output.mkdir()
    policy.state.mkdir()
    with locked(workspace_of(policy)), pytest.raises(EnvironmentFailure, match="Another run"):
        run(policy, ONE)


def test_a_finished_run_is_not_repeated(workplace: Workplace) -> None:
    policy = workplace()
    first = run(policy, ONE)
    before = tree(policy.output)
    again = run(policy, ONE)
    assert (again.ending, again.exit_code, tree(policy.output)) == (
        "already_published",
        first.exit_code,
        before,
    )


@pytest.mark.parametrize("change", ["policy", "key", "input"])
def test_a_finished_release_is_not_overwritten_by_other_settings(workplace: Workplace, change: str) -> None:
    policy = workplace()
    run(policy, ONE)
    if change == "policy":
        policy = workplace(deduplicate="{pixels: ignore}")
    elif change == "key":
        (policy.output.parent / "release.key").write_bytes(bytes(range(100, 164)))
    else:
        write_ct(policy.inputs[0] / "new", 99)
    with pytest.raises(UsageError, match="finished release"):
        run(policy, ONE)


@pytest.mark.parametrize("change", ["policy", "key", "input"])
def test_an_unfinished_run_restarts_when_its_settings_change(workplace: Workplace, change: str) -> None:
    policy = workplace(release='{name: a, version: "1", mode: pseudonymous, approve: required}')
    assert run(policy, ONE).ending == "awaiting_approval"
    if change == "policy":
        policy = workplace(
            release='{name: a, version: "1", mode: pseudonymous}', deduplicate="{pixels: ignore}"
        )
    elif change == "key":
        (policy.output.parent / "release.key").write_bytes(bytes(range(100, 164)))
    else:
        write_ct(policy.inputs[0] / "new", 99)
    heard: list[str] = []

    class Ear(NoProgress):
        def message(self, text: str) -> None:
            heard.append(text)

    run(policy, ONE, progress=Ear())
    assert heard == [text for text in heard if text.startswith("Starting again:")]
    assert len(heard) == 1


# -- approval, versions, modes --------------------------------------------------------------


def test_an_approval_is_bound_to_the_staged_digest(workplace: Workplace) -> None:
    policy = workplace(release='{name: a, version: "1", mode: pseudonymous, approve: required}')
    waiting = run(policy, ONE)
    wrong = run(policy, Options(workers=1, approve="0" * 64))
    right = run(policy, Options(workers=1, approve=waiting.digest))
    assert [one.ending for one in (waiting, wrong, right)] == [
        "awaiting_approval",
        "awaiting_approval",
        "published",
    ]
    assert (waiting.exit_code, waiting.release) == (3, None)


def test_a_new_version_carries_over_objects_and_names_its_predecessor(workplace: Workplace) -> None:
    old = workplace()
    run(old, ONE)
    new = workplace(
        release='{name: chest-ct, version: "2.0", mode: pseudonymous}',
        output="./release2",
        inputs="[./export]",
    )
    write_ct(new.inputs[0] / "new", 99, "ANOTHER-ONE", 50)
    run(new, ONE)
    root = json.loads((new.output / "RELEASE.json").read_text())
    before, after = (
        {name: line.split()[-1] for name, line in tree(one.output / "data").items()} for one in (old, new)
    )
    assert root["supersedes"] == "1.0"
    assert {name: after[name].split()[-1] for name in before} == {
        name: before[name].split()[-1] for name in before
    }


def test_an_object_of_another_release_is_flagged(workplace: Workplace) -> None:
    run(workplace(keys="{file: ./release.key, scope: project}"), ONE)
    other = workplace(
        release='{name: other, version: "1", mode: pseudonymous}',
        output="./release2",
        keys="{file: ./release.key, scope: project}",
    )
    run(other, ONE)
    rows = list(read_rows(other.output))
    assert {str(row.check_registry) for row in rows} == {"flagged"}
    assert b"chest-ct" not in b"".join(
        path.read_bytes() for path in other.output.rglob("*") if path.is_file()
    )


def test_an_anonymous_run_leaves_no_ledger_and_no_state(workplace: Workplace) -> None:
    policy = workplace(release='{name: a, version: "1", mode: anonymous}')
    run(policy, ONE)
    told = {"audit.json", "metrics.prom", "report.html", "return.json", "run.lock"}
    assert {path.name for path in policy.state.iterdir()} == told


def test_anonymous_runs_differ_unless_they_share_a_key(workplace: Workplace) -> None:
    section = '{name: a, version: "1", mode: anonymous}'
    policies = [workplace(name, release=section) for name in ("a", "b", "c")]
    for policy, material in zip(policies, (None, b"k" * 64, b"k" * 64), strict=True):
        run(policy, ONE, release_key=material)
    trees = [tree(policy.output) for policy in policies]
    assert trees[1] == trees[2]
    assert not set(trees[0]) & {name for name in trees[1] if name.startswith("data/")}


@pytest.mark.parametrize("option", ["shard", "inventory"])
def test_an_anonymous_run_cannot_be_sharded(workplace: Workplace, option: str) -> None:
    from medsanitize.pipeline.state.shards import Shard

    policy = workplace(release='{name: a, version: "1", mode: anonymous}')
    options = Options(shard=Shard(1, 2)) if option == "shard" else Options(inventory_only=True)
    with pytest.raises(UsageError, match="cannot be split"):
        run(policy, options)


def test_the_state_contains_no_source_names(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, ONE)
    content = workspace_of(policy).database.read_bytes()
    assert b"i0003" not in content


def test_a_file_changed_while_awaiting_approval_is_not_published(workplace: Workplace) -> None:
    policy = workplace(release='{name: a, version: "1", mode: pseudonymous, approve: required}')
    waiting = run(policy, Options(workers=1))
    staged = next((policy.output / ".staging" / "data").rglob("*.dcm"))
    with staged.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")

    done = run(policy, Options(workers=1, approve=waiting.digest))

    assert (done.ending, (policy.output / "RELEASE.json").exists()) == ("refused", False)


@pytest.mark.parametrize("keyword", ["PatientName", "ReferringPhysicianName"])
def test_a_name_kept_by_the_policy_does_not_fail_the_release(workplace: Workplace, keyword: str) -> None:
    done = run(workplace(dicom=f"{{attributes: {{{keyword}: K}}}}"), ONE)

    assert done.ending == "published"
