"""Double patients: which pairs are suspected, who sees them, and decisions that later runs honor."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.errors import KeyMaterialError, UsageError
from medsanitize.pipeline.jobs.decide_identities import decide_identities
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.stages.double_patients import similar_names
from medsanitize.policies.model import Policy
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from tests.helpers.hospital import prepare, write_ct

NAMES = st.text("abcdefghijklmnopqrstuvwxyz", min_size=5, max_size=12)
BORN = {"PatientBirthDate": "19610317", "PatientSex": "F"}
MEIER = {**BORN, "PatientName": "Quendolin^Anna"}
SECOND = '{name: chest-ct, version: "2.0", mode: pseudonymous}'
Archive = Callable[..., Policy]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Make a policy on one CT slice for each patient, given as attributes, in a study of its own."""

    def make(*patients: dict[str, object], **sections: str) -> Policy:
        for number, stated in enumerate(patients):
            path = tmp_path / "export" / f"{number}.dcm"
            write_ct(path, number, f"ID-{number}", number, **stated)
        return prepare(tmp_path, **sections)

    return make


def inventory(policy: Policy) -> RunResult:
    return run(policy, Options(workers=1, inventory_only=True))


def suspected(policy: Policy) -> int:
    inventory(policy)
    return decide_identities(policy)["undecided"]


def exported(policy: Policy, path: Path) -> list[dict[str, str]]:
    decide_identities(policy, suspects=path)
    with path.open() as file:
        return list(csv.DictReader(file))


def decided(rows: list[dict[str, str]], path: Path, decision: str, why: str = "same address") -> Path:
    with path.open("w") as file:
        writer = csv.DictWriter(file, ["pair", "decision", "why"])
        writer.writeheader()
        writer.writerows({"pair": row["pair"], "decision": decision, "why": why} for row in rows)
    return path


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Quendolin^Anna", "QUENDOLIN^ANNA"),
        ("Quendolin^Anna", "Quendolyn^Anna"),
        ("Quendolin^Anna", "Anna^Quendolin"),
        ("Quendolin^Anna", "Quendolin^A"),
        ("Quendolin^Anna", "Quendolin-Berg^Anna"),
        ("Quendolin^Anna^^Dr", "Quendolin^Anna Maria"),
        ("Müller^Jörg", "Mueller^Jorg"),
        ("Yamada^Tarou=山田^太郎", "山田^太郎"),
    ],
)
def test_spellings_of_one_name_are_similar(one: str, other: str) -> None:
    assert similar_names(one, other)
    assert similar_names(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Quendolin^Anna", "Quendolin^Berta"),
        ("Quendolin^Anna", "Quendolin^Anne"),
        ("Quendolin^Anna", "Berg^Anna"),
        ("Quendolin^Anna", "Quendolin"),
        ("Q^A", "Q^A B"),
        ("", ""),
        ("UNKNOWN", "UNKNOWN"),
        ("ANONYMOUS^PATIENT", "ANONYMOUS^PATIENT"),
    ],
)
def test_other_names_and_missing_ones_are_not_similar(one: str, other: str) -> None:
    assert not similar_names(one, other)


@given(NAMES, NAMES, st.integers(0, 4))
def test_a_name_with_one_letter_missing_is_similar(family: str, given_name: str, at: int) -> None:
    assert similar_names(f"{family}^{given_name}", f"{family[:at] + family[at + 1 :]}^{given_name}")


@pytest.mark.parametrize(
    ("other", "pairs"),
    [
        ({}, 1),
        ({"PatientName": "Quendolyn^Anna"}, 1),
        ({"PatientSex": ""}, 1),
        ({"PatientSex": "M"}, 0),
        ({"PatientBirthDate": "19610318"}, 0),
        ({"PatientName": "Berg^Anna"}, 0),
    ],
)
def test_same_birth_date_sex_and_similar_name_are_suspected(
    other: dict[str, object], pairs: int, archive: Archive
) -> None:
    assert suspected(archive(MEIER, {**MEIER, **other})) == pairs


def test_a_placeholder_birth_date_suspects_nobody(archive: Archive) -> None:
    unknown = {**MEIER, "PatientBirthDate": "19000101"}

    assert suspected(archive(unknown, unknown)) == 0


def test_an_id_among_the_other_patient_ids_is_suspected(archive: Archive) -> None:
    item = Dataset()
    item.PatientID, item.TypeOfPatientID = "ID-1", "TEXT"
    married = {**BORN, "PatientName": "Berg^Anna", "OtherPatientIDsSequence": Sequence([item])}

    assert suspected(archive(married, MEIER)) == 1


def test_one_id_with_and_without_issuer_is_suspected_unless_the_birth_dates_differ(archive: Archive) -> None:
    bare, issued = {"PatientID": "4711", **BORN}, {"PatientID": "4711", "IssuerOfPatientID": "Nord"}
    other = {**issued, "IssuerOfPatientID": "Sued", "PatientBirthDate": "19900101"}

    assert suspected(archive(bare, {**issued, "PatientName": ""}, other)) == 1


def test_two_patients_of_one_study_are_suspected(archive: Archive) -> None:
    study = {"StudyInstanceUID": "1.2.3.4"}

    assert suspected(archive({**study, "PatientName": "A^B"}, {**study, "PatientName": "C^D"})) == 1


@pytest.mark.parametrize(
    ("stated", "pairs"),
    [
        (({}, {}), 1),
        (({}, {}, {}), 0),
        (({"PatientBirthDate": "19610317"}, {"PatientBirthDate": "19720828"}), 0),
    ],
    ids=["two", "three-have-it", "other-birth-date"],
)
def test_two_patients_with_the_same_image_are_suspected_once_pixels_are_compared(
    stated: tuple[dict[str, object], ...], pairs: int, archive: Archive
) -> None:
    image = {"PatientName": "", "PixelData": bytes(range(128)) * 256}
    policy = archive(*({**image, **one} for one in stated))

    result = run(policy, Options(workers=1))

    assert decide_identities(policy)["undecided"] == pairs
    assert bool([text for text in result.messages if "1 pair of patients" in text]) is bool(pairs)


def test_a_run_says_how_many_are_suspected_and_names_nobody(archive: Archive) -> None:
    policy = archive(MEIER, MEIER)

    result = run(policy, Options(workers=1))

    assert [text for text in result.messages if "1 pair of patients" in text]
    audit = (policy.state / "audit.json").read_text()
    assert json.loads(audit)["suspected_double_patients"] == 1
    assert "ID-0" not in f"{result}{audit}"
    assert "Quendolin" not in f"{result}{audit}"


def test_a_decision_merges_the_patients_in_every_later_run(archive: Archive, tmp_path: Path) -> None:
    policy = archive(MEIER, MEIER, {"PatientName": "Berg^Eva"})
    inventory(policy)
    rows = exported(policy, tmp_path / "suspects.csv")
    file = decided(rows, tmp_path / "decided.csv", "same")
    assert decide_identities(policy, decisions=file) == {"recorded": 1, "undecided": 0, "decided": 1}

    for later in (policy, archive(MEIER, MEIER, release=SECOND, output="./second")):
        run(later, Options(workers=1))
        found = [pydicom.dcmread(path) for path in (later.output / "data").rglob("*.dcm")]
        assert len({one.PatientID for one in found}) == 2


def test_a_decision_that_they_differ_is_not_asked_again(archive: Archive, tmp_path: Path) -> None:
    policy = archive(MEIER, MEIER)
    inventory(policy)
    file = decided(exported(policy, tmp_path / "suspects.csv"), tmp_path / "decided.csv", "different")
    decide_identities(policy, decisions=file)

    assert suspected(archive(MEIER, MEIER, release=SECOND, output="./second")) == 0


def test_decisions_are_kept_with_their_reason_encrypted_and_exported_on_request(
    archive: Archive, tmp_path: Path
) -> None:
    policy = archive(MEIER, MEIER)
    inventory(policy)
    file = decided(exported(policy, tmp_path / "suspects.csv"), tmp_path / "decided.csv", "same", "GP called")
    decide_identities(policy, decisions=file, export=tmp_path / "kept.csv")

    (ledger,) = policy.state.glob("*.ledger")
    assert b"ID-0" not in ledger.read_bytes()
    assert {path.stat().st_mode & 0o777 for path in (ledger, tmp_path / "kept.csv")} == {0o600}
    assert "ID-0,,ID-1,same,GP called" in (tmp_path / "kept.csv").read_text()


@pytest.mark.parametrize(
    ("decision", "why"), [("same", ""), ("perhaps", "seen"), ("SAME", "seen")], ids=["reason", "word", "case"]
)
def test_a_decision_without_a_clear_word_and_a_reason_is_refused(
    decision: str, why: str, archive: Archive, tmp_path: Path
) -> None:
    policy = archive(MEIER, MEIER)
    inventory(policy)
    file = decided(exported(policy, tmp_path / "suspects.csv"), tmp_path / "decided.csv", decision, why)

    with pytest.raises(UsageError):
        decide_identities(policy, decisions=file)
    assert not list(policy.state.glob("*.ledger"))


def test_decisions_on_pairs_that_are_not_suspected_are_refused(archive: Archive, tmp_path: Path) -> None:
    policy = archive(MEIER, MEIER)
    inventory(policy)
    file = decided([{"pair": "p0123456789abcdef"}], tmp_path / "decided.csv", "same")

    with pytest.raises(UsageError, match="not suspected"):
        decide_identities(policy, decisions=file)


def test_decisions_under_another_key_stop_the_run(archive: Archive, tmp_path: Path) -> None:
    policy = archive(MEIER, MEIER)
    inventory(policy)
    decide_identities(
        policy, decisions=decided(exported(policy, tmp_path / "s.csv"), tmp_path / "d.csv", "same")
    )
    (tmp_path / "release.key").write_bytes(bytes(range(64)))

    with pytest.raises(KeyMaterialError, match="another key"):
        run(archive(release=SECOND, output="./second"), Options(workers=1))
