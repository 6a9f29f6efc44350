"""Audit released PNG, JPEG and TIFF files with readers that share no code with their writers.

A file may contain only the parts that decoding needs, each of its required length, and no bytes between,
after or behind them.
"""

from __future__ import annotations

import json
import re
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from medsanitize.release.multi_file_objects import parts_digest
from medsanitize.sanitize.result import FilePart, Finding
from medsanitize.verifiers.leaks.identifier_search import IdentifierHit, IdentifierSearch, stands_alone

STRUCTURE: Final = Finding("file", "audit:structure")
SUFFIXES: Final = frozenset([".png", ".jpg", ".tif"])
# Shorter values occur in pixels by chance.
_LEAST_IN_PICTURE: Final = 9
_PNG_SIZES: Final = {
    b"cHRM": (32,),
    b"gAMA": (4,),
    b"sRGB": (1,),
    b"pHYs": (9,),
    b"sBIT": (1, 2, 3, 4),
    b"eXIf": (26,),
    b"tRNS": range(1, 257),
    b"PLTE": range(3, 769, 3),
}
# A TIFF header and one IFD with only the orientation (tag 274, values 2 to 8).
_ONLY_ORIENTATION: Final = re.compile(
    rb"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0[\x02-\x08]\0\0\0\0\0\0", re.DOTALL
)
# Members of the JSON file of a synthetic image.
_SAID_BESIDE: Final = frozenset(
    [
        *("synthetic", "class", "vetted", "description", "model_sha256", "gate"),
        *("match_bound", "residual_bound", "software"),
    ]
)
# DHT, DQT and DRI; baseline, extended and progressive frames.
_TABLES: Final = frozenset([0xC4, 0xDB, 0xDD])
_FRAMES: Final = frozenset([0xC0, 0xC1, 0xC2])
# Structure of baseline, tiled and JPEG-compressed images (TIFF 6.0); no texts, dates or private tags.
_TIFF_TAGS: Final = frozenset(
    [
        *(254, 256, 257, 258, 259, 262, 273, 274, 277, 278, 279, 282, 283, 284, 296, 317, 320),
        *(338, 339, 347, 529, 530, 531, 532),
    ]
)
_TIFF_SIZES: Final = {3: 2, 4: 4, 5: 8, 7: 1}


class _Unsound(Exception):
    """A released picture has parts that it must not have."""


def audit_raster(
    path: Path, *, search: IdentifierSearch, digest: str | None = None, parts: Sequence[FilePart] = ()
) -> tuple[Finding, ...]:
    """Audit a released picture.

    Parameters
    ----------
    path : Path
        The file.
    search : IdentifierSearch
        The run-wide search.
    digest : str, optional
        SHA-256 (hex) in the record.
    parts : sequence of FilePart
        The picture and the JSON file of a synthetic image, as in the record; ``digest`` is then that of both.

    Returns
    -------
    tuple of Finding
        ``audit:structure`` for anything that is not part of the picture, ``audit:digest``, and ``audit:name``
        etc. for identifiers; sorted, never a value.
    """
    data = path.read_bytes()
    findings = set[Finding]()
    try:
        if parts:
            findings.update(_sidecar_findings(path, parts, search, digest))
            digest = parts[0].sha256
    except (KeyError, IndexError, ValueError):
        findings.add(STRUCTURE)
    if digest is not None and sha256(data).hexdigest() != digest:
        findings.add(Finding("file", "audit:digest"))
    findings.update(audit_picture(data, path.suffix, search))
    return tuple(sorted(findings, key=lambda finding: (finding.location, finding.rule)))


def audit_picture(data: bytes, suffix: str, search: IdentifierSearch) -> tuple[Finding, ...]:
    """Audit the bytes of a released picture.

    Parameters
    ----------
    data : bytes
        Content of the file.
    suffix : str
        Suffix of the file: ``.png``, ``.jpg`` or ``.tif``.
    search : IdentifierSearch
        The run-wide search.

    Returns
    -------
    tuple of Finding
        As for `audit_raster`.
    """
    findings = set[Finding]()
    try:
        {".png": _check_png, ".jpg": _check_jpeg, ".tif": _check_tiff}[suffix](data)
    # Any error on malformed structure is a finding; it must not end the audit.
    except (_Unsound, KeyError, IndexError, ValueError, struct.error, zlib.error):
        findings.add(STRUCTURE)
    findings.update(Finding("pixels", f"audit:{hit.rule}") for hit in picture_hits(data, suffix, search))
    return tuple(sorted(findings, key=lambda finding: (finding.location, finding.rule)))


def _sidecar_findings(
    path: Path, parts: Sequence[FilePart], search: IdentifierSearch, digest: str | None
) -> Iterator[Finding]:
    """Check the JSON file of a synthetic image, which may contain only known members."""
    if digest is not None and parts_digest(parts) != digest:
        yield Finding("file", "audit:digest")
    if [part.name for part in parts] != [path.suffix, ".json"]:
        yield STRUCTURE
        return
    data = path.with_suffix(".json").read_bytes()
    if sha256(data).hexdigest() != parts[1].sha256:
        yield Finding("file", "audit:digest")
    facts = json.loads(data)
    if not isinstance(facts, dict) or facts.get("synthetic") is not True or set(facts) - _SAID_BESIDE:
        yield STRUCTURE
    for hit in search.hits(data):
        if stands_alone(data, hit, 0, len(data)):
            yield Finding("file", f"audit:{hit.rule}")


def picture_hits(data: bytes, suffix: str, search: IdentifierSearch) -> Iterator[IdentifierHit]:
    """Yield hits in the bytes of a picture, except those that pixels contain by chance."""
    native = suffix == ".tif"
    for hit in search.hits(data):
        if (hit.rule == "uid" or hit.length >= _LEAST_IN_PICTURE) and (
            stands_alone(data, hit, 0, len(data))
            and search.counts_in_image(data, hit, 0, len(data), native=native)
        ):
            yield hit


def _require(sound: bool) -> None:
    if not sound:
        raise _Unsound


# -- PNG ------------------------------------------------------------------------------------


def _check_png(data: bytes) -> None:
    _require(data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR")
    place, seen, packed = 8, [], b""
    while place < len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        name, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        _require(
            int.from_bytes(data[place + 8 + length : place + 12 + length], "big") == zlib.crc32(name + body)
        )
        _require(name in (b"IHDR", b"IDAT", b"IEND") or length in _PNG_SIZES.get(name, ()))
        _require(name != b"eXIf" or _ONLY_ORIENTATION.fullmatch(body) is not None)
        packed += body if name == b"IDAT" else b""
        seen.append(name)
        place += 12 + length
    # Each chunk occurs once: a second IDAT or an ancillary chunk could carry additional data.
    _require(seen[-1] == b"IEND" and len(set(seen)) == len(seen) and place == len(data) and not body)
    reader = zlib.decompressobj()
    # One byte more than the pixels need, so that hidden data after them is found.
    expected = _png_bytes(data[16:29])
    content = reader.decompress(packed, expected + 1)
    _require(len(content) == expected and reader.decompress(reader.unconsumed_tail, 1) == b"")
    _require(reader.eof and not reader.unused_data)


def _png_bytes(header: bytes) -> int:
    """Return the size of all rows with their filter bytes (ISO/IEC 15948, 7.3 and 8.2)."""
    width, height, depth, color, _, _, interlace = struct.unpack(">IIBBBBB", header)
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]

    def rows(across: int, down: int) -> int:
        return down * (1 + -(-across * bits // 8)) if across else 0

    if not interlace:
        return rows(width, height)
    # The seven passes of Adam7: first column, column step, first row, row step.
    steps = ((0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2))
    return sum(rows(len(range(x, width, dx)), len(range(y, height, dy))) for x, dx, y, dy in steps)


# -- JPEG -----------------------------------------------------------------------------------


def _check_jpeg(data: bytes, *, inside: bool = False) -> None:
    """Follow the markers from SOI to EOI, where the file must end; no APPn ``inside`` a TIFF file."""
    _require(data[:2] == b"\xff\xd8" and data[-2:] == b"\xff\xd9")
    place, scans = 2, 0
    while data[place : place + 2] != b"\xff\xd9":
        _require(data[place] == 0xFF)
        marker, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        body = data[place + 4 : place + 2 + length]
        _require(len(body) == length - 2)
        application = not inside and _is_plain_application(marker, body)
        _require(marker in _TABLES | _FRAMES | {0xDA} or application)
        place += 2 + length
        if marker == 0xDA:
            scans += 1
            # In entropy-coded data, FF is followed by 00 or a restart marker.
            ended = re.compile(rb"\xff[^\x00\xd0-\xd7]", re.DOTALL).search(data, place)
            _require(ended is not None)
            place = ended.start() if ended else len(data)
    _require(place == len(data) - 2 and (scans > 0 or inside))


def _is_plain_application(marker: int, body: bytes) -> bool:
    """Whether a segment is JFIF without thumbnail, Adobe's transform, or EXIF with only orientation."""
    if marker == 0xE0:
        return len(body) == 14 and body[:7] == b"JFIF\0\1\1" and body[12:] == b"\0\0"
    if marker == 0xEE:
        return len(body) == 12 and body[:11] == b"Adobe\0\x64\0\0\0\0"
    return marker == 0xE1 and body[:6] == b"Exif\0\0" and _ONLY_ORIENTATION.fullmatch(body[6:]) is not None


# -- TIFF -----------------------------------------------------------------------------------


def _check_tiff(data: bytes) -> None:
    """Follow the directories; every byte must belong to exactly one structure, except padding."""
    order = {b"II*\0": "<", b"MM\0*": ">"}[data[:4]]
    taken = [(0, 8)]
    place = struct.unpack_from(f"{order}I", data, 4)[0]
    while place:
        count = struct.unpack_from(f"{order}H", data, place)[0]
        entries = [struct.unpack_from(f"{order}HHI4s", data, place + 2 + 12 * one) for one in range(count)]
        end = place + 2 + 12 * count
        taken.append((place, end + 4))
        values: dict[int, tuple[int, ...]] = {}
        for tag, kind, number, value in entries:
            size = _TIFF_SIZES[kind] * number
            at = struct.unpack(f"{order}I", value)[0]
            _require(tag in _TIFF_TAGS and tag not in values and (kind != 7 or tag == 347))
            if size > 4:
                taken.append((at, at + size))
                value = data[at : at + size]
            else:
                # Values of up to 4 bytes are stored in the entry itself, left-justified (TIFF 6.0, section
                # 2).
                _require(not any(value[size:]))
            code = {3: "H", 4: "I"}.get(kind)
            values[tag] = struct.unpack(f"{order}{number}{code}", value[:size]) if code else ()
            if tag == 347:
                _check_jpeg(value, inside=True)
        for number, (at, size) in enumerate(zip(values[273], values[279], strict=True)):
            taken.append((at, at + size))
            _check_strip(data[at : at + size], values, number)
        place = struct.unpack_from(f"{order}I", data, end)[0]
    _require_accounted(data, taken)


def _check_strip(strip: bytes, values: dict[int, tuple[int, ...]], number: int) -> None:
    """Check that a strip has the length its rows need; LZW and PackBits strips are not decoded."""
    (columns,), (rows,), (each,), (compression,) = values[256], values[257], values[278], values[259]
    each = min(each, rows)
    several = values.get(284, (1,)) == (2,)
    first = number % -(-rows // each) * each
    bits = values[258][0] * (1 if several else values.get(277, (1,))[0])
    expected = (min(each, rows - first)) * -(-columns * bits // 8)
    if compression == 1:
        _require(len(strip) == expected)
    elif compression == 8:
        reader = zlib.decompressobj()
        _require(len(reader.decompress(strip, expected + 1)) == expected)
        _require(not reader.decompress(reader.unconsumed_tail, 1) and reader.eof and not reader.unused_data)
    elif compression == 7:
        _check_jpeg(strip, inside=True)
    else:
        _require(compression in (5, 32773))


def _require_accounted(data: bytes, taken: list[tuple[int, int]]) -> None:
    reached = 0
    for start, end in sorted(taken):
        # TIFF values start at even offsets, so one NUL may precede them.
        _require(start == reached or (start == reached + 1 and data[reached] == 0))
        reached = end
    _require(reached == len(data) or (reached == len(data) - 1 and data[-1] == 0))


# -- pixels ---------------------------------------------------------------------------------


def raster_digest(path: Path) -> str | None:
    """Return the SHA-256 of the decoded pixels of a picture, independent of its format.

    Grayscale and RGB pictures of 8 bits have the digest of the same pixels in a DICOM object
    (`medsanitize.verifiers.leaks.pixel_digest.pixel_digest`).

    Returns
    -------
    str or None
        64 hexadecimal digits; None if the pixels cannot be decoded.
    """
    from medsanitize.verifiers.leaks.pixel_digest import samples_digest
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                return samples_digest(_frames(image), getattr(image, "n_frames", 1))
    except (Image.DecompressionBombError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return None


def _frames(image: Any) -> Iterator[Any]:
    import numpy as np

    for number in range(getattr(image, "n_frames", 1)):
        image.seek(number)
        # The palette is an encoding: equal colors under another palette are equal pixels.
        if image.mode == "P":
            shown = image.convert("RGBA" if "transparency" in image.info else "RGB")
        else:
            shown = image.convert("L") if image.mode == "1" else image
        yield np.asarray(shown)
