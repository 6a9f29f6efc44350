"""Pictures and DICOM objects in one run: detected, cleaned, audited, compared, listed separately."""

from __future__ import annotations

import json
import shutil
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from medsanitize.pipeline.plan import plan
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.policies.model import Policy
from medsanitize.release.manifest import ObjectRow, read_rows
from medsanitize.release.verify import verify_release
from medsanitize.sanitize.result import CheckResult
from medsanitize.verifiers.leaks.audit import audit_release
from medsanitize.verifiers.leaks.pixel_digest import pixel_digest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.helpers.hospital import CANARIES, prepare, write_ct

ONE = Options(workers=1)
NAME, NUMBER = CANARIES[:2]


def fill(root: Path) -> None:
    """One CT; one picture as PNG, again as PNG and as TIFF; a JPEG; slides; a damaged PNG."""
    shutil.rmtree(root, ignore_errors=True)
    write_ct(root / "ct.dcm", 1)
    y, x = np.mgrid[0:50, 0:64]
    image = Image.fromarray(np.stack([x * 3, y * 4, x + y], axis=2).astype(np.uint8))
    texts = PngInfo()
    texts.add_text("Author", f"{NAME}^A {NUMBER}")
    image.save(root / "screenshot.dcm", "PNG", pnginfo=texts)
    shutil.copy(root / "screenshot.dcm", root / "again")
    image.save(root / "scan", "TIFF", tiffinfo={270: f"{NAME} {NUMBER}"})
    image.save(root / "photo.png", "JPEG", comment=NUMBER.encode())
    stream = BytesIO()
    image.save(stream, "TIFF", tiffinfo={270: f"Aperio Image Library {NAME}"})
    (root / "slide.jpg").write_bytes(stream.getvalue())
    shutil.copy(root / "photo.png", root / "case.mrxs")
    shutil.copy(root / "photo.png", root / "case_label.jpg")
    (root / "broken").write_bytes((root / "screenshot.dcm").read_bytes()[:150])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, RunResult]:
    base = tmp_path_factory.mktemp("pictures")
    policy = prepare(base, raster="{action: clean}")
    fill(policy.inputs[0])
    return policy, run(policy, ONE)


def pictures(policy: Policy) -> dict[str, ObjectRow]:
    rows = [row for row in read_rows(policy.output) if row.kind == "raster"]
    return {Path(row.path).suffix: row for row in rows}


def test_every_picture_has_an_outcome_and_the_release_is_intact(ran: tuple[Policy, RunResult]) -> None:
    policy, result = ran
    assert result.outcomes == {"released": 4, "dropped": 1, "quarantined": 4}
    assert result.dropped == {"duplicate-bytes": 1}
    slides = {"slide-file-missing": 1, "slide-not-supported": 1, "slide-without-levels": 1}
    assert result.quarantined == {"png-truncated": 1, **slides}
    assert (result.ending, verify_release(policy.output, key=None).status) == ("published", "intact")
    assert audit_release(policy.output).findings == ()


def test_each_picture_is_its_own_patient_without_a_study(ran: tuple[Policy, RunResult]) -> None:
    rows = pictures(ran[0])
    assert set(rows) == {".png", ".jpg", ".tif"}
    assert len({row.patient for row in rows.values()}) == 3
    for suffix, row in rows.items():
        assert row.path == f"data/{row.patient}/+none/+none/{row.instance}{suffix}"
        assert (row.rows, row.columns, row.frames, row.modality) == (50, 64, 1, "")
        assert (row.check_pixels, row.check_identifiers) == (CheckResult.NOT_RUN, CheckResult.PASSED)


def test_equal_pixels_in_two_formats_are_flagged(ran: tuple[Policy, RunResult]) -> None:
    rows = pictures(ran[0])
    assert rows[".png"].pixels_sha256 == rows[".tif"].pixels_sha256 is not None
    checks = [rows[suffix].check_duplicates for suffix in (".png", ".tif", ".jpg")]
    assert checks == [CheckResult.FLAGGED, CheckResult.FLAGGED, CheckResult.PASSED]


def test_no_planted_identifier_remains(ran: tuple[Policy, RunResult]) -> None:
    for root in (ran[0].output, ran[0].state):
        for path in root.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            assert not any(canary.encode() in content for canary in CANARIES), path.name


def test_the_evidence_counts_pictures_separately(ran: tuple[Policy, RunResult]) -> None:
    report = (ran[0].output / "report.html").read_text("utf-8")
    croissant = json.loads((ran[0].output / "croissant.json").read_text("utf-8"))
    formats = {one["encodingFormat"] for one in croissant["distribution"]}
    assert "PNG, JPEG and TIFF images" in report
    assert {"application/dicom", "image/png", "image/jpeg", "image/tiff"} <= formats


def test_the_audit_detects_a_changed_picture(ran: tuple[Policy, RunResult], tmp_path: Path) -> None:
    copy = shutil.copytree(ran[0].output, tmp_path / "copy")
    path = copy / pictures(ran[0])[".png"].path
    path.write_bytes(path.read_bytes() + b"more")
    rules = {finding.rule for _, finding in audit_release(copy).findings}
    assert rules == {"audit:structure", "audit:digest", "audit:size"}


def test_a_run_is_deterministic(ran: tuple[Policy, RunResult], tmp_path: Path) -> None:
    policy, first = ran
    other = policy.model_copy(update={"output": tmp_path / "out2", "state": tmp_path / "state2"})
    assert run(other, Options(workers=2)).digest == first.digest


@pytest.mark.parametrize(("action", "outcome"), [("drop", "dropped"), ("quarantine", "quarantined")])
def test_a_policy_can_exclude_pictures(tmp_path: Path, action: str, outcome: str) -> None:
    policy = prepare(tmp_path, raster=f"{{action: {action}}}")
    fill(policy.inputs[0])
    result = plan(policy, ONE)
    assert getattr(result, outcome)["raster-image"] == 6
    assert (result.quarantined["slide-without-levels"], result.quarantined["slide-file-missing"]) == (1, 1)
    assert result.outcomes["released"] == 1


def test_a_gray_picture_has_the_digest_of_the_same_dicom_pixels(tmp_path: Path) -> None:
    import pydicom
    from medsanitize.verifiers.leaks.raster_files import raster_digest

    data = pydicom.dcmread(write_ct(tmp_path / "ct.dcm", 1))
    pixels = (np.arange(64 * 48, dtype=np.uint16) % 251).astype(np.uint8).reshape(48, 64)
    data.Rows, data.Columns, data.PixelData = 48, 64, pixels.tobytes()
    data.BitsAllocated = data.BitsStored = 8
    data.HighBit, data.PixelRepresentation = 7, 0
    data.save_as(tmp_path / "ct.dcm")
    Image.fromarray(pixels).save(tmp_path / "same.png")
    assert raster_digest(tmp_path / "same.png") == pixel_digest(tmp_path / "ct.dcm") is not None
