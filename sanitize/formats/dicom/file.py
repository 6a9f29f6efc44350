"""The container of a DICOM file: preamble, File Meta Information, transfer syntax, deflation (PS3.10 7).

Nothing that is read here is copied: released objects get a new container.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from medsanitize.policies.model import Limits
from medsanitize.sanitize.formats.dicom.elements import read_element_header
from medsanitize.sanitize.formats.dicom.transfer_syntax import (
    EXPLICIT_BIG,
    EXPLICIT_LITTLE,
    IMPLICIT_LITTLE,
    LONG_VRS,
    SHORT_VRS,
    TRANSFER_SYNTAXES,
    UNDEFINED,
    TransferSyntax,
    encode_element,
)
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.quarantine import Quarantined

IMPLEMENTATION_CLASS_UID = "2.25.183893275230571203349486218934716104325"
IMPLEMENTATION_VERSION_NAME = "MEDSANITIZE"
_PREAMBLE = 128
# DEFLATE compresses at most 1032:1, so that a short input needs no measuring.
_MOST_INFLATION = 1100
_STEP = 1 << 20
# Groups of the first element: file meta, media storage directory, identification.
_FIRST_GROUPS = frozenset([0x0002, 0x0004, 0x0008])
_ASSUMED_SYNTAX = {
    EXPLICIT_LITTLE: "1.2.840.10008.1.2.1",
    EXPLICIT_BIG: "1.2.840.10008.1.2.2",
    IMPLICIT_LITTLE: "1.2.840.10008.1.2",
}


@dataclass(frozen=True, slots=True)
class DicomFile:
    """Position and encoding of a data set.

    Attributes
    ----------
    buf : bytes or mmap
        The source, or the inflated data set.
    start : int
        First byte of the data set in ``buf``.
    syntax : TransferSyntax
        The syntax in which the data set is really encoded.
    sop_class, sop_instance : str
        From the File Meta Information; may be empty.
    has_meta : bool
        Whether there is File Meta Information.
    readable_pixels : bool
        False if the declared transfer syntax is unknown: ``syntax`` is then that of the data set only.
    """

    buf: Buffer
    start: int
    syntax: TransferSyntax
    sop_class: str
    sop_instance: str
    has_meta: bool
    readable_pixels: bool = True


def looks_like_dicom(buf: Buffer) -> bool:
    """Return whether the bytes start like a DICOM file, with or without preamble and meta information."""
    return buf[_PREAMBLE : _PREAMBLE + 4] == b"DICM" or _guess(buf, 0) is not None


def _guess(buf: Buffer, pos: int) -> TransferSyntax | None:
    """Guess the syntax of a data set without meta information from its first element."""
    head = bytes(buf[pos : pos + 12])
    if len(head) < 8:
        return None
    little, big = int.from_bytes(head[:2], "little"), int.from_bytes(head[:2], "big")
    vr = head[4:6]
    if vr in SHORT_VRS or vr in LONG_VRS:
        if little in _FIRST_GROUPS:
            return TRANSFER_SYNTAXES[_ASSUMED_SYNTAX[EXPLICIT_LITTLE]]
        if big in _FIRST_GROUPS:
            return TRANSFER_SYNTAXES[_ASSUMED_SYNTAX[EXPLICIT_BIG]]
        return None
    length = int.from_bytes(head[4:8], "little")
    if (
        little in _FIRST_GROUPS
        and int.from_bytes(head[2:4], "little") < 0x2000
        and length <= min(len(buf) - pos, 1024)
    ):
        return TRANSFER_SYNTAXES[_ASSUMED_SYNTAX[IMPLICIT_LITTLE]]
    return None


def open_dicom(buf: Buffer, limits: Limits) -> DicomFile:
    """Find the data set and its transfer syntax.

    Raises
    ------
    Quarantined
        ``not-dicom``, ``truncated``, ``malformed-vr``, ``unknown-transfer-syntax``, ``malformed-deflate`` or
        ``inflated-too-large``.
    """
    pos = _PREAMBLE + 4 if buf[_PREAMBLE : _PREAMBLE + 4] == b"DICM" else 0
    meta, start = _read_meta(buf, pos)
    uid = meta.get(0x00020010, "")
    syntax = TRANSFER_SYNTAXES.get(uid)
    known = syntax is not None or not uid
    if syntax is None:
        # A private or new syntax, or none: the data set itself shows its encoding.
        syntax = _guess(buf, start)
        if syntax is None and meta and not uid and start < len(buf):
            # The default (PS3.5 10.1); whether the elements are so encoded is seen when they are read.
            syntax = TRANSFER_SYNTAXES[_ASSUMED_SYNTAX[IMPLICIT_LITTLE]]
        if syntax is None:
            raise Quarantined("unknown-transfer-syntax" if pos else "not-dicom", "meta")
    classes = meta.get(0x00020002, ""), meta.get(0x00020003, "")
    if not known:
        return DicomFile(buf, start, syntax, *classes, bool(meta), readable_pixels=False)
    if syntax.deflated:
        return DicomFile(_inflate(buf, start, limits), 0, syntax, *classes, bool(meta))
    return DicomFile(buf, start, _really(buf, start, syntax), *classes, bool(meta))


def _really(buf: Buffer, start: int, syntax: TransferSyntax) -> TransferSyntax:
    """Return the syntax in which the data set is really encoded."""
    # Some writers declare an explicit syntax and write implicit VR.
    guess = _guess(buf, start)
    if guess is None or syntax.codec != "native" or guess.layout == syntax.layout:
        return syntax
    return guess


def _read_meta(buf: Buffer, pos: int) -> tuple[dict[int, str], int]:
    """Return the UI values of group 0002, and where the group ends; it is always explicit little-endian."""
    meta: dict[int, str] = {}
    end = len(buf)
    while end - pos >= 8 and bytes(buf[pos : pos + 2]) == b"\x02\x00":
        tag, vr, length, start = read_element_header(buf, pos, end, EXPLICIT_LITTLE)
        if length == UNDEFINED or start + length > end:
            raise Quarantined("truncated", "meta")
        if vr == b"UI":
            meta[tag] = bytes(buf[start : start + length]).decode("latin-1").strip(" \0")
        pos = start + length
    return meta, pos


def _inflate(buf: Buffer, start: int, limits: Limits) -> bytes:
    """Inflate a deflated data set (PS3.5 A.5), up to the limit."""
    if (len(buf) - start) * _MOST_INFLATION > limits.inflated_bytes:
        _measure(buf, start, limits)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # Bytes after the end of the stream are not part of the result, and so are not released.
        data = inflater.decompress(bytes(buf[start:]), limits.inflated_bytes)
    except zlib.error:
        raise Quarantined("malformed-deflate") from None
    if inflater.unconsumed_tail:
        raise Quarantined("inflated-too-large")
    if not inflater.eof:
        raise Quarantined("truncated")
    return data


def _measure(buf: Buffer, start: int, limits: Limits) -> None:
    """Inflate in steps without keeping the result, so that a decompression bomb needs little memory."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    size = 0
    try:
        for pos in range(start, len(buf), _STEP):
            pending = bytes(buf[pos : pos + _STEP])
            while pending and not inflater.eof:
                size += len(inflater.decompress(pending, _STEP))
                pending = inflater.unconsumed_tail
                if size > limits.inflated_bytes:
                    raise Quarantined("inflated-too-large")
    except zlib.error:
        raise Quarantined("malformed-deflate") from None


def deflate(data: bytes) -> bytes:
    """Deflate a data set, padded to an even length."""
    deflater = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    out = deflater.compress(data) + deflater.flush()
    return out + b"\0" if len(out) & 1 else out


def build_file_meta(syntax: TransferSyntax, sop_class: str, sop_instance: str) -> bytes:
    """Build a preamble of zeros and File Meta Information with the elements that PS3.10 requires."""
    rows = [(0x00020001, b"OB", b"\0\1")]
    if sop_class:
        rows.append((0x00020002, b"UI", sop_class.encode("ascii")))
    rows += [
        (0x00020003, b"UI", sop_instance.encode("ascii")),
        (0x00020010, b"UI", syntax.uid.encode("ascii")),
        (0x00020012, b"UI", IMPLEMENTATION_CLASS_UID.encode("ascii")),
        (0x00020013, b"SH", IMPLEMENTATION_VERSION_NAME.encode("ascii")),
    ]
    # Optional elements, such as Source Application Entity Title, would identify systems.
    body = b"".join(encode_element(EXPLICIT_LITTLE, tag, vr, value) for tag, vr, value in rows)
    length = encode_element(EXPLICIT_LITTLE, 0x00020000, b"UL", len(body).to_bytes(4, "little"))
    return bytes(_PREAMBLE) + b"DICM" + length + body
