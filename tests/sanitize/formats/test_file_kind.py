"""The kind of a file that is no image is found in its content."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.policies.other_files import FileKind
from medsanitize.sanitize.formats.container_kind import container_kind
from medsanitize.sanitize.formats.file_kind import file_kind

from tests.helpers.other_files import KINDS, ole_file, zipped


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_kinds_are_recognized_by_their_content(kind: FileKind) -> None:
    assert file_kind(KINDS[kind]) == kind


@given(st.binary(max_size=2000))
def test_any_content_has_a_kind_that_a_policy_can_name(content: bytes) -> None:
    assert file_kind(content) in get_args(FileKind)


def test_an_ole_file_is_a_thumbs_db_only_with_the_streams_of_one() -> None:
    kinds = [file_kind(ole_file(name)) for name in ("Catalog", "256_3a1bf7c3a4d51298", "WordDocument")]
    assert kinds == ["thumbs-db", "thumbs-db", "office-document"]


def test_a_list_of_checksums_has_no_other_line() -> None:
    lines = b"d41d8cd98f00b204e9800998ecf8427e  DICOM/IM1\n# made on a CD\n"
    assert (file_kind(lines), file_kind(lines + b"for Mrs Quixley\n")) == ("checksums", "text")


@pytest.mark.parametrize("note", [b"19570311 Quixley\n", b"Quixley, born 19570311\n", b"# nothing\n"])
def test_a_note_with_a_number_is_no_list_of_checksums(note: bytes) -> None:
    assert file_kind(note) == "text"


def test_text_may_be_in_any_encoding() -> None:
    assert [file_kind("Größe 3, Ünal\r\n".encode(name)) for name in ("utf-8", "latin-1", "utf-16")] == [
        "text"
    ] * 3


def tar_of(**files: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def test_containers_are_recognized_by_their_content() -> None:
    contents = {
        "zip": zipped({"a": b"1"}),
        "tar": tar_of(a=b"1"),
        "gzip": gzip.compress(b"1"),
        "bzip2": bz2.compress(b"1"),
        "xz": lzma.compress(b"1"),
        "zstd": bytes.fromhex("28b52ffd"),
        "7z": bytes.fromhex("377abcaf271c"),
        "iso": bytes(32768) + b"\1CD001\1",
    }
    assert {kind: container_kind(content) for kind, content in contents.items()} == {
        kind: kind for kind in contents
    }


def test_a_tar_of_seven_blocks_without_magic_is_recognized_by_its_checksum() -> None:
    old = bytearray(tar_of(a=b"1"))
    old[257:265] = bytes(8)
    old[148:156] = b"%06o\0 " % (sum(old[:148]) + 8 * 32 + sum(old[156:512]))
    assert container_kind(bytes(old)) == "tar"


def test_office_documents_and_programs_in_zip_form_are_no_containers() -> None:
    contents = [zipped({"[Content_Types].xml": b"<a/>"}), zipped({"META-INF/MANIFEST.MF": b""})]
    assert [(container_kind(one), file_kind(one)) for one in contents] == [
        (None, "office-document"),
        (None, "java-archive"),
    ]


@given(st.binary(max_size=1000))
def test_random_content_is_no_tar(content: bytes) -> None:
    assert container_kind(content) != "tar"


def test_an_empty_zip_is_a_container() -> None:
    target = io.BytesIO()
    zipfile.ZipFile(target, "w").close()
    assert container_kind(target.getvalue()) == "zip"
