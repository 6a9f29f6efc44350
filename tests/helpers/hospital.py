"""A small hospital export made from pydicom's test files, and policies for it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pydicom
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy
from pydicom.data import get_testdata_file
from pydicom.uid import generate_uid

KEY = bytes(range(7, 71))
CANARIES = ("QUIXLEYVANE", "MRN7734190", "ACC5519028", "Zyphora General")


def real_file(name: str) -> Path:
    found = get_testdata_file(name, download=False)
    assert found is not None
    return Path(str(found))


def write_ct(path: Path, number: int, patient: str = CANARIES[1], study: int = 1, **changes: object) -> Path:
    """Write a CT slice with individual pixels and UIDs and planted identifiers."""
    data = pydicom.dcmread(real_file("CT_small.dcm"))
    data.PatientName = f"{CANARIES[0]}^A"
    data.PatientID = patient
    data.AccessionNumber = CANARIES[2]
    data.InstitutionName = CANARIES[3]
    data.StudyInstanceUID = generate_uid(entropy_srcs=["study", str(study)])
    data.SeriesInstanceUID = generate_uid(entropy_srcs=["series", str(study)])
    data.SOPInstanceUID = generate_uid(entropy_srcs=["object", str(number)])
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
    data.PixelData = number.to_bytes(2, "little") + data.PixelData[2:]
    for keyword, value in changes.items():
        setattr(data, keyword, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path)
    return path


def make_export(root: Path, objects: int = 12) -> Path:
    """Three patients, a duplicate, a truncated file, and a file that is no image."""
    for number in range(objects):
        write_ct(root / f"p{number % 3}" / f"i{number:04d}", number, f"{CANARIES[1]}{number % 3}", number % 3)
    for number, name in enumerate(("MR_small.dcm", "rtplan.dcm", "waveform_ecg.dcm")):
        shutil.copy(real_file(name), root / f"real{number}.dcm")
    shutil.copy(root / "p0" / "i0000", root / "again")
    whole = write_ct(root / "cut.dcm", 9000, "CUT-PATIENT", 77)
    whole.write_bytes(whole.read_bytes()[:-1000])
    (root / "README.txt").write_text(f"made for {CANARIES[0]}")
    (root / "nothing").write_bytes(b"")
    shutil.copy(real_file("dicomdirtests/DICOMDIR"), root / "DICOMDIR")
    return root


def policy_text(**sections: str) -> str:
    lines = {
        "version": "1",
        "preset": "ps3.15-basic",
        "release": '{name: chest-ct, version: "1.0", mode: pseudonymous}',
        "inputs": "[./export]",
        "output": "./release",
        "state": "./state",
        "keys": "{file: ./release.key}",
        **sections,
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def prepare(base: Path, **sections: str) -> Policy:
    """Write key and policy into ``base`` and load the policy."""
    base.mkdir(parents=True, exist_ok=True)
    key = base / "release.key"
    if not key.exists():
        key.write_text(KEY.hex())
        key.chmod(0o600)
    text = policy_text(**sections)
    (base / "policy.yaml").write_text(text)
    return loads(text, base=base)


def tree(root: Path) -> dict[str, str]:
    """Every path below ``root`` with mode, time and digest."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(root))] = f"{status.st_mode:o} {status.st_mtime_ns} {digest}"
    return found
