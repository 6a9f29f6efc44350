"""Write docs/conformance.md from tables and the register of requirements: `python docs/conformance.py`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from medsanitize.policies.load import PRESETS, loads
from medsanitize.policies.model import OPTION_CODES
from medsanitize.policies.tables.requirements import requirements
from medsanitize.policies.tables.standard import edition
from medsanitize.release.conformance import attribute_sections, requirement_table, treatment_of
from medsanitize.release.summary import Treatment

PAGE = Path(__file__).parent / "conformance.md"
_HEAD = f"""\
# DICOM conformance statement

This page is generated from the tables and the register of requirements: `python docs/conformance.py`.

It is the part of a DICOM Conformance Statement (PS3.2) that PS3.15 E.1.3 asks for, by DICOM PS3.15
{edition()}, with the attributes of the Basic Profile and the manner of each option. Each release contains
the statement of its own policy, with the options that were applied: `conformance.md`, which
`medsanitize conformance RELEASE` prints.
"""
_REGISTER = """
## Requirements of Annex E

Each "shall" of Annex E, and what binds without this word, by section and paragraph (counted in edition
2025e), with the tests that hold the answer (below `tests/`). {counts}.

"""


def page() -> str:
    """The whole page."""
    # Rows as in the standard; the manner of options is shown as if they were on.
    on = ("retain_longitudinal_modified_dates", "retain_safe_private")
    shown_treatment = replace(_treatment("ps3.15-basic"), enabled=on, texts="clean")
    sections = attribute_sections(shown_treatment, frozenset())
    # Of the options, the page shows each preset; the register follows with its tests.
    shown = [part for part in sections if part.title not in ("Options", "Requirements of Annex E")]
    body = "".join(f"\n## {part.title}\n\n" + "\n".join(part.lines) + "\n" for part in shown)
    answers = [one.answer for one in requirements()]
    counts = ", ".join(f"{answers.count(one)} {one}" for one in ("met", "not applicable", "not met"))
    register = _REGISTER.format(counts=counts.capitalize()) + "\n".join(requirement_table(tests=True)) + "\n"
    return _HEAD + "\n## Options\n\n" + _presets() + body + register


def _presets() -> str:
    rows = ["| code | option | supported | " + " | ".join(f"`{name}`" for name in PRESETS) + " |"]
    rows.append("|---|---|---|" + "---|" * len(PRESETS))
    enabled = {preset: _treatment(preset).enabled for preset in PRESETS}
    for name, (code, meaning) in OPTION_CODES.items():
        used = " | ".join("yes" if name in enabled[preset] else "no" for preset in PRESETS)
        rows.append(f"| {code} | {meaning} | yes | {used} |")
    return "\n".join(rows) + "\n"


def _treatment(preset: str) -> Treatment:
    content = {
        "version": 1,
        "preset": preset,
        "release": {"name": "a", "version": "1", "mode": "pseudonymous"},
        **{"inputs": ["./i"], "output": "./o", "state": "./s", "keys": {"file": "./k"}},
    }
    return treatment_of(loads(json.dumps(content), base=Path("/project")))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
