"""A small staged release, made of pseudonyms and a few bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from medsanitize.policies.model import Contact, Release
from medsanitize.release.attestation import generate_signing_key
from medsanitize.release.build import write_evidence
from medsanitize.release.manifest import ObjectRow, count_patients, write_objects, write_patients
from medsanitize.release.publish import publish
from medsanitize.release.research_index import index_row, write_index
from medsanitize.release.summary import GateSummary, Summary, TableSummary
from medsanitize.sanitize.result import CheckResult

CT = "1.2.840.10008.5.1.4.1.1.2"
EXPLICIT = "1.2.840.10008.1.2.1"


def row_of(number: int, content: bytes, *, pixels: bytes | None = None) -> ObjectRow:
    """Make the row of one object; two objects per series, two series per patient."""
    patient, study = f"P{number // 4:06d}", f"2.25.{1000 + number // 4}"
    series, instance = f"2.25.{2000 + number // 2}", f"2.25.{3000000 + number}"
    return ObjectRow(
        object_id=f"o{number}",
        path=f"data/{patient}/{study}/{series}/{instance}.dcm",
        kind="dicom",
        modality="CT",
        sop_class=CT,
        transfer_syntax=EXPLICIT,
        patient=patient,
        study=study,
        series=series,
        instance=instance,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        pixels_sha256=hashlib.sha256(b"pixels" + (content if pixels is None else pixels)).hexdigest(),
        rows=4,
        columns=4,
        frames=1,
        actions_removed=3,
        rules='{"X:private":3}',
        check_pixels=CheckResult.NOT_RUN,
        check_identifiers=CheckResult.PASSED,
    )


def a_summary(**changes: Any) -> Summary:
    """Make the summary that fits the staged release below."""
    summary = Summary(
        release=Release(name="chest-ct", version="1.0", mode="pseudonymous"),
        preset="ps3.15-basic",
        policy_digest="5a" * 32,
        tool_version="0.1.0",
        outcomes={"released": 6, "dropped": 2, "quarantined": 1},
        modalities={"CT": 6},
        sop_classes={CT: 6},
        patients=2,
        studies=2,
        series=3,
        objects=6,
        bytes=60,
        actions={"removed": 18},
        rules={"X:private": 18},
        dropped={"duplicate-bytes": 1, "ignored:dicomdir": 1},
        quarantined={"truncated": 1},
        edition="2026d",
        options=(("113100", "Basic Application Confidentiality Profile"),),
        gates=(
            GateSummary("residual identifiers", "passed", "None was found."),
            GateSummary("overlap", "not_run"),
        ),
        checks={"pixels": {"not_run": 6}, "identifiers": {"passed": 6}},
        duplicates_dropped=1,
        tables=(TableSummary("labels", "tables/labels.csv", 2, ("patient", "finding")),),
    )
    return replace(summary, **changes)


def full_release(**changes: Any) -> Release:
    """Make a release section with every setting."""
    facts: dict[str, Any] = {
        "name": "chest-ct",
        "version": "1.0",
        "mode": "anonymous",
        "date": "2025-01-02",
        "description": "Chest CT.",
        "creator": Contact(name="Radiology", email="data@example.org"),
        "license": "https://creativecommons.org/licenses/by/4.0/",
        "contact": Contact(name="Data office", url="https://example.org"),
        "ethics": "Board approval.",
    }
    return Release(**{**facts, **changes})


def stage(folder: Path, contents: list[bytes], **options: Any) -> Path:
    """Write data, manifests and a table of a release, one object per content."""
    rows = [row_of(number, content) for number, content in enumerate(contents)]
    for row, content in zip(rows, contents, strict=True):
        path = folder / row.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    write_objects(rows, folder, metadata={"policy_digest": "5a" * 32}, **options)
    write_patients(count_patients(folder), folder, metadata={"policy_digest": "5a" * 32})
    described = {"KVP": 120.0, "PatientAge": "045Y", "PatientAgeYears": 45}
    write_index((index_row(row, described) for row in rows), folder, metadata={"policy_digest": "5a" * 32})
    (folder / "tables").mkdir(parents=True)
    (folder / "tables/labels.csv").write_text("patient,finding\nP000000,none\nP000001,nodule\n")
    return folder


CONTENTS = [f"object {number:03d}".encode() for number in range(6)]


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    return stage(tmp_path / "release/.staging", CONTENTS)


@pytest.fixture
def summary() -> Callable[..., Summary]:
    return a_summary


@pytest.fixture
def complete() -> Callable[..., Release]:
    return full_release


@pytest.fixture
def make_row() -> Callable[..., ObjectRow]:
    return row_of


@pytest.fixture
def make_staging() -> Callable[..., Path]:
    return stage


@pytest.fixture(scope="session")
def signing_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "signing.pem"
    generate_signing_key(path)
    return path


@pytest.fixture
def make_release(signing_key: Path) -> Callable[..., Path]:
    """Publish a release; ``pixels`` gives an object's decoded pixels if two are to be equal."""

    def make(folder: Path, *, contents: list[bytes] = CONTENTS, signed: bool = True, **changes: Any) -> Path:
        staging = stage(folder / ".staging", contents)
        made = a_summary(**changes)
        write_evidence(staging, made, signing_key=signing_key if signed else None)
        publish(staging, folder, made)
        return folder

    return make
