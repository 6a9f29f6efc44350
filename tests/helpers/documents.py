"""Code blocks of the manual, and policies built from fragments."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
WHOLE_POLICY = """\
version: 1
preset: research
release: {name: chest-ct, version: "1.0", mode: pseudonymous}
inputs: [./export]
output: ./release
state: ./state
keys: {file: ./release.key}
"""


def code_blocks(page: Path, language: str) -> list[str]:
    """Fenced blocks of a language, except those marked as invalid on purpose."""
    found = re.findall(
        rf"(<!-- broken -->\n)?^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M
    )
    return [text for broken, text in found if not broken]


def merge_policies(fragment: str, whole: str = WHOLE_POLICY) -> str:
    """A complete policy with the sections of a fragment replaced."""
    sections: dict[str, str] = {}
    for text in (whole, fragment):
        for part in re.findall(r"^\w+:.*\n(?:^[ #-].*\n)*", text, re.M):
            sections[part.partition(":")[0]] = part
    return "".join(sections.values())
