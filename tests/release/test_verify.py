"""Verification: any changed, missing or added byte is detected and its file reported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import KeyMaterialError, UsageError
from medsanitize.release.attestation import generate_signing_key
from medsanitize.release.canonical_json import document_json
from medsanitize.release.checksums import digest_file
from medsanitize.release.release_json import self_digest
from medsanitize.release.verify import verify_release

Make = Callable[..., Any]


@pytest.fixture
def release(make_release: Make, tmp_path: Path) -> Path:
    made: Path = make_release(tmp_path / "r")
    return made


@pytest.fixture
def public(signing_key: Path) -> Path:
    return signing_key.with_name("signing.pem.pub")


def files_of(release: Path) -> list[Path]:
    return sorted(path for path in release.rglob("*") if path.is_file())


def undetected(release: Path, path: Path, bits: Iterable[int], key: Path | None) -> list[int]:
    """Flip each bit in turn; return those that were not detected or not attributed to a file."""
    content = path.read_bytes()
    missed = []
    for bit in bits:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        result = verify_release(release, key=key)
        blamed = {name for name, _ in result.problems}
        if result.status != "not intact" or path.relative_to(release).as_posix() not in blamed:
            missed.append(bit)
    path.write_bytes(content)
    return missed


def test_a_release_verifies_with_and_without_the_key(release: Path, public: Path) -> None:
    assert str(verify_release(release, key=None)) == "intact, signer not checked"
    assert str(verify_release(release, key=public)) == "intact, signer checked"


def test_an_unsigned_release_is_reported_as_such(make_release: Make, tmp_path: Path, public: Path) -> None:
    release = make_release(tmp_path / "u", signed=False)
    assert str(verify_release(release, key=None)) == "intact, unsigned"
    assert verify_release(release, key=public).problems == (("attestation.dsse.json", "missing"),)


@pytest.mark.parametrize("signed", [True, False])
def test_a_flipped_bit_in_any_byte_of_release_json_is_detected(
    make_release: Make, tmp_path: Path, signed: bool
) -> None:
    release = make_release(tmp_path / "u", signed=signed)
    root = release / "RELEASE.json"
    bits = (8 * byte + byte % 8 for byte in range(root.stat().st_size))
    assert undetected(release, root, bits, None) == []


def test_flipped_bits_are_reported_for_their_file(release: Path, public: Path) -> None:
    for path in files_of(release):
        size = path.stat().st_size
        bits = [8 * byte + byte % 8 for byte in sorted({0, size - 1, *range(0, size, max(1, size // 24))})]
        assert undetected(release, path, bits, public) == []


@pytest.mark.slow
@pytest.mark.parametrize("signed", [True, False])
def test_every_bit_of_the_evidence_is_verified(make_release: Make, tmp_path: Path, signed: bool) -> None:
    release = make_release(tmp_path / "u", contents=[b"a", b"b"], signed=signed)
    for path in files_of(release):
        whole = range(8 * path.stat().st_size)
        every_bit = path.suffix == ".dcm" or path.name in (
            "RELEASE.json",
            "SHA256SUMS",
            "attestation.dsse.json",
        )
        assert undetected(release, path, whole if every_bit else whole[::97], None) == []


def test_a_missing_file_is_reported(release: Path) -> None:
    for path in files_of(release):
        content = path.read_bytes()
        path.unlink()
        assert (path.relative_to(release).as_posix(), "missing") in verify_release(release, key=None).problems
        path.write_bytes(content)
    assert verify_release(release, key=None).status == "intact"


@pytest.mark.parametrize(
    "name",
    [
        "zz.txt",
        ".hidden",
        "data/x.dcm",
        "data/P000000/extra.dcm",
        "manifest/objects-00000.parquet",
        ".staging/x",
    ],
)
def test_an_added_file_is_reported(release: Path, name: str) -> None:
    (release / name).parent.mkdir(exist_ok=True)
    (release / name).write_bytes(b"")
    assert (name, "added") in verify_release(release, key=None).problems


def test_an_added_empty_folder_is_reported(release: Path) -> None:
    (release / "data/empty/deeper").mkdir(parents=True)
    assert verify_release(release, key=None).problems == (("data/empty/deeper", "added"),)


def test_links_are_reported_and_not_followed(release: Path, tmp_path: Path) -> None:
    victim = files_of(release / "data")[0]
    victim.rename(tmp_path / "moved.dcm")
    victim.symlink_to(tmp_path / "moved.dcm")
    (release / "tables/up").symlink_to("..")
    assert verify_release(release, key=None).problems == (
        (victim.relative_to(release).as_posix(), "not a regular file"),
        ("tables/up", "added"),
    )


def test_a_linked_evidence_file_is_reported(release: Path, tmp_path: Path) -> None:
    (release / "SHA256SUMS").rename(tmp_path / "sums")
    (release / "SHA256SUMS").symlink_to(tmp_path / "sums")
    assert ("SHA256SUMS", "not a regular file") in verify_release(release, key=None).problems


def test_swapped_files_are_both_reported(release: Path) -> None:
    first, second, *_ = files_of(release / "data")
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    assert [fault for _, fault in verify_release(release, key=None).problems] == ["changed", "changed"]


def test_terminal_control_characters_in_names_are_escaped(release: Path) -> None:
    (release / "a\x1b[2Jb").write_bytes(b"")
    assert verify_release(release, key=None).problems == (("a\\x1b[2Jb", "added"),)


def test_a_foreign_key_is_a_bad_signature(release: Path, tmp_path: Path) -> None:
    generate_signing_key(tmp_path / "other")
    result = verify_release(release, key=tmp_path / "other.pub")
    assert result.problems == (("attestation.dsse.json", "bad signature"),)
    assert result.signer == "not checked"


def reseal(release: Path, **changes: str) -> None:
    """Act as a forger without the key: make RELEASE.json match the files again."""
    root = json.loads((release / "RELEASE.json").read_bytes()) | changes
    root["digests"] = {path: digest_file(release / path) for path in root["digests"]}
    (release / "RELEASE.json").write_bytes(document_json(root | {"digest": self_digest(root)}))


def test_a_renamed_release_contradicts_its_signature(release: Path, public: Path) -> None:
    reseal(release, version="2.0")
    assert verify_release(release, key=public).problems == (("RELEASE.json", "contradictory"),)


def test_rewritten_checksums_are_detected_with_the_key(release: Path, public: Path) -> None:
    table = release / "tables/labels.csv"
    before = digest_file(table)
    table.write_text("patient,finding\n")
    sums = release / "SHA256SUMS"
    sums.write_text(sums.read_text().replace(before, digest_file(table)))
    reseal(release)
    assert ("SHA256SUMS", "changed") in verify_release(release, key=public).problems


def test_a_stripped_signature_is_detected_with_the_key(release: Path, public: Path) -> None:
    (release / "attestation.dsse.json").unlink()
    root = json.loads((release / "RELEASE.json").read_bytes())
    del root["digests"]["attestation.dsse.json"]
    (release / "RELEASE.json").write_bytes(document_json(root | {"digest": self_digest(root)}))
    assert ("attestation.dsse.json", "missing") in verify_release(release, key=public).problems


def test_a_manifest_that_contradicts_the_checksums_is_reported(release: Path) -> None:
    victim = files_of(release / "data")[0]
    before = digest_file(victim)
    victim.write_bytes(b"other bytes")
    sums = release / "SHA256SUMS"
    sums.write_text(sums.read_text().replace(before, digest_file(victim)))
    (release / "attestation.dsse.json").unlink()
    root = json.loads((release / "RELEASE.json").read_bytes())
    del root["digests"]["attestation.dsse.json"]
    (release / "RELEASE.json").write_bytes(document_json(root))
    reseal(release)
    assert verify_release(release, key=None).problems == (("manifest/objects.parquet", "contradictory"),)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\xff", b'{"digests": {"../x": "y"}}', b"[" * 99999]
)
def test_a_release_json_with_arbitrary_content_is_a_problem_not_a_crash(
    release: Path, content: bytes
) -> None:
    (release / "RELEASE.json").write_bytes(content)
    assert "RELEASE.json" in {path for path, _ in verify_release(release, key=None).problems}


def test_paths_that_lead_out_of_the_release_are_not_read(release: Path) -> None:
    root = json.loads((release / "RELEASE.json").read_bytes())
    root["digests"]["../../etc/hostname"] = "0" * 64
    (release / "RELEASE.json").write_bytes(document_json(root | {"digest": self_digest(root)}))
    assert ("RELEASE.json", "contradictory") in verify_release(release, key=None).problems


def test_a_missing_release_or_key_is_a_usage_error(release: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        verify_release(tmp_path / "nowhere", key=None)
    with pytest.raises(KeyMaterialError):
        verify_release(release, key=tmp_path / "nowhere.pub")


def test_a_copy_with_other_timestamps_is_intact(release: Path, tmp_path: Path) -> None:
    shutil.copytree(release, tmp_path / "copy", copy_function=shutil.copyfile)
    assert verify_release(tmp_path / "copy", key=None).status == "intact"


@pytest.mark.parametrize("told", [{"PS3.15": "Zorblat"}, {"PS3.15": "2026d", "x": "y"}, {}])
def test_the_edition_of_the_standard_is_no_place_for_other_texts(release: Path, told: dict[str, str]) -> None:
    root = json.loads((release / "RELEASE.json").read_bytes())
    root = {name: value for name, value in root.items() if name != "digest"} | {"standard": told}
    (release / "RELEASE.json").write_bytes(document_json(root | {"digest": self_digest(root)}))
    assert ("RELEASE.json", "contradictory") in verify_release(release, key=None).problems
