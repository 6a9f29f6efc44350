"""The option for clean faces and the section that configures them must agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import PolicyError
from medsanitize.policies.load import loads

TEXT = """\
version: 1
preset: research
release: {name: heads, version: "1", mode: pseudonymous}
inputs: [./export]
output: ./release
state: ./state
keys: {file: ./release.key}
dicom:
  options:
    clean_recognizable_visual_features: true
"""


@pytest.mark.parametrize("faces", ["ignore", "flag"])
def test_cleaning_and_keeping_faces_is_a_contradiction(faces: str) -> None:
    with pytest.raises(PolicyError) as caught:
        loads(f"{TEXT}pixels: {{faces: {faces}}}\n", base=Path("/nowhere"))
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (10, 41)
    assert f"pixels.faces: {faces}" in problem.message


@pytest.mark.parametrize("faces", ["quarantine", "deface"])
def test_cleaning_faces_is_compatible_with_stricter_actions(faces: str) -> None:
    policy = loads(f"{TEXT}pixels: {{faces: {faces}}}\n", base=Path("/nowhere"))
    assert policy.pixels.faces == faces
