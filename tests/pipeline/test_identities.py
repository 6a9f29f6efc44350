"""Patients with several identities: one ID of two issuers, two IDs of one person, and who decides."""

from __future__ import annotations

import csv
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pydicom
import pytest
from medsanitize import Deidentifier, ReleaseKey
from medsanitize.errors import UsageError
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.state.identities import (
    Identity,
    IdentityDecision,
    join_identities,
)
from medsanitize.pipeline.state.keys import patient_key
from medsanitize.policies.model import Policy, Pseudonyms
from medsanitize.sanitize.pseudonyms import derive_sub_keys, patient_pseudonym
from pydicom.dataset import Dataset

from tests.helpers.hospital import prepare, write_ct

ONE = Options(workers=1)
A, B, C = ("Nord", "4711"), ("Sued", "4711"), ("Nord", "0815")
OPTIONS = "{options: {retain_longitudinal_modified_dates: true, clean_descriptors: true}}"
Archive = Callable[..., Policy]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Make a policy on one CT slice for each identity, in a study of its own."""

    def make(*identities: Identity, listed: str = "", study: int | None = None, **sections: str) -> Policy:
        for number, (issuer, identifier) in enumerate(identities):
            path = tmp_path / "export" / f"{number}.dcm"
            chosen = number if study is None else study
            write_ct(path, number, identifier, chosen, IssuerOfPatientID=issuer, StudyDate="20040119")
        if listed:
            (tmp_path / "identities.csv").write_text("issuer,patient_id,person\n" + listed)
            sections["identities"] = "./identities.csv"
        return prepare(tmp_path, dicom=OPTIONS, **sections)

    return make


def released(policy: Policy) -> list[Dataset]:
    found = [pydicom.dcmread(path) for path in sorted((policy.output / "data").rglob("*.dcm"))]
    return sorted(found, key=lambda one: one.PixelData[:2])


def pseudonyms(policy: Policy) -> list[str]:
    run(policy, ONE)
    return [one.PatientID for one in released(policy)]


def done(policy: Policy) -> RunResult:
    return run(policy, ONE)


@pytest.mark.parametrize(("issuer", "pseudonym"), [("", "4VH62THFT6KZ2YPU"), ("A", "V7JW5AH4BTJFWJA7")])
def test_pseudonyms_of_existing_releases_do_not_change(issuer: str, pseudonym: str) -> None:
    keys = derive_sub_keys(bytes(range(32)), scope="release:test")

    assert patient_pseudonym(keys, Pseudonyms(), patient_key(issuer, "4711", "", "")) == pseudonym


def test_one_id_of_two_issuers_is_two_patients(archive: Archive) -> None:
    first, second = pseudonyms(archive(A, B))

    assert first != second


def test_the_table_makes_two_identities_one_patient_with_the_first_ones_pseudonym_and_dates(
    archive: Archive,
) -> None:
    alone = archive(A, B, C)
    run(alone, ONE)
    before = released(alone)
    merged = archive(
        *(A, B, C),
        listed="Sued,4711,anna\nNord,4711,anna\n",
        output="./merged",
        release='{name: chest-ct, version: "2.0", mode: pseudonymous}',
    )
    run(merged, ONE)

    first, second, third = released(merged)

    assert first.PatientID == second.PatientID == before[1].PatientID
    assert first.StudyDate == second.StudyDate == before[1].StudyDate
    assert third.PatientID == before[2].PatientID


def test_identifiers_of_either_identity_are_removed_from_the_objects_of_both(
    archive: Archive, tmp_path: Path
) -> None:
    policy = archive(A, C, listed="Nord,4711,anna\nNord,0815,anna\n")
    export, issuer = tmp_path / "export", {"IssuerOfPatientID": "Nord"}
    write_ct(export / "0.dcm", 0, "4711", 0, PatientName="Quendolin^Ada", **issuer)
    write_ct(export / "1.dcm", 1, "0815", 1, StudyDescription="CHEST QUENDOLIN", **issuer)

    run(policy, ONE)

    assert [one.StudyDescription for one in released(policy)][1] == "CHEST"


def test_a_study_of_two_identities_is_released_once_they_are_one_patient(archive: Archive) -> None:
    assert done(archive(A, C, study=5)).quarantined == {"two-patients-in-study": 2}

    policy = archive(A, C, study=5, listed="Nord,4711,anna\nNord,0815,anna\n")

    assert done(policy).outcomes["released"] == 2


@pytest.mark.parametrize("excluded", ["issuer,patient_id\nNord,0815\n", "patient_id\n0815\n"])
def test_consent_withdrawn_under_one_id_excludes_the_whole_patient(
    excluded: str, archive: Archive, tmp_path: Path
) -> None:
    (tmp_path / "withdrawn.csv").write_text(excluded)
    # 0815 is in the table only: no object states it.
    policy = archive(A, B, listed="Nord,4711,anna\nNord,0815,anna\n", exclude="./withdrawn.csv")

    assert done(policy).dropped == {"consent": 1}


def test_a_table_finds_a_patient_by_every_identity(archive: Archive, tmp_path: Path) -> None:
    tables = "[{name: labs, file: ./labs.csv, patient: pid, issuer: of, keep: [value]}]"
    with (tmp_path / "labs.csv").open("w") as file:
        csv.writer(file).writerows([("of", "pid", "value"), ("Nord", "0815", "1"), ("Sued", "4711", "2")])
    policy = archive(A, B, listed="Nord,4711,anna\nNord,0815,anna\n", tables=tables)

    first, second = pseudonyms(policy)

    import pyarrow.parquet as pq

    rows = pq.read_table(policy.output / "tables" / "labs.parquet").to_pylist()
    assert {row["value"]: row["pid"] for row in rows} == {"1": first, "2": second}


def test_single_objects_follow_the_table_as_well(archive: Archive, tmp_path: Path) -> None:
    policy = archive(A, B, listed="Nord,4711,anna\nSued,4711,anna\n")
    deidentify = Deidentifier(policy, ReleaseKey.from_file(tmp_path / "release.key"))

    results = [deidentify(path) for path in sorted((tmp_path / "export").iterdir())]

    assert len({pydicom.dcmread(BytesIO(one.to_bytes())).PatientID for one in results}) == 1


@pytest.mark.parametrize("rows", ["Nord,4711,\n", "Nord,,anna\n", "Nord,4711,anna\nNord,4711,berta\n"])
def test_a_table_that_is_unclear_is_refused_without_its_values(rows: str, archive: Archive) -> None:
    with pytest.raises(UsageError) as refused:
        run(archive(A, listed=rows), ONE)

    assert "4711" not in str(refused.value)
    assert "anna" not in str(refused.value)


def test_a_pseudonym_table_must_not_contradict_the_identities(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("patient_id,pseudonym\n0815,P1\n4711,P2\n")

    with pytest.raises(UsageError, match="two pseudonyms"):
        run(archive(A, listed="Nord,4711,anna\nNord,0815,anna\n", pseudonyms="{table: ./names.csv}"), ONE)


def same(first: Identity, second: Identity) -> IdentityDecision:
    return IdentityDecision(first, second, "same", "")


def different(first: Identity, second: Identity) -> IdentityDecision:
    return IdentityDecision(first, second, "different", "")


def test_a_later_decision_does_not_change_the_pseudonym_of_an_earlier_one() -> None:
    joined = join_identities([], [same(B, A), same(C, A)])

    assert {joined.of(one) for one in (A, B, C)} == {B}


def test_the_table_gives_the_pseudonym_of_a_person_that_a_decision_joins() -> None:
    joined = join_identities([(A, "anna")], [same(C, A)])

    assert joined.of(C) == A
    assert joined.group(A) == {A, C}


def test_of_two_decisions_on_a_pair_the_last_counts() -> None:
    joined = join_identities([], [same(A, B), different(B, A)])

    assert joined.of(A) != joined.of(B)
    assert joined.is_decided(A, B)


def test_persons_of_the_table_are_decided_to_be_different() -> None:
    joined = join_identities([(A, "anna"), (B, "berta")])

    assert joined.is_decided(A, B)
    assert not joined.is_decided(A, C)


@pytest.mark.parametrize(
    "decisions",
    [[same(A, B)], [same(A, C), same(C, B)], [same(A, C), different(A, C), same(C, B), same(C, A)]],
)
def test_decisions_that_contradict_the_table_are_refused(decisions: list[IdentityDecision]) -> None:
    with pytest.raises(UsageError):
        join_identities([(A, "anna"), (B, "berta")], decisions)


def test_a_difference_that_others_contradict_is_refused() -> None:
    with pytest.raises(UsageError):
        join_identities([], [same(A, B), same(B, C), different(A, C)])
