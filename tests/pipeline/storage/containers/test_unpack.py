"""Every file of a container is stored or refused by a rule; a hostile container is one quarantined file."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from medsanitize.pipeline.storage.containers import unpack as unpack_module
from medsanitize.pipeline.storage.containers.unpack import unpack
from medsanitize.pipeline.storage.containers.unpacking import ContainerProblem, stored_name
from medsanitize.policies.other_files import ContainerLimits

from tests.helpers.containers import TREE, disk_image, seven_zip, tarred
from tests.helpers.other_files import zipped

Unpacked = dict[bytes, bytes | str]
Unpack = Callable[..., Unpacked]


@pytest.fixture
def unpacked(tmp_path: Path) -> Unpack:
    """Unpack a container: content by name, or the rule of a refused file."""

    def made(content: bytes, name: bytes = b"export", **limits: int) -> Unpacked:
        folder = tmp_path / f"n{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        members = unpack(content, name, folder, ContainerLimits(**limits))
        assert len({one.name for one in members}) == len(members) or any(one.rule for one in members)
        return {one.name: one.rule or (folder / stored_name(one.name)).read_bytes() for one in members}

    return made


def zstd(content: bytes) -> bytes:
    module: Any = importlib.import_module("backports.zstd")
    return bytes(module.compress(content))


FORMS: dict[str, Callable[[], bytes]] = {
    "zip": lambda: zipped(TREE),
    "tar": lambda: tarred(TREE),
    "tar.gz": lambda: gzip.compress(tarred(TREE)),
    "tar.bz2": lambda: bz2.compress(tarred(TREE)),
    "tar.xz": lambda: lzma.compress(tarred(TREE)),
}
EXTRA: dict[str, Callable[[], bytes]] = {
    "tar.zst": lambda: zstd(tarred(TREE)),
    "7z": lambda: seven_zip(TREE),
    "joliet": lambda: disk_image(TREE, joliet=True),
    "rock-ridge": lambda: disk_image(TREE, rock_ridge=True),
    "udf": lambda: disk_image(TREE, udf=True),
}


def expected(tree: dict[str, bytes]) -> Unpacked:
    return {name.encode(): content for name, content in tree.items()}


@pytest.mark.parametrize("form", FORMS)
def test_every_file_is_stored_under_its_name(unpacked: Unpack, form: str) -> None:
    assert unpacked(FORMS[form]()) == expected(TREE)


@pytest.mark.containers
@pytest.mark.parametrize("form", EXTRA)
def test_every_file_is_stored_with_the_extra(unpacked: Unpack, form: str) -> None:
    assert unpacked(EXTRA[form]()) == expected(TREE)


@pytest.mark.containers
def test_names_of_a_plain_disk_image_lose_version_and_dot(unpacked: Unpack) -> None:
    image = disk_image({"DICOM/IM1": b"1", "README.TXT": b"2"})
    assert unpacked(image) == {b"DICOM/IM1": b"1", b"README.TXT": b"2"}


@pytest.mark.parametrize("form", ["7z", "iso", "zstd"])
def test_a_container_that_needs_the_extra_says_so(
    unpacked: Unpack, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack_module, "find_spec", lambda _: None)
    content = {"7z": b"7z\xbc\xaf\x27\x1c", "iso": bytes(32768) + b"\1CD001", "zstd": b"\x28\xb5\x2f\xfd"}
    with pytest.raises(ContainerProblem, match="container-extra-missing"):
        unpacked(content[form])


@pytest.mark.parametrize(
    ("name", "inside"),
    [(b"im1.dcm.gz", b"im1.dcm"), (b"im1", b"content"), (b"a.tgz", b"a.tar"), (b".gz", b"content")],
)
def test_a_compressed_file_has_the_name_of_its_container(
    unpacked: Unpack, name: bytes, inside: bytes
) -> None:
    assert unpacked(gzip.compress(b"1"), name) == {inside: b"1"}


def test_compressed_files_in_a_row_are_one_and_zeros_may_follow(unpacked: Unpack) -> None:
    content = gzip.compress(b"1") + gzip.compress(b"2") + bytes(100_000)
    assert unpacked(content, b"a.gz") == {b"a": b"12"}


@pytest.mark.parametrize("form", ["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("damage", ["cut", "followed"])
def test_a_damaged_compressed_file_is_quarantined(unpacked: Unpack, form: str, damage: str) -> None:
    compress = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}[form]
    whole = compress(bytes(range(256)) * 40)
    with pytest.raises(ContainerProblem, match="container-damaged"):
        unpacked(whole[:-9] if damage == "cut" else whole + b"QUIXLEY")


# -- names ------------------------------------------------------------------------------------------

UNSAFE = ("../a", "a/../../b", "/etc/passwd", "C:/a", "..", "\\\\server\\a")


@pytest.mark.parametrize("name", UNSAFE)
def test_a_name_that_leads_elsewhere_is_refused(unpacked: Unpack, name: str) -> None:
    for content in (zipped({name: b"1", "b": b"2"}), tarred({name: b"1", "b": b"2"})):
        found = unpacked(content)
        assert (found.pop(b"b"), list(found.values())) == (b"2", ["member-name-unsafe"])


def test_nothing_is_written_outside_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    unpack(tarred(dict.fromkeys(UNSAFE, b"1")), b"", inner, ContainerLimits())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_files_with_one_name_are_all_refused(tmp_path: Path) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for content in (b"1", b"2", b"3"):
            file.writestr("a", content)
    tar = tarred({"a": b"1", "./a": b"2", "a/.": b"3"})
    for number, content in enumerate((target.getvalue(), tar)):
        folder = tmp_path / str(number)
        folder.mkdir()
        members = unpack(content, b"", folder, ContainerLimits())
        assert [(one.name, one.rule) for one in members] == [(b"a", "member-name-twice")] * 3


def test_names_in_other_encodings_keep_their_bytes(unpacked: Unpack) -> None:
    tar = tarred({"b\udce9a": b"1"})
    zip_file = zipped({"aa": b"1"}).replace(b"aa", b"\xe9a")
    assert (set(unpacked(tar)), set(unpacked(zip_file))) == ({b"b\xe9a"}, {b"\xe9a"})


def test_backslashes_of_windows_separate_folders(unpacked: Unpack) -> None:
    assert set(unpacked(zipped({"DICOM\\IM1": b"1"}))) == {b"DICOM/IM1"}


# -- what is no ordinary file -------------------------------------------------------------------------


def test_links_and_devices_are_refused_and_hard_links_have_the_content(unpacked: Unpack) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        info = tarfile.TarInfo("a")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"1"))
        kinds = (tarfile.LNKTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
        for name, kind, link in zip("bcdef", kinds, ("a", "none", "a", "", ""), strict=True):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            tar.addfile(info)
    assert unpacked(target.getvalue()) == {
        b"a": b"1",
        b"b": b"1",
        b"c": "member-link",
        b"d": "member-link",
        b"e": "member-special",
        b"f": "member-special",
    }


def test_a_symbolic_link_in_a_zip_is_refused(unpacked: Unpack) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        info = zipfile.ZipInfo("a")
        info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        file.writestr(info, "/etc/passwd")
    assert unpacked(target.getvalue()) == {b"a": "member-link"}


def test_an_encrypted_file_of_a_zip_is_refused(unpacked: Unpack) -> None:
    content = bytearray(zipped({"a": b"1", "b": b"2"}))
    directory = content.index(b"PK\1\2")
    content[6] |= 1
    content[directory + 8] |= 1
    assert unpacked(bytes(content)) == {b"a": "member-encrypted", b"b": b"2"}


def test_a_file_with_a_wrong_checksum_is_refused(unpacked: Unpack) -> None:
    content = zipped({"a": b"QUIXLEY", "b": b"2"}, zipfile.ZIP_STORED).replace(b"QUIXLEY", b"QUIXLEX")
    assert unpacked(content) == {b"a": "member-damaged", b"b": b"2"}


def test_a_compression_that_is_not_supported_is_said(unpacked: Unpack) -> None:
    content = bytearray(zipped({"a": b"1"}))
    content[8] = content[content.index(b"PK\1\2") + 10] = 9  # Deflate64
    assert unpacked(bytes(content)) == {b"a": "member-not-supported"}


@pytest.mark.containers
def test_an_encrypted_7z_is_quarantined(unpacked: Unpack) -> None:
    for hidden in (False, True):
        with pytest.raises(ContainerProblem, match="container-encrypted"):
            unpacked(seven_zip(TREE, password="x", hidden=hidden))


# -- damage that hides files --------------------------------------------------------------------------


def test_a_tar_that_ends_early_is_quarantined(unpacked: Unpack) -> None:
    whole = tarred({"a": b"1", "b": b"2", "c": b"3"})
    for cut in (600, 1024, 2048):
        with pytest.raises(ContainerProblem, match="container-damaged"):
            unpacked(whole[:cut])


def test_a_tar_with_a_damaged_header_is_not_read_in_part(unpacked: Unpack) -> None:
    content = bytearray(tarred({"a": b"1", "b": b"2"}))
    content[1024 + 10] ^= 1
    with pytest.raises(ContainerProblem, match="container-damaged"):
        unpacked(bytes(content))


def test_two_archives_in_one_file_are_quarantined(unpacked: Unpack) -> None:
    for content in (zipped({"a": b"1"}) + zipped({"b": b"2"}), tarred({"a": b"1"}) + tarred({"b": b"2"})):
        with pytest.raises(ContainerProblem, match="container-damaged"):
            unpacked(content)


def test_a_zip_whose_directory_hides_a_file_is_quarantined(unpacked: Unpack) -> None:
    whole = zipped({"a": b"1", "b": b"2"})
    start = whole.index(b"PK\1\2")
    second = whole.index(b"PK\1\2", start + 4)
    end = bytearray(whole[whole.index(b"PK\5\6") :])
    end[8] = end[10] = 1
    for kept in (whole[start:second], whole[second : whole.index(b"PK\5\6")]):
        end[12:16] = len(kept).to_bytes(4, "little")
        with pytest.raises(ContainerProblem, match="container-damaged"):
            unpacked(whole[:start] + kept + bytes(end))


# -- limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["zip", "tar.gz", "gzip", "xz"])
def test_a_bomb_is_quarantined_before_it_fills_the_disk(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medsanitize.pipeline.storage.containers.unpacking.RATIO_FROM", 2**20)
    zeros = bytes(64 * 2**20)
    content = {
        "zip": lambda: zipped({"a": zeros}),
        "tar.gz": lambda: gzip.compress(tarred({"a": zeros})),
        "gzip": lambda: gzip.compress(zeros),
        "xz": lambda: lzma.compress(zeros),
    }[form]()
    with pytest.raises(ContainerProblem, match="container-too-large"):
        unpack(content, b"", tmp_path, ContainerLimits())
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 16 * 2**20


def test_files_and_bytes_of_a_container_are_limited(unpacked: Unpack) -> None:
    content = zipped({f"{number}": bytes(10) for number in range(5)})
    assert len(unpacked(content, members=5, bytes=50)) == 5
    with pytest.raises(ContainerProblem, match="container-too-many-members"):
        unpacked(content, members=4)
    with pytest.raises(ContainerProblem, match="container-too-large"):
        unpacked(content, bytes=49)


def test_refused_files_count_as_well(unpacked: Unpack) -> None:
    with pytest.raises(ContainerProblem, match="container-too-many-members"):
        unpacked(tarred({f"../{number}": b"" for number in range(5)}), members=4)


# -- anything else ------------------------------------------------------------------------------------

SEEDS = [
    zipped(TREE),
    tarred(TREE),
    gzip.compress(tarred(TREE)),
    bz2.compress(b"1" * 99),
    lzma.compress(b"1"),
]


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(SEEDS), st.data())
def test_changed_bytes_raise_nothing_but_a_container_problem(
    tmp_path_factory: pytest.TempPathFactory, seed: bytes, data: st.DataObject
) -> None:
    content = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(8, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        unpack(bytes(content), b"", tmp_path_factory.mktemp("t"), ContainerLimits(bytes=10**7))
    except ContainerProblem:
        pass


@cache
def extra_seed(form: str) -> bytes:
    # Times of creation in a container would change the length of what is drawn.
    return EXTRA[form]()


@pytest.mark.containers
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["7z", "rock-ridge", "tar.zst"]), st.data())
def test_changed_bytes_raise_nothing_else_with_the_extra(
    tmp_path_factory: pytest.TempPathFactory, form: str, data: st.DataObject
) -> None:
    content = bytearray(extra_seed(form))
    first = 32768 if form == "rock-ridge" else 6
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(first, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        unpack(bytes(content), b"", tmp_path_factory.mktemp("t"), ContainerLimits(bytes=10**7))
    except ContainerProblem:
        pass
