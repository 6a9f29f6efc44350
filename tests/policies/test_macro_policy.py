"""Policy settings for the macro image of a slide."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import PolicyError
from medsanitize.policies.dump import dumps
from medsanitize.policies.load import PRESETS, loads
from medsanitize.policies.model import KeptMacro, Policy

HEAD = """\
version: 1
preset: {preset}
release: {{name: glass, version: "1", mode: pseudonymous}}
inputs: [./export]
output: ./release
state: ./state
keys: {{file: ./release.key}}
"""


def policy(macro: str = "", preset: str = "ps3.15-basic") -> Policy:
    rest = f"wsi: {{macro: {macro}}}\n" if macro else ""
    return loads(HEAD.format(preset=preset) + rest, base=Path("/project"))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_drops_the_macro(preset: str) -> None:
    assert policy(preset=preset).wsi.macro == "drop"


def test_a_macro_region_is_kept_and_round_trips() -> None:
    loaded = policy("{keep: [0.3, 0, 1, 1]}")

    assert loaded.wsi.macro == KeptMacro(keep=(0.3, 0, 1, 1))
    assert loads(dumps(loaded), base=Path("/project")) == loaded


@pytest.mark.parametrize(
    ("macro", "said"),
    [
        ("keep", "Write drop, or {keep: "),
        ("{keep: [0, 0, 1, 1]}", "the whole macro image"),
        ("{keep: [0.3, 0, 0.2, 1]}", "is an empty area"),
        ("{keep: [0.3, 0, 1]}", "'wsi.macro.keep.4' is missing"),
        ("{keep: [0.3, 0, 1, 1, 1]}", "Name fewer"),
        ("{keep: [0.3, 0, 1, 2]}", "less than or equal to 1"),
        ("{keep: [left, 0, 1, 1]}", "Write a number"),
        ("{kept: [0.3, 0, 1, 1]}", "Did you mean 'keep'?"),
    ],
)
def test_an_invalid_macro_region_is_reported_once_with_its_location(macro: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said.replace("{", "\\{")) as caught:
        policy(macro)

    assert {problem.line for problem in caught.value.problems} == {8}
