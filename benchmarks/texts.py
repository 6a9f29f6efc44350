"""Utility and leaks of cleaned texts in twelve languages.

    python benchmarks/texts.py [--texts FOLDER] [--half tune|report] [--show]

Each file of benchmarks/texts has one text per line, with identifiers in braces. Prints, for every language,
how many words outside the braces are kept and how many identifiers are not removed completely. No identifiers
are known in advance: there is no header with a name. Exits 1 at a leak, or if fewer words are kept than the
bar. benchmarks/texts_context has places that identify by their context: employers, schools, ships, clubs,
wards, beds, rooms, weekdays and accreditation numbers. --half divides the texts by their digest: rules are
written with one half and reported on the other.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common import table
from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.vocabulary import cues, fold
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

# Percent of the words that identify no person.
BAR = 99.5
_PLANTED = re.compile(r"\{([^}]*)\}")
_WORD = re.compile(r"[^\W_]+")
_HARMLESS = frozenset("van von der den de da la le uhr uur no".split())


def main(arguments: Sequence[str] | None = None) -> int:
    """Clean, count, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, default=Path(__file__).parent / "texts")
    parser.add_argument("--half", choices=("tune", "report"), help="use one half of the texts")
    parser.add_argument("--show", action="store_true", help="print each text that lost a word or leaks")
    given = parser.parse_args(arguments)
    cleaner, nobody = TextCleaner(TextSection(action="clean")), compile_terms([])
    rows, good = [], True
    for path in sorted(given.texts.glob("*.txt")):
        words = kept = planted = leaks = texts = 0
        start = time.process_time()
        for line in path.read_text(encoding="utf-8").splitlines():
            if given.half and half(line) != given.half:
                continue
            cleaned = cleaner.clean(_PLANTED.sub(lambda match: match[1], line), nobody).text
            lost, left = judged(line, cleaned)
            texts, planted = texts + 1, planted + len(_PLANTED.findall(line))
            said = len(_WORD.findall(_PLANTED.sub(" ", line)))
            words, kept, leaks = words + said, kept + said - len(lost), leaks + len(left)
            if given.show and (lost or left):
                print(f"{path.stem}: {line}\n    {cleaned}\n    lost {lost} LEFT {left}")
        share = 100 * kept / words
        good = good and not leaks and share >= BAR
        each = 1000 * (time.process_time() - start) / texts
        rows.append((path.stem, texts, words, f"{share:.2f}", planted, leaks, f"{each:.1f}"))
    print(table(("language", "texts", "words", "kept, %", "identifiers", "leaks", "CPU ms a text"), rows))
    return 0 if good else 1


def half(line: str) -> str:
    """Half of the texts that a line belongs to, by its digest."""
    return "report" if hashlib.sha256(line.encode()).digest()[0] % 2 else "tune"


def judged(line: str, cleaned: str) -> tuple[list[str], list[str]]:
    """Removed words outside the braces, and identifiers of which a word or number remains."""
    left = [fold(word) for word in _WORD.findall(cleaned)]
    lost = []
    for word in _WORD.findall(_PLANTED.sub(" ", line)):
        if fold(word) in left:
            left.remove(fold(word))
        else:
            lost.append(word)
    harmless = _HARMLESS | cues()["title"] | cues()["institution"] | cues()["relation"]
    planted = [
        one
        for one in _PLANTED.findall(line)
        if any(fold(word) in left and fold(word) not in harmless for word in _WORD.findall(one))
    ]
    return lost, planted


if __name__ == "__main__":
    sys.exit(main())
