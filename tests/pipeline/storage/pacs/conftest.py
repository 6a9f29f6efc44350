"""An archive for the tests of a module, and a small hospital in it and on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pydicom
import pytest
from medsanitize.pipeline.storage.open_store import reader_of
from medsanitize.pipeline.storage.pacs.reader import PacsReader
from medsanitize.pipeline.storage.sources import address_of
from medsanitize.policies.model import Policy

from tests.helpers.hospital import prepare, real_file, write_ct
from tests.helpers.orthanc import INSTALLED, LOGIN, VARIABLE, Orthanc

STUDY = 0x0020000D
PADDING = 0xFFFCFFFC
# One object of each transfer syntax in pydicom's wheel, and objects without pixels.
REAL = (
    "693_J2KI.dcm",
    "ExplVR_BigEnd.dcm",
    "GDCMJ2K_TextGBR.dcm",
    "JPEG2000.dcm",
    "JPGExtended.dcm",
    "MR_small_jpeg_ls_lossless.dcm",
    "SC_jpeg_no_color_transform.dcm",
    "SC_rgb_rle.dcm",
    "image_dfl.dcm",
    "reportsi.dcm",
    "rtdose.dcm",
    "rtplan.dcm",
    "waveform_ecg.dcm",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "archive" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.system)
            if not INSTALLED:
                item.add_marker(pytest.mark.skip(reason="Orthanc is not installed"))


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four studies of three CT slices, and one object of each transfer syntax."""
    root = tmp_path_factory.mktemp("pacs") / "export"
    for number in range(12):
        study = number % 4
        accession = {"AccessionNumber": f"ACCESSION{study}", "StudyDate": f"2020010{study + 1}"}
        write_ct(root / f"ct{number:02d}.dcm", number, f"P{study}", study, **accession)
    for name in REAL:
        shutil.copy(real_file(name), root / name)
    for path in root.iterdir():
        whole = pydicom.dcmread(path)
        if whole.pop(PADDING, None) is not None:  # archives do not send it, so only the disk would count it
            whole.save_as(path)
    return root


@pytest.fixture(scope="session")
def everything(hospital: Path) -> str:
    """Input settings that select every study of the hospital."""
    studies = {
        str(pydicom.dcmread(one, specific_tags=[STUDY]).StudyInstanceUID) for one in hospital.iterdir()
    }
    path = hospital.parent / "everything.csv"
    path.write_text("StudyInstanceUID\n" + "".join(f"{one}\n" for one in sorted(studies)))
    return f"worklist: {path}"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, hospital: Path) -> Iterator[Orthanc]:
    """An Orthanc with the objects of the hospital."""
    one = Orthanc(tmp_path_factory.mktemp("orthanc"))
    one.start()
    try:
        one.put(sorted(hospital.iterdir()))
        yield one
    finally:
        one.kill()


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, LOGIN)


@pytest.fixture
def reads(tmp_path: Path, archive: Orthanc) -> Iterator[Callable[..., Policy]]:
    """Make a policy that reads the archive by one protocol: web, get or move."""
    made: list[Policy] = []

    def make(way: str, wanted: str, **sections: str) -> Policy:
        peer = f"dimse: {archive.peer}"
        source = {
            "web": f"dicomweb: {archive.web}, login: {VARIABLE}",
            "get": peer,
            "move": f"{peer}, retrieve: move, port: {archive.move_port}",
        }[way]
        # Validation reads sources in processes that may have an earlier environment, without the login.
        own = {"inputs": f"[{{{source}, {wanted}}}]", "validation": "'off'", **sections}
        made.append(prepare(tmp_path / way, **own))
        return made[-1]

    yield make
    for policy in made:
        close(policy)


def close(policy: Policy) -> None:
    """Close the connections of this process to an archive."""
    kept = reader_of(address_of(policy.inputs[0]))
    assert isinstance(kept, PacsReader)
    kept.peer.close()
