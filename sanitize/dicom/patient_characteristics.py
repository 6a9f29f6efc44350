"""Age, sex and body part that an object states, for the dataset card: coarse, and never in the release."""

from __future__ import annotations

import re
from datetime import date

from medsanitize.policies.dataset_card import OLDEST
from medsanitize.policies.tables.vocabulary import defined_terms
from medsanitize.sanitize.dicom.walk_state import WalkState

_STUDY_DATE, _BIRTH_DATE, _SEX, _AGE, _BODY_PART = 0x00080020, 0x00100030, 0x00100040, 0x00101010, 0x00180015
CHARACTERISTICS = (_STUDY_DATE, _BIRTH_DATE, _SEX, _AGE, _BODY_PART)
"""Attributes whose values are read."""
_PER_YEAR = {"D": 365.25, "W": 365.25 / 7, "M": 12.0, "Y": 1.0}


def patient_characteristics(walk: WalkState) -> tuple[int | None, str, str]:
    """Return age in years up to 90, sex and body part; None or empty where they are absent or malformed.

    Parameters
    ----------
    walk : WalkState
        Has captured the values of ``CHARACTERISTICS``.
    """
    part, sex = walk.text(_BODY_PART), walk.text(_SEX)
    return (
        age_in_years(walk.text(_AGE), walk.text(_BIRTH_DATE), walk.text(_STUDY_DATE)),
        sex if sex in ("F", "M", "O") else "",
        # Any other value could be free text.
        part if part in defined_terms().get(_BODY_PART, ()) else "",
    )


def age_in_years(age: str, birth: str, study: str) -> int | None:
    """Return the age in whole years, at most 90: Patient's Age, else from birth date and study date."""
    stated = years_of(age)
    if stated is not None:
        return min(stated, OLDEST)
    born, seen = _date(birth), _date(study)
    if born is None or seen is None or seen < born:
        return None
    years = seen.year - born.year - ((seen.month, seen.day) < (born.month, born.day))
    return min(years, OLDEST)


def years_of(age: str) -> int | None:
    """Return an age string (AS) in whole years; None if it is malformed."""
    stated = re.fullmatch(r"(\d{3})([DWMY])", age)
    return int(int(stated[1]) / _PER_YEAR[stated[2]]) if stated else None


def _date(text: str) -> date | None:
    if not re.fullmatch(r"\d{8}", text):
        return None
    try:
        return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return None
