"""The kind of a file that is no image, by its content; names are not used, since they can say anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from medsanitize.policies.other_files import FileKind
from medsanitize.sanitize.formats.container_kind import zip_form
from medsanitize.sanitize.formats.file_type import Buffer

# Beginnings of files, longest first where one continues another.
_MAGIC: Final[tuple[tuple[bytes, FileKind], ...]] = (
    (b"\0\0\0\1Bud1", "ds-store"),
    (b"\0\5\x16\7", "apple-double"),
    (b"\x4c\0\0\0\1\x14\2\0\0\0\0\0\xc0\0\0\0\0\0\0\x46", "windows-shortcut"),
    (b"%PDF-", "pdf"),
    (b"%!PS", "postscript"),
    (b"{\\rtf", "rtf"),
    (b"SQLite format 3\0", "sqlite"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"MATLAB 5.0 MAT-file", "matlab"),
    (b"\x93NUMPY", "numpy"),
    (b"PAR1", "parquet"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "jpeg-2000"),
    (b"\xff\x4f\xff\x51", "jpeg-2000"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "jpeg-xl"),
    (b"\xff\x0a", "jpeg-xl"),
    (b"\0\0\1\0", "icon"),
    (b"NRRD000", "nrrd"),
    (b"\0\0\1\xba", "mpeg"),
    (b"\0\0\1\xb3", "mpeg"),
    (b"\x1aE\xdf\xa3", "matroska"),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "asf"),
    (b"ID3", "mp3"),
    (b"\xff\xfb", "mp3"),
    (b"OggS", "ogg"),
    (b"fLaC", "flac"),
    (b"MZ", "windows-program"),
    (b"\x7fELF", "linux-program"),
    (b"\xcf\xfa\xed\xfe", "mac-program"),
    (b"\xce\xfa\xed\xfe", "mac-program"),
    (b"\xca\xfe\xba\xbe", "mac-program"),
    (b"#!", "script"),
    (b"Rar!\x1a\7", "rar"),
    (b"MSCF\0\0\0\0", "cab"),
    (b"MSH|^", "hl7"),
)
_RIFF: Final[dict[bytes, FileKind]] = {b"WEBP": "webp", b"AVI ": "avi", b"WAVE": "wav"}
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Streams of Thumbs.db: an index, or pictures named after their size (Windows XP and later versions).
_THUMBNAIL: Final = re.compile(r"Catalog|\d+_[0-9a-f]{8,16}")
_STILL_PICTURES: Final = (b"heic", b"heix", b"mif1", b"msf1", b"avif")
# Sizes of the header of bitmap information (BITMAPCOREHEADER to BITMAPV5HEADER).
_BITMAP_HEADERS: Final = frozenset([12, 40, 52, 56, 64, 108, 124])

_TEXT_BYTES: Final = 1 << 16
_CHECKED_BYTES: Final = 16 << 20
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_DIGEST: Final = re.compile(
    # md5sum and sha*sum, their BSD form, and SFV. Only lengths of digests: a note may begin with a number.
    rb"(?:(?:[0-9A-Fa-f]{2}){16,64}[ \t]+\*?\S.*|[A-Z0-9/-]+ \(.+\) = (?:[0-9A-Fa-f]{2}){4,64}"
    rb"|\S.*\.\w{1,4} [0-9A-Fa-f]{8}|[#;].*|)\s*"
)


def file_kind(data: Buffer) -> FileKind:
    """Return the kind of a file that is neither an image nor a container.

    Parameters
    ----------
    data : bytes or mmap
        The complete file.

    Returns
    -------
    str
        ``unknown`` if no rule applies. The kind is a label to count and to ignore files by: nothing of a file
        with a kind is released.
    """
    head = bytes(data[:_TEXT_BYTES])
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    return _by_structure(head) or _text_kind(head, data) or "unknown"


def _by_structure(head: bytes) -> FileKind | None:
    if head.startswith(_OLE):
        return "thumbs-db" if _has_thumbnails(head) else "office-document"
    if head.startswith(b"PK\3\4"):
        return zip_form(head[:64])
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "heif" if head[8:12] in _STILL_PICTURES else "mp4"
    if head[344:348] in (b"n+1\0", b"ni1\0"):
        return "nifti"
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BITMAP_HEADERS:
        return "bmp"
    return None


def _has_thumbnails(head: bytes) -> bool:
    """Report whether the first sector of the directory of an OLE file names pictures (MS-CFB 2.2 and 2.6)."""
    size = 1 << min(int.from_bytes(head[30:32], "little"), 12)
    start = (int.from_bytes(head[48:52], "little") + 1) * size
    entries = (head[at : at + 128] for at in range(start, min(start + size, len(head)), 128))
    names = (one[: max(int.from_bytes(one[64:66], "little") - 2, 0)] for one in entries)
    return any(_THUMBNAIL.fullmatch(name[:62].decode("utf-16-le", "replace")) for name in names)


def _text_kind(head: bytes, data: Buffer) -> FileKind | None:
    """Return the kind of a text in an encoding that extends ASCII, or in UTF-16."""
    text = _as_bytes_of_text(head)
    if text is None:
        return None
    start = text.lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "html"
    if start.startswith((b"<?xml", b"<svg")):
        return "svg" if b"<svg" in start else "xml"
    for recognize, kind in _TEXTS:
        if recognize(start):
            return kind
    return "checksums" if _is_list_of_digests(data) else "text"


_TEXTS: Final[tuple[tuple[Callable[[bytes], bool], FileKind], ...]] = (
    (lambda text: re.match(rb'[{\[]\s*(?:["{\[\]}]|[-0-9])', text) is not None, "json"),
    (lambda text: text.startswith((b"objecttype =", b"ndims =")), "metaimage"),
)


def _as_bytes_of_text(head: bytes) -> bytes | None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head.decode("utf-16", "replace").encode()
    text = head.removeprefix(b"\xef\xbb\xbf")
    if not text or _CONTROLS.search(text):
        return None
    # In other encodings than UTF-8, most bytes of a text are ASCII all the same.
    foreign = sum(byte > 127 for byte in text)
    return text if _is_utf8(text) or 2 * foreign <= len(text) else None


def _is_utf8(text: bytes) -> bool:
    try:
        # The end of what was read may divide a character.
        text[: max(len(text) - 3, 0)].decode()
    except UnicodeDecodeError as problem:
        return problem.reason == "unexpected end of data"
    return True


def _is_list_of_digests(data: Buffer) -> bool:
    """Report whether every line is a digest with a name or a comment, and at least one is a digest."""
    if len(data) > _CHECKED_BYTES:
        return False
    lines = bytes(data).splitlines()
    digests = [line for line in lines if _DIGEST.fullmatch(line)]
    return len(digests) == len(lines) and any(line[:1] not in b"#;" for line in digests)
