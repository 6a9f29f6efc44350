"""Search the bytes of a released slide for hidden data: dates, identifiers, encoded texts, images."""

from __future__ import annotations

import base64
import binascii
import mmap
import re
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Final

from medsanitize.verifiers.leaks.slide_layout import JPEG, Tiles
from medsanitize.verifiers.leaks.slide_single_pass import NO_HEAD, SCAN, head_of

Tokens = frozenset[bytes]
"""Potentially identifying words of the source, in lower case."""

# Namespaces, colors and processing parameters, which contain dates or long numbers but identify nothing.
_FORMULAS: Final = re.compile(
    rb"http://www\.leica-microsystems\.com/scn/\d{4}/\d\d/\d\d"
    rb"|tiff-useBigTIFF=\d-useRgb=\d-levels=[\d,.]{1,120}-processing=\d(?:-q\d{1,3})?"
    rb"|<Color>#[0-9A-Fa-f]{6,8}</Color>"
    rb"|http://www\.openmicroscopy\.org/Schemas/OME/\d{4}-\d\d|http://www\.w3\.org/2001/XMLSchema-instance"
)
_DATE: Final = re.compile(
    rb"(?<!\d)(?:(?:19|20)\d\d[-:/](?:0[1-9]|1[0-2])[-:/](?:0[1-9]|[12]\d|3[01])"
    rb"|(?:0?[1-9]|[12]\d|3[01])[./-](?:0?[1-9]|[12]\d|3[01])[./-](?:(?:19|20)\d\d|\d\d)"
    rb"|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])[T ]?\d{6})(?!\d)"
)
_DATED: Final = re.compile(rb"[\d:./T -]{6,}")
"""Runs of characters that dates and times consist of; only these are searched for dates."""
_TIME: Final = re.compile(rb"(?<![\d:])(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?![\d:])")
_GUID: Final = re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")
_GROUP: Final = 4
"""Base64 characters that encode three bytes."""
_LEAST_CODED: Final = 12
_PRINTABLE_RUN: Final = re.compile(rb"[\t\n\r -~]{16,}")
_HEADERS: Final = (b"Exif\0\0", b"http://ns.adobe.com/xap", b"<x:xmpmeta", b"8BIM", b"ICC_PROFILE", b"acsp")
# Header and tag count of an ICC profile, and header fields that may identify (ICC.1, 7.2).
_PROFILE_HEAD: Final = 132
_PROFILE_TEXTS: Final = ((4, 8), (24, 36), (40, 44), (48, 64), (80, 128))
_NUMBERS: Final = frozenset(
    [
        b"XYZ ",
        b"curv",
        b"para",
        b"mft1",
        b"mft2",
        b"mAB ",
        b"mBA ",
        b"sf32",
        b"uf32",
        b"chrm",
        b"view",
        b"meas",
    ]
)
"""Types of ICC tags that consist of numbers."""
# JPEG, PNG, JPEG 2000 codestream, GIF, JP2.
_PICTURES: Final = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"\xff\x4f\xff\x51", b"GIF8", b"jP  \r\n\x87\n")
_JFIF: Final = b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
# zlib headers of the usual compression levels.
_ZLIB: Final = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
# ASCII text in UTF-16 little endian.
_UTF16_RUN: Final = re.compile(rb"(?:[\x20-\x7e]\0){6,}")
_WORD: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_.@-]{5,79}")
_COMMON_WORD: Final = re.compile(
    rb"[-+]?\d{1,8}(?:\.\d*)?(?:e[-+]?\d+)?|\d+\.\d*|\d+x\d+|(?:19|20)\d\d"
    rb"|(?:gray|bgra?)\d{1,3}(?:complex)?(?:float)?|[a-z]+(?:_[a-z0-9]+)+|data\d{4}\.dat|c\d{4,5}-\d\d",
    re.IGNORECASE,
)
"""Measures, pixel types, keys of INI and XML files, names of files within a slide, scanner models."""
_COMPACT_DATE: Final = re.compile(rb"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
# Bounds on decompression, against small files that expand without limit.
_MOST_INFLATED: Final = 1 << 20
_MOST_STREAMS: Final = 4096
_RELEASE_PAGES_AFTER: Final = 64 << 20


def identifying_words(texts: Sequence[bytes]) -> Tokens:
    """Return words of a source that may identify: long ones with digits, and dates."""
    return frozenset(word.lower() for word in _identifying(texts))


def base64_words(texts: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the same words as they appear inside base64, at each of the three alignments, in lower case."""
    for word in set(_identifying(texts)):
        for before in range(3):
            whole = base64.b64encode(bytes(before) + word)
            yield whole[-(-before * 8 // 6) : (before + len(word)) * 8 // 6].lower()


def _identifying(texts: Sequence[bytes]) -> Iterator[bytes]:
    for text in texts:
        # Mostly NULs: UTF-16, as in metadata of several vendors.
        plain = text.replace(b"\0", b"") if text.count(b"\0") * 3 > len(text) else text
        for word in _WORD.findall(_FORMULAS.sub(b" ", plain)):
            stripped = word.strip(b"._-@")
            lower = stripped.lower()
            digits = sum(48 <= one < 58 for one in lower)
            if len(lower) < 6 or not digits:
                continue
            if _COMPACT_DATE.fullmatch(lower) or (not _COMMON_WORD.fullmatch(lower) and len(lower) >= 8):
                yield stripped


def hidden_data_rules(outside: bytes, tokens: Tokens) -> Iterator[str]:
    """Yield the rules that bytes outside the tiles violate.

    Parameters
    ----------
    outside : bytes
        All bytes outside the tiles.
    tokens : frozenset of bytes
        Identifying words of the source (see `identifying_words`).

    Yields
    ------
    str
        ``date``, ``guid``, ``source-text``, ``metadata``, ``picture``, ``coded-text`` or ``packed-text``.
    """
    yield from _in_text(outside, tokens)
    for wide in _UTF16_RUN.findall(outside):
        yield from _in_text(wide[::2], tokens)
    if any(mark in outside for mark in _HEADERS):
        yield "metadata"
    for mark in _PICTURES:
        place = outside.find(mark)
        while place >= 0:
            # Decoded, because two or three magic bytes also occur by chance.
            if _decodes(outside[place:]):
                yield "picture"
                break
            place = outside.find(mark, place + 1)
    if any(map(_is_coded, _BASE64.findall(outside))):
        yield "coded-text"
    for number, found in enumerate(_ZLIB.finditer(outside)):
        if number == _MOST_STREAMS:
            break
        text = _inflated(outside[found.start() : found.start() + _MOST_INFLATED])
        if len(text) > 20 and _is_text(text):
            yield "packed-text"
            break


def tile_faults(data: mmap.mmap, tiles: Tiles, *, metadata: bool) -> Iterator[str]:
    """Yield the rules that tiles violate: comments and application segments, bytes after the end of an image.

    Parameters
    ----------
    data : mmap
        The file.
    tiles : Tiles
        Its tiles.
    metadata : bool
        Whether the policy keeps comments and application segments of tiles.
    """
    head, bytes_read = NO_HEAD, 0
    for start, end in tiles.every:
        bytes_read += end - start
        if bytes_read > _RELEASE_PAGES_AFTER:
            data.madvise(mmap.MADV_DONTNEED)  # keeps memory flat: mapped pages are not needed again
            bytes_read = 0
        if data[start : start + 2] != JPEG:
            continue
        # Most tiles of a slide have equal headers, which are checked once.
        last, head = head, head_of(data, start, end, head)
        if (head is not last or not head) and not (metadata or _plain_header(head[: -len(SCAN)])):
            yield "tile-metadata"
            break
        if data[end - 2 : end] != b"\xff\xd9":
            yield "tile-slack"
            break
    for table in tiles.tables:
        if not _plain_header(table[:-2]):
            yield "tile-metadata"


def profile_mark(data: mmap.mmap, place: tuple[int, int]) -> tuple[int, int] | None:
    """Return the range of the signature of an ICC profile that contains only numbers; None for any other
    profile.

    Date, platform, device, creator and profile ID must be zero, and so must all tags of non-numeric types
    (ICC.1 sections 7 and 10).
    """
    start, end = place
    profile = data[start:end]
    if len(profile) < _PROFILE_HEAD or profile[36:40] != b"acsp" or len(profile) != _whole(profile, 0):
        return None
    table = _PROFILE_HEAD + 12 * _whole(profile, 128)
    if any(any(profile[a:b]) for a, b in _PROFILE_TEXTS) or table > len(profile):
        return None
    # What is covered is accounted for; any other byte must be zero.
    covered = bytearray(profile)
    covered[:table] = bytes(table)
    for at in range(_PROFILE_HEAD, table, 12):
        offset, size = _whole(profile, at + 4), _whole(profile, at + 8)
        numeric = profile[offset : offset + 4] in _NUMBERS
        covered[offset : offset + (size if numeric else 4)] = bytes(size if numeric else 4)
    return None if any(covered[: len(profile)]) else (start + 36, start + 40)


def _whole(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _in_text(text: bytes, tokens: Tokens) -> Iterator[str]:
    text = _FORMULAS.sub(b" ", text)
    if any(_DATE.search(run) or _TIME.search(run) for run in _DATED.findall(text)):
        yield "date"
    if _GUID.search(text):
        yield "guid"
    for word in _WORD.findall(text):
        if word.lower().strip(b"._-@") in tokens:
            yield "source-text"
            return


def _plain_header(head: bytes) -> bool:
    """Whether a JPEG header has only tables, frame, restart interval, Adobe's transform and an empty JFIF."""
    if head[:2] != JPEG:
        return False
    at = 2
    while at < len(head):
        marker, length = head[at + 1 : at + 2], int.from_bytes(head[at + 2 : at + 4], "big")
        if head[at] != 0xFF or length < 2 or at + 2 + length > len(head):
            return False
        adobe = marker == b"\xee" and length == 14 and head[at + 4 : at + 9] == b"Adobe"
        adobe |= head[at : at + 2 + length] == _JFIF
        if marker not in (b"\xc0", b"\xc1", b"\xc2", b"\xc4", b"\xdb", b"\xdd") and not adobe:
            return False
        at += 2 + length
    return True


def _decodes(data: bytes) -> bool:
    """Whether an image of more than a few pixels can be decoded here."""
    from PIL import Image

    try:
        with Image.open(BytesIO(data[: 1 << 26])) as image:
            image.load()
            return image.width * image.height > 64
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False


def _is_coded(run: bytes) -> bool:
    """Whether base64 encodes text or a JPEG; its first characters may belong to something else."""
    for start in range(_GROUP):
        try:
            text = base64.b64decode(run[start : start + (len(run) - start) // _GROUP * _GROUP])
        except (binascii.Error, ValueError):
            continue
        read = len(text) >= _LEAST_CODED and _is_text(text)
        if read or text.startswith(_PICTURES[0]) or _PRINTABLE_RUN.search(text):
            return True
    return False


def _inflated(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, _MOST_INFLATED)
    except zlib.error:
        return b""


def _is_text(data: bytes) -> bool:
    """Whether almost all bytes are printable."""
    return sum(32 <= one < 127 or one in (9, 10, 13) for one in data) > 0.95 * len(data)
