"""What a DICOMDIR lists is read to its last byte, or the DICOMDIR counts as unreadable."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import Limits
from medsanitize.sanitize.dicom.dicomdir import listed_files
from medsanitize.sanitize.quarantine import Quarantined

from tests.helpers.hospital import real_file


@pytest.mark.parametrize("name", ["DICOMDIR", "DICOMDIR-bigEnd", "DICOMDIR-implicit", "DICOMDIR-reordered"])
def test_every_record_in_use_with_a_file_is_listed(name: str) -> None:
    data = real_file(f"dicomdirtests/{name}").read_bytes()

    assert len(listed_files(data, Limits())) == 31


def test_a_record_that_is_longer_than_the_file_is_unreadable() -> None:
    # Two elements were taken out of this file, and the lengths of its records were not changed.
    data = real_file("dicomdirtests/DICOMDIR-nooffset").read_bytes()

    with pytest.raises(Quarantined) as caught:
        listed_files(data, Limits())

    assert caught.value.rule == "length-past-end"


@pytest.mark.parametrize("name", ["DICOMDIR", "DICOMDIR-bigEnd", "DICOMDIR-implicit"])
def test_a_directory_cut_anywhere_is_read_or_unreadable(name: str) -> None:
    data = real_file(f"dicomdirtests/{name}").read_bytes()

    for end in range(len(data)):
        try:
            listed_files(data[:end], Limits())
        except Quarantined:
            continue
