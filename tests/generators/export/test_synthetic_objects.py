"""Synthetic images as objects: provenance, absence of PHI, and validity."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from medsanitize.generators.export.dicom import SOP_CLASSES, dicom_object
from medsanitize.generators.export.png import png_object, sidecar
from medsanitize.generators.export.provenance import (
    SyntheticIdentifiers,
    SyntheticProvenance,
    seed_of,
    synthetic_identifiers,
)
from medsanitize.policies.model import Pseudonyms
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.verifiers.leaks.dicom_conformance import Expected
from medsanitize.verifiers.leaks.dicom_reader import read
from medsanitize.verifiers.leaks.identifier_search import build_identifier_search
from medsanitize.verifiers.leaks.raster_files import audit_raster
from medsanitize.verifiers.leaks.scan_object import audit_parsed
from PIL import Image
from pydicom import dcmread

KEYS = derive_sub_keys(bytes(range(64)), scope="release:test")
MODEL = "a" * 64
SAID = SyntheticProvenance("effusion", MODEL, "passed", 0.00099, "1.0")
FORMS = sorted(SOP_CLASSES)


def square(size: int = 33) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.random.default_rng(5).integers(0, 256, (size, size), dtype=np.uint8)


def names(seed: int = 3, form: str = "cr") -> SyntheticIdentifiers:
    return synthetic_identifiers(KEYS, Pseudonyms(), form, model=MODEL, label=0, seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [32, 33])
def test_pydicom_reads_the_image_back(form: str, size: int) -> None:
    found = dcmread(BytesIO(dicom_object(square(size), names(), SAID, form)))
    assert np.array_equal(found.pixel_array, square(size))
    assert found.SOPClassUID == SOP_CLASSES[form]


@pytest.mark.parametrize("form", FORMS)
def test_the_bytes_do_not_depend_on_the_clock(form: str) -> None:
    first = dicom_object(square(), names(), SAID, form)
    time.sleep(1.1)
    assert dicom_object(square(), names(), SAID, form) == first


@pytest.mark.parametrize("form", FORMS)
def test_the_object_states_that_it_is_synthetic_and_its_model(form: str) -> None:
    found = dcmread(BytesIO(dicom_object(square(), names(), SAID, form)))
    algorithm = found.DerivationAlgorithmSequence[0]
    equipment = found.ContributingEquipmentSequence[0]
    assert found.SyntheticData == "YES"
    assert found.ImageType[0] == "DERIVED"
    assert "Synthetic" in found.DerivationDescription
    assert algorithm.AlgorithmFamilyCodeSequence[0].CodeValue == "123110"
    assert all(part in algorithm.AlgorithmParameters for part in (MODEL, "passed", "0.00099"))
    assert equipment.PurposeOfReferenceCodeSequence[0].CodeMeaning == "Synthesizing Equipment"
    assert found.ImageComments.endswith("effusion")


@pytest.mark.parametrize("form", FORMS)
def test_the_object_contains_no_patient_and_no_date(form: str) -> None:
    found = dcmread(BytesIO(dicom_object(square(), names(), SAID, form)))
    dated = [element for element in found.iterall() if element.VR in ("DA", "TM", "DT", "AS")]
    assert not any(element.value for element in dated)
    assert found.PatientID == found.PatientName == names().patient
    assert not any(found.get(one) for one in ("PatientSex", "AccessionNumber", "StudyID", "StudyDescription"))


@pytest.mark.parametrize("form", FORMS)
def test_the_release_audit_finds_nothing(form: str) -> None:
    data = dicom_object(square(), names(), SAID, form)
    expected = Expected(sha256=sha256(data).hexdigest(), pseudonym=names().patient)
    assert audit_parsed(read(data), own=(), search=build_identifier_search(()), expected=expected) == ()


@pytest.mark.system
@pytest.mark.skipif(shutil.which("dciodvfy") is None, reason="dciodvfy is not installed")
@pytest.mark.parametrize("form", FORMS)
def test_dciodvfy_finds_no_error(form: str, tmp_path: Path) -> None:
    path = tmp_path / "object.dcm"
    path.write_bytes(dicom_object(square(), names(), SAID, form))
    told = subprocess.run(["dciodvfy", path], capture_output=True, text=True, check=False)
    errors = [line for line in (told.stderr + told.stdout).splitlines() if line.startswith("Error")]
    # Synthetic Data was added to the standard in 2023, after the attribute lists of older dciodvfy versions.
    assert [line for line in errors if "(0x0008,0x001c)" not in line] == []


def test_identifiers_derive_from_model_class_seed_and_key() -> None:
    other = synthetic_identifiers(
        derive_sub_keys(bytes(64), scope="x"), Pseudonyms(), "cr", model=MODEL, label=0, seed=3
    )
    assert names() == names()
    assert len({names().patient, names(4).patient, other.patient}) == 3
    assert len({names().study, names().series, names().instance}) == 3


def test_seeds_are_in_the_range_of_the_generator() -> None:
    seeds = [seed_of(KEYS, MODEL, 0, number) for number in range(100)]
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_png_contains_only_pixels(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(png_object(square()))
    with Image.open(path) as image:
        assert np.array_equal(np.asarray(image), square())
    assert audit_raster(path, search=build_identifier_search(())) == ()


def test_the_sidecar_describes_the_picture() -> None:
    facts = json.loads(sidecar(SAID))
    assert facts["synthetic"] is True
    assert (facts["class"], facts["gate"], facts["model_sha256"]) == ("effusion", "passed", MODEL)
