"""Small files of every kind that is no image, and containers."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping

from medsanitize.policies.other_files import FileKind


def ole_file(stream: str) -> bytes:
    """An OLE file (MS-CFB) of 512-byte sectors, whose directory is its first sector."""
    head = bytearray(512)
    head[:8] = bytes.fromhex("d0cf11e0a1b11ae1")
    struct.pack_into("<HHHH", head, 24, 0x3E, 3, 0xFFFE, 9)
    struct.pack_into("<I", head, 48, 0)
    entries = b"".join(
        name.encode("utf-16-le").ljust(64, b"\0") + struct.pack("<H", 2 * len(name) + 2) + bytes(62)
        for name in ("Root Entry", stream)
    )
    return bytes(head) + entries.ljust(512, b"\0")


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as file:
        for name, content in files.items():
            file.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, method)
    return target.getvalue()


def _nifti() -> bytes:
    head = bytearray(352)
    head[:4] = (348).to_bytes(4, "little")
    head[344:348] = b"n+1\0"
    return bytes(head)


KINDS: Mapping[FileKind, bytes] = {
    "checksums": b"d41d8cd98f00b204e9800998ecf8427e  DICOM/IM1\n" * 2,
    "thumbs-db": ole_file("Catalog"),
    "ds-store": b"\0\0\0\1Bud1\0\0\x10\0" + bytes(64),
    "apple-double": bytes.fromhex("00051607000200004d6163204f532058") + bytes(64),
    "windows-shortcut": bytes.fromhex("4c0000000114020000000000c000000000000046") + bytes(60),
    "text": b"Please send the images to the ward.\n",
    "html": b"<!DOCTYPE html>\n<html><body>Viewer</body></html>",
    "xml": b'<?xml version="1.0"?><study/>',
    "json": b'{"PatientName": "A"}\n',
    "hl7": b"MSH|^~\\&|LAB|H|EHR|H|202401011200||ORU^R01|1|P|2.5\rPID|1||X\r",
    "rtf": b"{\\rtf1\\ansi Report}",
    "pdf": b"%PDF-1.7\n%\xe2\xe3\n1 0 obj",
    "postscript": b"%!PS-Adobe-3.0\n",
    "office-document": ole_file("WordDocument"),
    "sqlite": b"SQLite format 3\0" + bytes(84),
    "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(40),
    "matlab": b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\1IM",
    "numpy": b"\x93NUMPY\1\0" + bytes(60),
    "parquet": b"PAR1" + bytes(20) + b"PAR1",
    "gif": b"GIF89a\1\0\1\0",
    "bmp": b"BM" + struct.pack("<IHHI", 58, 0, 0, 54) + struct.pack("<I", 40) + bytes(40),
    "webp": b"RIFF\x1a\0\0\0WEBPVP8L",
    "jpeg-2000": bytes.fromhex("0000000c6a5020200d0a870a") + bytes(20),
    "jpeg-xl": bytes.fromhex("0000000c4a584c200d0a870a") + bytes(20),
    "heif": b"\0\0\0\x18ftypheic\0\0\0\0",
    "svg": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "icon": bytes.fromhex("00000100010010100000010020006804000016000000") + bytes(40),
    "nifti": _nifti(),
    "nrrd": b"NRRD0004\ntype: short\n",
    "metaimage": b"ObjectType = Image\nNDims = 3\n",
    "mp4": b"\0\0\0\x18ftypmp42\0\0\0\0",
    "avi": b"RIFF\x1a\0\0\0AVI LIST",
    "mpeg": bytes.fromhex("000001ba44000400"),
    "matroska": bytes.fromhex("1a45dfa3a3428681") + bytes(20),
    "asf": bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"),
    "wav": b"RIFF\x1a\0\0\0WAVEfmt ",
    "mp3": b"ID3\4\0\0\0\0\0\x23",
    "ogg": b"OggS\0\2",
    "flac": b"fLaC\0\0\0\x22",
    "windows-program": b"MZ\x90\0\3\0\0\0" + bytes(120),
    "linux-program": b"\x7fELF\2\1\1" + bytes(60),
    "mac-program": bytes.fromhex("cffaedfe07000001"),
    "java-archive": zipped({"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\n"}),
    "script": b"#!/bin/sh\nexec viewer\n",
    "rar": b"Rar!\x1a\7\1\0",
    "cab": b"MSCF\0\0\0\0" + bytes(30),
    "unknown": bytes(range(128, 256)) + bytes(30),
}
"""One file of every kind that has content, except DICOMDIR."""
