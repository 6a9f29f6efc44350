"""Effects of a new release key, and what a registry needs to know of it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from medsanitize.errors import MedsanitizeError, UsageError
from medsanitize.pipeline.jobs.export_ledger import export_ledger
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy
from medsanitize.release.attestation import generate_signing_key
from medsanitize.release.verify import verify_release

from tests.helpers.hospital import prepare, write_ct

ONE = Options(workers=1)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A project of two patients, released under its first key, in a registry."""
    for number in range(4):
        write_ct(tmp_path / "export" / f"i{number}.dcm", number, f"P{number % 2}", number % 2)
    assert run(project(tmp_path), ONE).ending == "published"
    return tmp_path


def project(base: Path, name: str = "chest-ct", version: str = "1.0", **sections: str) -> Policy:
    release = f'{{name: {name}, version: "{version}", mode: pseudonymous}}'
    settings = {"output": f"./{name}-{version}", "registry": "{path: ./registry}", **sections}
    return prepare(base, release=release, **settings)


def rotate(base: Path) -> None:
    (base / "release.key").rename(base / "old.key")
    (base / "release.key").write_bytes(bytes(range(100, 164)))
    (base / "release.key").chmod(0o600)


def patients(policy: Policy) -> set[str]:
    return {path.name for path in (policy.output / "data").iterdir()}


def test_a_finished_release_is_not_made_again_under_another_key(base: Path) -> None:
    rotate(base)
    with pytest.raises(UsageError, match="the key has changed"):
        run(project(base), ONE)


def test_a_new_key_changes_every_pseudonym(base: Path) -> None:
    before = patients(project(base))
    rotate(base)
    later = project(base, version="2.0")
    assert run(later, ONE).ending == "published"
    assert not patients(later) & before


def test_the_registry_recognizes_pixels_after_a_key_rotation(base: Path) -> None:
    rotate(base)
    result = run(project(base, name="other"), ONE)
    found = next(gate for gate in result.gates if gate.name == "earlier releases")
    assert (found.result, "4 objects" in found.detail) == ("flagged", True)


def test_the_ledger_of_an_old_release_needs_the_old_key(base: Path) -> None:
    rotate(base)
    with pytest.raises(MedsanitizeError):
        export_ledger(project(base), uids=None, patients=base / "new.csv")
    export_ledger(project(base, keys="{file: ./old.key}"), uids=None, patients=base / "old.csv")
    assert len((base / "old.csv").read_text().splitlines()) == 3


def test_a_pseudonym_table_from_the_ledger_preserves_pseudonyms(base: Path) -> None:
    before = patients(project(base))
    export_ledger(project(base), uids=None, patients=base / "patients.csv")
    rotate(base)
    with (base / "patients.csv").open(newline="") as file:
        rows = [(row["id_old"], row["id_new"]) for row in csv.DictReader(file)]
    with (base / "pseudonyms.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("patient_id", "pseudonym"), *rows])
    later = project(base, version="2.0", pseudonyms="{table: ./pseudonyms.csv}")
    run(later, ONE)
    assert patients(later) == before


def test_a_new_signing_key_must_be_given_to_verifiers(base: Path) -> None:
    for name in ("first", "second"):
        generate_signing_key(base / f"{name}.key")
    later = project(base, version="2.0", keys="{file: ./release.key, signing: ./second.key}")
    run(later, ONE)
    assert str(verify_release(later.output, key=base / "second.key.pub")) == "intact, signer checked"
    assert verify_release(later.output, key=base / "first.key.pub").status != "intact"
