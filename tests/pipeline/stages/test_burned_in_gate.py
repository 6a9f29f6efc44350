"""The report on text in pixels reflects what was read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from medsanitize.pipeline.stages.sanitize import burned_in_gate
from medsanitize.pipeline.stages.tally import Tally
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy


def policy(preset: str) -> Policy:
    text = (
        f"version: 1\npreset: {preset}\nrelease: {{name: a, version: '1', mode: pseudonymous}}\n"
        "inputs: [./in]\noutput: ./out\nstate: ./state\nkeys: {file: ./key}\n"
    )
    return loads(text, base=Path("/project"))


def test_the_gate_names_the_readers_with_their_versions() -> None:
    tally = Tally(regions=2)
    tally.checks["pixels"].update({"passed": 5})

    one = burned_in_gate(tally, clean_pixel_data=True).detail
    two = burned_in_gate(tally, clean_pixel_data=True, readers=("rapidocr", "tesseract")).detail

    assert re.fullmatch(r"5 objects were read for text by RapidOCR[ \d.]*, 2 areas blanked\.", one)
    assert re.search(r"by RapidOCR[ \d.]* and Tesseract[ \d.]*, 2 areas", two)


@pytest.mark.parametrize(
    ("preset", "read", "unread", "result"),
    [
        ("ps3.15-basic", 0, 3, "not_run"),
        ("research", 5, 0, "passed"),
        ("research", 5, 1, "flagged"),
    ],
)
def test_the_burned_in_text_gate(preset: str, read: int, unread: int, result: str) -> None:
    tally = Tally(regions=2)
    tally.checks["pixels"].update({"passed": read, "not_run": unread})

    assert (
        burned_in_gate(tally, clean_pixel_data=policy(preset).dicom.options.clean_pixel_data).result == result
    )
