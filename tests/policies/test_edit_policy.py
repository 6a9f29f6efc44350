"""One more rule in the text of a policy: every other line stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import UsageError
from medsanitize.policies.edit_policy import with_attribute_action
from medsanitize.policies.template import policy_template

BASE = Path("/p")
PLAIN = policy_template("research", "ct")


@pytest.mark.parametrize(
    "section",
    [
        "",
        "dicom:\n  options:\n    clean_graphics: false # why\n",
        "dicom: # ours\n  # a comment\n  attributes:\n    # another\n    ImageComments: X # why\n",
        'dicom:\n    attributes:\n        "(0008,1030)": Z # why\n',
        "dicom:\n  attributes:\n    StudyDescription: C\n    ImageComments: X\n",
        "dicom:\n  attributes:\n    ImageComments: X",
        "dicom: {options: {clean_graphics: false}} # why\n",
        "dicom: {attributes: {ImageComments: X, '(0008,1030)': 'Z'}}\n",
        "dicom: {attributes: {ImageComments: X}}\n",
        "dicom:\n  attributes: {ImageComments: X}\n",
    ],
)
def test_a_rule_is_added_and_all_other_lines_stay(section: str) -> None:
    text = PLAIN + section
    changed, policy = with_attribute_action(text, "StudyDescription", "X", base=BASE)
    assert policy.dicom.attributes["00081030"] == "X"
    if "{" not in section:
        gone = set(text.splitlines()) - set(changed.splitlines())
        assert all("StudyDescription" in line or "1030" in line for line in gone)
    assert ("# why" in section) == ("# why" in changed)
    again, _ = with_attribute_action(changed, "(0008,1030)", "X", base=BASE)
    assert again == changed


def test_a_section_that_cannot_be_extended_is_left_to_a_person() -> None:
    with pytest.raises(UsageError, match="cannot be extended"):
        with_attribute_action(PLAIN + "dicom: {}\n", "StudyDescription", "X", base=BASE)
