"""The evidence: each format follows its specification, is deterministic, and reveals no source."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from medsanitize.errors import IntegrityError, KeyMaterialError, UsageError
from medsanitize.policies.model import Release
from medsanitize.release.attestation import generate_signing_key, open_envelope, pre_authentication_encoding
from medsanitize.release.build import write_evidence
from medsanitize.release.checksums import read_checksums
from medsanitize.release.manifest import count_patients, write_objects, write_patients
from medsanitize.release.release_json import root_document
from medsanitize.release.research_index import write_index
from medsanitize.release.summary import Summary, SyntheticSummary

Make = Callable[..., Any]


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def written(staged: Path, summary: Make, signing_key: Path) -> Path:
    write_evidence(staged, summary(), signing_key=signing_key)
    return staged


def test_evidence_is_deterministic(
    tmp_path: Path, make_staging: Make, summary: Make, signing_key: Path
) -> None:
    for name in ("a", "b"):
        folder = make_staging(tmp_path / name, [b"one", b"two", b"three"])
        write_evidence(folder, summary(), signing_key=signing_key)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_writing_evidence_again_replaces_it(written: Path, summary: Make, signing_key: Path) -> None:
    before = tree(written)
    write_evidence(written, summary(), signing_key=signing_key)
    assert tree(written) == before


def test_checksums_list_every_file_except_those_derived_from_them(written: Path) -> None:
    sums = {entry.path: entry.sha256 for entry in read_checksums(written / "SHA256SUMS")}
    files = {path: hashlib.sha256(content).hexdigest() for path, content in tree(written).items()}
    assert sums == {
        path: digest for path, digest in files.items() if path not in ("SHA256SUMS", "attestation.dsse.json")
    }


def test_sha256sum_accepts_the_checksums(written: Path) -> None:
    program = ["sha256sum"] if shutil.which("sha256sum") else ["shasum", "--algorithm", "256"]
    done = subprocess.run(
        [*program, "--check", "--strict", "--status", "SHA256SUMS"], cwd=written, check=False
    )
    assert done.returncode == 0


def test_checksums_are_ordered_folder_by_folder_even_where_names_are_prefixes(
    tmp_path: Path, make_row: Make, summary: Make
) -> None:
    rows = []
    for instance in ("2.25.1", "2.25.1.2", "2.25.10"):
        row = replace(make_row(0, b"x"), instance=instance)
        rows.append(replace(row, path=f"data/P000000/2.25.9/2.25.8/{instance}.dcm"))
        (tmp_path / rows[-1].path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / rows[-1].path).write_bytes(b"x")
    write_objects(rows, tmp_path, metadata={})
    write_patients(count_patients(tmp_path), tmp_path, metadata={})
    write_index(iter(()), tmp_path, metadata={})
    write_evidence(tmp_path, summary(tables=()), signing_key=None)
    assert sum(entry.path.startswith("data/") for entry in read_checksums(tmp_path / "SHA256SUMS")) == 3


@pytest.mark.parametrize("spoil", ["orphan", "missing", "resized"])
def test_staged_files_must_match_the_manifest(staged: Path, summary: Make, spoil: str) -> None:
    victim = sorted((staged / "data").rglob("*.dcm"))[2]
    if spoil == "orphan":
        victim.with_suffix(".tmp").write_bytes(b"")
    elif spoil == "missing":
        victim.unlink()
    else:
        victim.write_bytes(b"longer than before")
    with pytest.raises(IntegrityError):
        write_evidence(staged, summary(), signing_key=None)


@pytest.mark.parametrize("rows_per_file", [100, 4])
def test_croissant_is_valid_and_its_records_load(
    tmp_path: Path, make_staging: Make, summary: Make, complete: Make, rows_per_file: int
) -> None:
    folder = make_staging(tmp_path / "r", [b"%d" % n for n in range(6)], rows_per_file=rows_per_file)
    write_evidence(folder, summary(release=complete()), signing_key=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlcroissant

        dataset = mlcroissant.Dataset(jsonld=folder / "croissant.json")
        records = list(dataset.records("objects"))
        patients = list(dataset.records("patients"))
    assert dataset.metadata.conforms_to == ["http://mlcommons.org/croissant/1.1"]
    assert not dataset.metadata.ctx.issues.errors
    assert [record["objects/object_id"] for record in records] == [f"o{n}".encode() for n in range(6)]
    assert len(patients) == 2


def test_croissant_omits_missing_owner_metadata(written: Path) -> None:
    document = json.loads((written / "croissant.json").read_bytes())
    assert not {"license", "description", "creator", "datePublished", "publisher"} & set(document)
    assert {part["@id"] for part in document["distribution"]} >= {
        "objects.parquet",
        "patients.parquet",
        "data",
        "labels.csv",
    }


def test_ro_crate_describes_itself_and_every_part(written: Path) -> None:
    graph = {
        node["@id"]: node for node in json.loads((written / "ro-crate-metadata.json").read_bytes())["@graph"]
    }
    descriptor, root = graph["ro-crate-metadata.json"], graph["./"]
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.2"}
    assert descriptor["about"] == {"@id": "./"}
    for part in root["hasPart"]:
        assert part["@id"] in graph
        assert (written / part["@id"]).exists()
        if graph[part["@id"]]["@type"] == "File":
            content = (written / part["@id"]).read_bytes()
            assert graph[part["@id"]]["sha256"] == hashlib.sha256(content).hexdigest()


def test_provenance_is_valid_prov_and_begins_with_the_anonymization(
    staged: Path, summary: Make, complete: Make
) -> None:
    write_evidence(staged, summary(release=complete(version="1.1"), supersedes="1.0"), signing_key=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import rdflib

        graph = rdflib.Graph().parse(staged / "provenance.jsonld", format="json-ld")
    prov = rdflib.Namespace("http://www.w3.org/ns/prov#")
    (activity,) = graph.subjects(rdflib.RDF.type, prov.Activity)
    release = rdflib.URIRef("urn:medsanitize:release:chest-ct:1.1")
    assert (release, prov.wasGeneratedBy, activity) in graph
    assert (release, prov.wasRevisionOf, rdflib.URIRef("urn:medsanitize:release:chest-ct:1.0")) in graph
    assert list(graph.subjects(rdflib.RDF.type, prov.SoftwareAgent))
    for sourceward in (prov.used, prov.wasDerivedFrom, prov.startedAtTime, prov.endedAtTime):
        assert not list(graph.triples((None, sourceward, None)))


SYNTHETIC = SyntheticSummary(2, 2, 2, 1, "passed", "verified-anonymous", "ab" * 32, 0.001, (), "")


def test_croissant_states_that_some_images_are_synthetic(staged: Path, summary: Make) -> None:
    write_evidence(staged, summary(synthetic=SYNTHETIC), signing_key=None)
    document = json.loads((staged / "croissant.json").read_bytes())
    assert document["rai:hasSyntheticData"] is True
    assert "2 of 6 objects are synthetic" in document["rai:dataCollection"]


def test_croissant_distinguishes_generated_from_remaining_copies(staged: Path, summary: Make) -> None:
    made = replace(SYNTHETIC, copy_rate=0.00125, residual=1.6e-5)
    write_evidence(staged, summary(synthetic=made), signing_key=None)
    told = json.loads((staged / "croissant.json").read_bytes())["rai:dataCollection"]
    assert "at most 0.100% of its images match a training patient" in told
    assert "at most 0.125% are copies, and at most 0.0016% after matches" in told


def test_croissant_of_real_images_states_that_none_is_synthetic(written: Path) -> None:
    document = json.loads((written / "croissant.json").read_bytes())
    assert document["rai:hasSyntheticData"] is False
    assert "rai:dataCollection" not in document


def test_provenance_names_the_generator_of_synthetic_images(staged: Path, summary: Make) -> None:
    write_evidence(staged, summary(synthetic=SYNTHETIC), signing_key=None)
    graph = {node["@id"]: node for node in json.loads((staged / "provenance.jsonld").read_bytes())["@graph"]}
    assert graph["#synthesis"]["used"] == "#generator"
    assert graph["#generator"]["sha256"] == "ab" * 32


def test_ro_crate_names_the_generator_of_synthetic_images(staged: Path, summary: Make) -> None:
    write_evidence(staged, summary(synthetic=SYNTHETIC), signing_key=None)
    crate = json.loads((staged / "ro-crate-metadata.json").read_bytes())
    graph = {node["@id"]: node for node in crate["@graph"]}
    assert {"@id": "#synthesis"} in graph["./"]["mentions"]
    assert graph["#generator"]["identifier"] == "sha256:" + "ab" * 32


def test_attestation_is_an_in_toto_statement_in_dsse(written: Path, signing_key: Path) -> None:
    envelope = json.loads((written / "attestation.dsse.json").read_bytes())
    payload = base64.b64decode(envelope["payload"])
    public = load_pem_public_key(signing_key.with_name("signing.pem.pub").read_bytes())
    message = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload
    public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), message)  # type: ignore[union-attr,call-arg]
    content = json.loads(payload)
    assert content["_type"] == "https://in-toto.io/Statement/v1"
    assert {entry["name"]: entry["digest"]["sha256"] for entry in content["subject"]} == {
        path: hashlib.sha256((written / path).read_bytes()).hexdigest()
        for path in ("SHA256SUMS", "manifest/objects.parquet", "manifest/patients.parquet")
    }
    predicate = content["predicate"]
    assert predicate["policy"] == {"digest": {"sha256": "5a" * 32}, "preset": "ps3.15-basic"}
    gate = {"name": "overlap", "result": "not_run", "detail": ""}
    assert {**gate, "looked_at": None, "concerned": None, "unit": "objects"} in predicate["gates"]


def test_pre_authentication_encoding_matches_the_published_example() -> None:
    assert pre_authentication_encoding(b"hello world", "http://example.com/HelloWorld") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_without_a_key_there_is_no_attestation_and_the_report_states_it(written: Path, summary: Make) -> None:
    write_evidence(written, summary(), signing_key=None)
    assert not (written / "attestation.dsse.json").exists()
    assert "Unsigned." in (written / "report.html").read_text()


def test_an_envelope_with_another_payload_is_rejected() -> None:
    for envelope in (b"", b"[]", b"{}", b'{"payload": "e30=", "signatures": [{"sig": ""}]}', b"[" * 100_000):
        with pytest.raises(IntegrityError):
            open_envelope(envelope, None)


def test_keys_are_private_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "k.pem"
    generate_signing_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"PRIVATE" not in (tmp_path / "k.pem.pub").read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        generate_signing_key(path)


@pytest.mark.parametrize("case", ["missing", "open", "garbage", "public"])
def test_an_unusable_signing_key_is_rejected_before_writing(
    staged: Path, summary: Make, signing_key: Path, tmp_path: Path, case: str
) -> None:
    key = tmp_path / "key.pem"
    if case != "missing":
        source = {"open": signing_key, "public": signing_key.with_name("signing.pem.pub")}.get(case)
        key.write_bytes(b"not a key" if source is None else source.read_bytes())
        key.chmod(0o644 if case == "open" else 0o600)
    with pytest.raises(KeyMaterialError):
        write_evidence(staged, summary(), signing_key=key)
    assert not (staged / "croissant.json").exists()


def test_report_root_and_statement_name_the_edition_of_the_standard(written: Path, summary: Make) -> None:
    root = json.loads(root_document(written, summary()))
    statement = json.loads(
        base64.b64decode(json.loads((written / "attestation.dsse.json").read_bytes())["payload"])
    )
    assert root["standard"] == statement["predicate"]["standard"] == {"PS3.15": "2026d"}
    assert "DICOM PS3.15 2026d" in (written / "report.html").read_text()


def test_evidence_contains_no_machine_names(written: Path, tmp_path: Path) -> None:
    for path, content in tree(written).items():
        assert str(tmp_path).encode() not in content, path


def test_a_release_without_objects_is_still_described(
    tmp_path: Path, make_staging: Make, summary: Make
) -> None:
    folder = make_staging(tmp_path / "r", [])
    empty: Summary = summary(
        objects=0,
        modalities={},
        outcomes={},
        checks={},
        release=Release(name="a", version="1", mode="anonymous"),
    )
    write_evidence(folder, empty, signing_key=None)
    assert "RELEASE.json" not in tree(folder)
    assert (folder / "report.html").exists()
