"""Age in years from what headers state."""

from __future__ import annotations

import pytest
from medsanitize.sanitize.dicom.patient_characteristics import age_in_years


@pytest.mark.parametrize(
    ("age", "birth", "study", "years"),
    [
        ("045Y", "", "", 45),
        ("094Y", "", "", 90),
        ("018M", "", "", 1),
        ("051W", "", "", 0),
        ("400D", "", "", 1),
        ("045Y", "20000101", "20200101", 45),
        ("", "20000229", "20210228", 20),
        ("", "20000229", "20210301", 21),
        ("", "19000101", "20200101", 90),
        ("45", "19750101", "20200101", 45),
        ("", "20210101", "20200101", None),
        ("", "20000230", "20200101", None),
        ("", "2000", "20200101", None),
        ("", "", "", None),
    ],
)
def test_age_in_years(age: str, birth: str, study: str, years: int | None) -> None:
    assert age_in_years(age, birth, study) == years
