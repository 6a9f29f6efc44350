"""PACS inputs in a policy: valid forms, and locations of errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import PolicyError
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.inputs import DicomWeb, Dimse
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy

HEAD = """version: 1
preset: ps3.15-basic
release: {name: a, version: "1", mode: anonymous}
output: ./release
state: ./state
inputs:
"""


def policy(*lines: str) -> Policy:
    return loads(HEAD + "".join(f"  {line}\n" for line in lines), base=Path("/project"))


def problems(*lines: str) -> list[str]:
    with pytest.raises(PolicyError) as raised:
        policy(*lines)
    return [str(one) for one in raised.value.problems]


def test_dicomweb_services_and_peers_can_be_combined_with_folders() -> None:
    found = policy(
        "- ./export",
        "- dicomweb: https://pacs.example.org/dicom-web",
        "  token: PACS_TOKEN",
        "  worklist: ./list.csv",
        "- dimse: PACS@pacs.example.org:104",
        "  retrieve: move",
        "  port: 11112",
        "  query: {StudyDate: 20240101-20241231}",
    ).inputs
    assert found == (
        Path("/project/export"),
        DicomWeb(
            dicomweb="https://pacs.example.org/dicom-web",
            token="PACS_TOKEN",
            worklist=Path("/project/list.csv"),
        ),
        Dimse(
            dimse="PACS@pacs.example.org:104",
            retrieve="move",
            port=11112,
            query={"StudyDate": "20240101-20241231"},
        ),
    )


DATE = "  query: {StudyDate: '20240101'}"


@pytest.mark.parametrize(
    ("lines", "place", "what"),
    [
        (("- dimse: A@b:104",), "7:5", "the whole PACS"),
        (("- dimse: A@b:104", "  query: {StudyDate: '*'}"), "8:12", "matches every study"),
        (("- dimse: A@b:104", "  query: {Modality: CT}"), "8:12", "matches every study"),
        (("- dimse: A@b:104", "  query: {PatientName: '*^*'}"), "8:12", "matches every study"),
        (("- dimse: A@b:104", "  query: {StudyTime: 00-24}"), "8:12", "matches every study"),
        (("- dimse: A@b:104", "  query: {StudyTime: 0000-235959}"), "8:12", "matches every study"),
        (("- dimse: A@b:104", "  query: {StudyTime: 10*}"), "8:24", "Not a time of day"),
        (("- dimse: A@b:104", "  query: {StudyTime: '10:30'}"), "8:24", "Not a time of day"),
        (("- dimse: A@b:104", "  query: {PatientId: '7'}"), "8:24", "Did you mean 'PatientID'?"),
        (("- dimse: A@b:104", "  query: {StudyInstanceUID: 1.2*}"), "8:31", "do not support wildcard"),
        (("- dimse: A@b:104", "  query: {PatientID: 'a\\b'}"), "8:24", "backslash"),
        (("- dimse: A@b:104", "  query: {StudyDate: 20240101}"), "8:24", "must be quoted"),
        (("- dimse: A@b:70000", DATE), "7:12", "Invalid port"),
        (("- dimse: A b", DATE), "7:12", "Write AE title, host and port"),
        (("- dimse: A@b:104", DATE, "  retrieve: move"), "7:5", "requires port"),
        (("- dimse: A@b:104", DATE, "  port: 104"), "9:11", "has no effect"),
        (("- dimse: A@b:104", DATE, "  token: T"), "9:5", "The key 'token' is unknown"),
        (("- dicomweb: https://u:p@host/x", DATE), "7:15", "without user or query"),
        (("- dicomweb: https://host/x?a=b", DATE), "7:15", "without user or query"),
        (("- dicomweb: http://host/x", DATE, "  login: L"), "7:15", "unencrypted"),
        (("- dicomweb: https://host/x", DATE, "  token: T", "  login: L"), "10:12", "one credential"),
        (("- dicomweb: https://host/x", DATE, "  token: the secret"), "9:12", "not its value"),
        (("- dicomweb: https://host/x", "  worklist: ./release/list.csv"), "8:15", "which is published"),
        (("- {}",), "7:5", "The key 'inputs.1.dicomweb' is missing"),
    ],
)
def test_an_error_is_reported_with_its_location(lines: tuple[str, ...], place: str, what: str) -> None:
    assert [one for one in problems(*lines) if one.startswith(f"{place}: ") and what in one]


def test_an_error_in_one_form_is_not_reported_for_the_other() -> None:
    assert len(problems("- dimse: A@b:104", DATE, "  retrieve: fetch")) == 1


def test_credentials_may_be_sent_to_localhost() -> None:
    assert policy("- dicomweb: http://localhost:8042/dicom-web", DATE, "  login: L").inputs


@pytest.mark.parametrize("query", ["PatientName: DOE*", "StudyTime: 0800-1159", "StudyTime: '0930'"])
def test_a_name_or_a_time_selects_studies(query: str) -> None:
    assert policy("- dimse: A@b:104", f"  query: {{{query}}}").inputs


def test_the_data_source_does_not_change_the_policy_digest() -> None:
    from_pacs = policy("- dicomweb: https://host/x", DATE)
    assert policy_digest(from_pacs) == policy_digest(policy("- ./export"))
