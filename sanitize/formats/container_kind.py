"""Detection of archives, compressed files and disk images by their content."""

from __future__ import annotations

from typing import Final, Literal

from medsanitize.sanitize.formats.file_type import Buffer

ContainerKind = Literal["zip", "tar", "gzip", "bzip2", "xz", "zstd", "7z", "iso"]

_MAGIC: Final[tuple[tuple[bytes, ContainerKind], ...]] = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
)
_ZIP: Final = (b"PK\3\4", b"PK\5\6", b"PK\7\x08PK\3\4")
# First names of files in ZIP form that are documents or programs (ECMA-376 and OpenDocument; JAR).
_OFFICE: Final = (b"[Content_Types].xml", b"mimetype", b"_rels/", b"docProps/")
_JAVA: Final = (b"META-INF/",)
_TAR_BLOCK: Final = 512
_SECTOR: Final = 2048
# Volume descriptors begin at sector 16 (ECMA-119 8.1; ECMA-167 2/8.3).
_DESCRIPTORS: Final = 16 * _SECTOR


def container_kind(data: Buffer) -> ContainerKind | None:
    """Return the kind of a container, or None for anything else."""
    head = bytes(data[:64])
    if head.startswith(_ZIP):
        return "zip" if zip_form(head) is None else None
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if _is_tar(bytes(data[:_TAR_BLOCK])):
        return "tar"
    return "iso" if _is_disk_image(data) else None


def zip_form(head: bytes) -> Literal["office-document", "java-archive"] | None:
    """Return what a file in ZIP form is by the name of its first entry; None for an ordinary archive."""
    # The name follows the 30 bytes of the local file header (APPNOTE 4.3.7).
    name = head[30:]
    if name.startswith(_OFFICE):
        return "office-document"
    return "java-archive" if name.startswith(_JAVA) else None


def _is_tar(block: bytes) -> bool:
    """Report whether a block is a tar header: its checksum is right (POSIX.1-1988 10.1.1)."""
    # The first archives have no magic, so the checksum decides for all; an empty name has no file.
    if len(block) < _TAR_BLOCK or not block[0]:
        return False
    stated = block[148:156].strip(b" \0")
    if not stated or set(stated) - set(b"01234567"):
        return False
    counted = sum(block[:148]) + 8 * ord(" ") + sum(block[156:])
    return int(stated, 8) == counted


def _is_disk_image(data: Buffer) -> bool:
    names = [bytes(data[at + 1 : at + 6]) for at in range(_DESCRIPTORS, _DESCRIPTORS + 4 * _SECTOR, _SECTOR)]
    return names[0] == b"CD001" or (
        names[0] == b"BEA01" and any(name in (b"NSR02", b"NSR03") for name in names)
    )
