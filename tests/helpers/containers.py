"""Archives and disk images with given files."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

TREE: dict[str, bytes] = {
    "DICOMDIR": b"list",
    "DICOM/IM1": bytes(range(256)) * 20,
    "DICOM/IM2": b"2" * 5000,
    "REPORT/note.txt": b"note",
    "empty": b"",
}


def tarred(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", errors="surrogateescape") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def seven_zip(files: Mapping[str, bytes], password: str | None = None, *, hidden: bool = False) -> bytes:
    from py7zr import SevenZipFile

    target = io.BytesIO()
    with SevenZipFile(target, "w", password=password, header_encryption=hidden) as archive:
        for name, content in files.items():
            archive.writestr(content, name)
    return target.getvalue()


def disk_image(
    files: Mapping[str, bytes], *, joliet: bool = False, rock_ridge: bool = False, udf: bool = False
) -> bytes:
    """An image of a disk; names of ISO 9660 itself are made upper case and short."""
    from pycdlib import PyCdlib

    image = PyCdlib()
    image.new(
        interchange_level=3,
        joliet=3 if joliet else None,
        rock_ridge="1.09" if rock_ridge else None,
        udf="2.60" if udf else None,
    )
    folders = {name.rpartition("/")[0] for name in files} - {""}
    for folder in sorted(folders):
        image.add_directory(f"/{folder.upper()}", **_others(f"/{folder}", joliet, rock_ridge, udf))
    for name, content in files.items():
        base = name.upper() + ("" if "." in name else ".")
        image.add_fp(
            io.BytesIO(content), len(content), f"/{base};1", **_others(f"/{name}", joliet, rock_ridge, udf)
        )
    target = io.BytesIO()
    image.write_fp(target)
    image.close()
    return target.getvalue()


def _others(path: str, joliet: bool, rock_ridge: bool, udf: bool) -> dict[str, str]:
    names = {
        "joliet_path": (joliet, path),
        "rr_name": (rock_ridge, path.rpartition("/")[2]),
        "udf_path": (udf, path),
    }
    return {name: value for name, (wanted, value) in names.items() if wanted}
