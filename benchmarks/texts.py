"""Utility and leaks of cleaned texts in twenty-one languages.

    python benchmarks/texts.py [--texts FOLDER] [--languages CODES] [--half tune|report] [--show]

Each file of benchmarks/texts has one text per line, with identifiers in braces. Prints, for every language,
how many words outside the braces are kept and how many identifiers are not removed completely. No identifiers
are known in advance: there is no header with a name. In Chinese, Japanese
and Thai, characters are counted instead of words. Exits 1 at a leak, or if fewer words are kept than the
bar. benchmarks/texts_context has places that identify by their context: employers, schools, ships, clubs,
wards, beds, rooms, weekdays and accreditation numbers; benchmarks/texts_reports has whole reports in
English, Dutch and Spanish; benchmarks/texts_scripts, texts_scripts_2 and texts_scripts_3 have texts in
other scripts than Latin, written after the vocabularies; benchmarks/texts_departments has texts of 19
languages as departments write them, written before any rule was looked at; benchmarks/texts_wards has
texts of wards and clinics in twelve languages, benchmarks/texts_reports_2 reports with scores and
abbreviations in fifteen, and benchmarks/texts_letters letters and descriptions of series in 25, all written
before any of them was cleaned. Lower-case words are those of at least four letters. --half divides the texts
by their digest: rules are written with one half and reported on the other.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from common import table
from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.script_words import fold_script, script_cues
from medsanitize.policies.tables.vocabulary import cues, fold
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms
from medsanitize.sanitize.text.scripts.characters import WORD

# Percent of the words that identify no person.
BAR = 99.5
SCRIPT_BAR = 90.0
"""Bar of languages in other scripts than Latin."""
SCRIPTS = ("ar", "el", "he", "hi", "ja", "ko", "ru", "th", "zh")
_SMALL_LETTERS = 4
UNSPACED = ("ja", "th", "zh")
_PLANTED = re.compile(r"\{([^}]*)\}")
_HARMLESS = frozenset("van von der den de da la le uhr uur no".split())


def main(arguments: Sequence[str] | None = None) -> int:
    """Clean, count, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, default=Path(__file__).parent / "texts")
    parser.add_argument("--languages", nargs="*", help="only these, for example ru el")
    parser.add_argument("--half", choices=("tune", "report"), help="use one half of the texts")
    parser.add_argument("--show", action="store_true", help="print each text that lost a word or leaks")
    given = parser.parse_args(arguments)
    cleaner, nobody = TextCleaner(TextSection(action="clean")), compile_terms([])
    rows, good = [], True
    for path in sorted(given.texts.glob("*.txt")):
        if given.languages and path.stem not in given.languages:
            continue
        words = kept = planted = leaks = texts = small = small_kept = 0
        judge = judged_characters if path.stem in UNSPACED else judged
        start = time.process_time()
        for line in path.read_text(encoding="utf-8").splitlines():
            if given.half and half(line) != given.half:
                continue
            cleaned = cleaner.clean(_PLANTED.sub(lambda match: match[1], line), nobody).text
            lost, left, said = judge(line, cleaned)
            texts, planted = texts + 1, planted + len(_PLANTED.findall(line))
            words, kept, leaks = words + said, kept + said - len(lost), leaks + len(left)
            said_small = small_words(split(_PLANTED.sub(" ", line)))
            small, small_kept = small + said_small, small_kept + said_small - small_words(lost)
            if given.show and (lost or left):
                print(f"{path.stem}: {line}\n    {cleaned}\n    lost {lost} LEFT {left}")
        share = 100 * kept / words
        good = good and not leaks and share >= (SCRIPT_BAR if path.stem in SCRIPTS else BAR)
        each = 1000 * (time.process_time() - start) / texts
        lower = f"{100 * small_kept / small:.2f}" if small else ""
        rows.append((path.stem, texts, words, f"{share:.2f}", lower, planted, leaks, f"{each:.1f}"))
    columns = ("language", "texts", "words", "kept, %", "lower-case words kept, %", "identifiers", "leaks")
    print(table((*columns, "CPU ms a text"), rows))
    return 0 if good else 1


def half(line: str) -> str:
    """Half of the texts that a line belongs to, by its digest."""
    return "report" if hashlib.sha256(line.encode()).digest()[0] % 2 else "tune"


def small_words(words: Sequence[str]) -> int:
    """Count the words of at least four letters that have no capital, in scripts that have capitals."""
    return sum(
        len(word) >= _SMALL_LETTERS and word.isalpha() and word.islower() and word.upper() != word
        for word in words
    )


def judged(line: str, cleaned: str) -> tuple[list[str], list[str], int]:
    """Removed words outside the braces, identifiers of which a part remains, and the number of words."""
    left = [fold(word) for word in split(cleaned)]
    lost = []
    said = split(_PLANTED.sub(" ", line))
    for word in said:
        if fold(word) in left:
            left.remove(fold(word))
        else:
            lost.append(word)
    kinds = cues()["institution"] | cues()["institution part"]
    harmless = _HARMLESS | cues()["title"] | kinds | cues()["relation"]
    foreign = script_cues()
    generic = foreign["institution"] | foreign["institution part"] | foreign["title"]
    planted = [
        one
        for one in _PLANTED.findall(line)
        if any(
            fold(word) in left and fold(word) not in harmless and fold_script(word) not in generic
            for word in split(one)
        )
    ]
    return lost, planted, len(said)


def split(text: str) -> list[str]:
    """Runs of letters, digits and vowel signs."""
    return re.findall(f"{WORD}+", text)


def judged_characters(line: str, cleaned: str) -> tuple[list[str], list[str], int]:
    """As `judged`, by characters: these languages have no spaces between words."""
    said = Counter("".join(split(_PLANTED.sub(" ", line))))
    left = Counter("".join(split(cleaned)))
    lost = list((said - left).elements())
    # The kind of an institution identifies none.
    more = _letters_without_kinds(cleaned) - _letters_without_kinds(_PLANTED.sub(" ", line))
    planted = [one for one in _PLANTED.findall(line) if not more.keys().isdisjoint(one)]
    return lost, planted, said.total()


def _letters_without_kinds(text: str) -> Counter[str]:
    for kind in sorted(script_cues()["institution"], key=len, reverse=True):
        text = text.replace(kind, " ")
    return Counter("".join(split(text)))


if __name__ == "__main__":
    sys.exit(main())
