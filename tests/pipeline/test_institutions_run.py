"""A run over institutions that are called like a manufacturer of devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.tables.vocabulary import device_models, manufacturers

from tests.helpers.hospital import prepare, write_ct

ONE = Options(workers=1)


def export(folder: Path, institution: str) -> None:
    """Two patients: the Institution Name of one is the Manufacturer of the other's device."""
    write_ct(
        folder / "export/1.dcm", 1, "P1", 1, InstitutionName=institution, Manufacturer="GE MEDICAL SYSTEMS"
    )
    write_ct(folder / "export/2.dcm", 2, "P2", 2, InstitutionName="St. Elsewhere", Manufacturer=institution)


@pytest.mark.parametrize("institution", ["Philips Healthcare", "SIEMENS  Healthineers"])
def test_an_institution_called_like_a_manufacturer_never_stops_a_release(
    tmp_path: Path, institution: str
) -> None:
    export(tmp_path, institution)

    assert run(prepare(tmp_path, preset="ps3.15-basic"), ONE).ending == "published"


def test_the_own_institution_is_released_in_no_object_of_its_patient(tmp_path: Path) -> None:
    name = "Philips Healthcare"
    write_ct(tmp_path / "export/1.dcm", 1, "P1", 1, InstitutionName=name, Manufacturer=name)
    policy = prepare(tmp_path, preset="ps3.15-basic")

    assert run(policy, ONE).ending == "published"

    assert isinstance(policy.output, Path)
    (file,) = policy.output.rglob("*.dcm")
    assert name.encode() not in file.read_bytes()


def test_manufacturers_are_no_models() -> None:
    assert "philips healthcare" in manufacturers()
    assert manufacturers() < device_models()
    assert "signa hdxt" not in manufacturers()
