"""Generate the lists of ordinary words that cleaned texts may keep.

``python -m medsanitize.tools.standard_tables.generate_plain`` writes ``vocabulary_plain.txt``,
``vocabulary_doubtful.txt`` and ``vocabulary_parts.txt`` to ``policies/tables``, from the manually written
``plain_*.txt``, one per language. Run by a maintainer, never at run time. Requires the packages of
``generate_open``: lists of names, and simplemma, which determines whether an inflected form belongs to the
language and has the same lemma. No data of these is shipped.
"""

# ruff: noqa: E501  (one language a paragraph)

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from medsanitize.policies.tables.vocabulary import fold, words
from medsanitize.tools.standard_tables.generate_vocabulary import keep_words, name_words, stop_words
from medsanitize.tools.standard_tables.inflection import ENDINGS, LONGEST_CUT, related
from medsanitize.tools.standard_tables.word_checks import (
    is_frequent,
    may_stay,
    name_list,
    other_names,
    ranked_names,
)

TABLES = Path(__file__).parents[2] / "policies" / "tables"
SHORT = 3
"""Manually listed words of up to this length are kept even if they are names."""
SHORTEST_PART = 5
COMPOUNDING = ("da", "de", "fi", "hu", "nb", "nl", "sv")
"""Languages that write compounds as one word."""
UNREAD = ("fi", "hu", "nb", "ro")
"""Languages whose forms nobody read: those that are frequent names in any country are left out."""
WIDE = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "æ": "ae", "œ": "oe"})
PLAIN = str.maketrans({"ł": "l", "ø": "o", "æ": "ae", "œ": "oe", "ı": "i", "đ": "d"})


def main(argv: list[str] | None = None) -> None:
    """Write ``vocabulary_plain.txt``, ``vocabulary_parts.txt`` and ``vocabulary_doubtful.txt``."""
    parser = argparse.ArgumentParser(description="Make the lists of ordinary words.")
    parser.add_argument("--out", type=Path, default=TABLES, help="folder to write to")
    parser.add_argument("--collisions", action="store_true", help="print the words that are names as well")
    options = parser.parse_args(argv)
    typed = {language: listed(language) for language in sorted(ENDINGS)}
    found = set().union(*typed.values())
    unread: set[str] = set()
    for language, ordinary in typed.items():
        forms = frozenset(inflected(ordinary, language))
        if language in UNREAD:
            unread.update(forms)
        else:
            found.update(forms, regular(ordinary | forms, language))
    found.update(form for form in unread - found if not is_ranked(form))
    names, kept, stopped = name_words(), keep_words() | plain_keep(), stop_words()
    listed_by_hand = frozenset().union(*typed.values())
    doubtful = {
        word
        # Doubtful words are kept only in context, so a name in the lists must not make an ordinary word safe.
        for word in found - kept
        if word in stopped or (word in names and not (len(word) <= SHORT and word in listed_by_hand))
    }
    # Generated forms that are rare surnames: unlike listed words, they were not checked by a person.
    rare = {word for word in found - listed_by_hand - kept if word in other_names() and not is_frequent(word)}
    bare = {form for word in found - doubtful - rare for form in unaccented(word) if may_stay(form)}
    spelt = {
        form for word in unread | set().union(*(typed[name] for name in UNREAD)) for form in unaccented(word)
    }
    bare -= {form for form in spelt - found if form in ranked_names()}
    plain = {word for word in (found | bare) - doubtful - rare - words() if word.isalpha() and len(word) > 1}
    _write(options.out / "vocabulary_plain.txt", plain)
    _write(options.out / "vocabulary_parts.txt", set(parts(typed, names)))
    _write(options.out / "vocabulary_doubtful.txt", doubtful & listed_by_hand)
    if options.collisions:
        print(" ".join(sorted(doubtful & listed_by_hand)))


def is_ranked(word: str) -> bool:
    """Whether a word, or its spelling without accents, is a frequent name in a country."""
    return any(form in ranked_names() for form in (word, *unaccented(word)))


def unaccented(word: str) -> Iterator[str]:
    """Yield spellings without accents: ``Schaedel``, ``GEFÄSS``, ``torax``, ``kirik``."""
    if not word.isascii():
        sharp = word.replace("ß", "ss")
        yield sharp
        yield sharp.translate(WIDE)
        spread = unicodedata.normalize("NFD", sharp.translate(PLAIN))
        yield "".join(char for char in spread if not unicodedata.combining(char))


def parts(typed: Mapping[str, frozenset[str]], names: frozenset[str]) -> Iterator[str]:
    """Yield listed words that may be parts of compounds: no name begins or ends with them."""
    ends = name_ends()
    for language in COMPOUNDING:
        yield from (word for word in typed[language] - ends - names if len(word) >= SHORTEST_PART)


@cache
def name_ends() -> frozenset[str]:
    """Return what names begin or end with: Bergmann would otherwise pass as a compound of ordinary words."""
    ends: set[str] = set()
    for name in name_list() | other_names():
        ends.update(name[:size] for size in range(SHORTEST_PART, len(name) - 1))
        ends.update(name[-size:] for size in range(SHORTEST_PART, len(name) - 1))
    return frozenset(ends)


def listed(language: str) -> frozenset[str]:
    """Return the words of ``plain_LANGUAGE.txt``."""
    return frozenset(_lines(f"plain_{language}.txt"))


def plain_keep() -> frozenset[str]:
    """Return ordinary words that are kept although they are in a list of names."""
    return frozenset(_lines("plain_keep.txt"))


ADJECTIVES = {
    "de": (("end", "lich", "isch", "bar", "iert", "haft", "artig", "förmig", "gradig", "seitig"), ("e", "en", "er", "es", "em")),
    "fr": (("ant", "ante", "ent", "ente", "ique", "aire", "euse", "ée", "é", "ale", "ive", "if", "eur", "elle"), ("s",)),
    "es": (("ado", "ada", "ido", "ida", "ico", "ica", "oso", "osa", "ivo", "iva", "ante", "ente"), ("s",)),
    "pt": (("ado", "ada", "ido", "ida", "ico", "ica", "oso", "osa", "ivo", "iva", "ante", "ente"), ("s",)),
    "nl": (("end", "isch", "lijk", "baar", "ig", "eerd"), ("e",)),
    "sv": (("isk", "lig", "ande", "ende"), ("a", "t")),
}  # fmt: skip
"""Adjectives and participles with regular forms, which need no dictionary: (endings, endings of forms)."""
SHORTEST_ADJECTIVE = 7
PARTICIPLE = re.compile(
    r"(?:(?:ab|an|auf|aus|ein|vor|nach|um|zu|mit|hin|weg|bei|durch)?ge|ver|be|ent|er|zer|un|miss)\w+(?:en|t)"
)


def regular(ordinary: frozenset[str], language: str) -> Iterator[str]:
    """Yield forms of long adjectives and participles, which are regular."""
    ending, forms = ADJECTIVES.get(language, ((), ()))
    for word in sorted(ordinary):
        participle = language == "de" and PARTICIPLE.fullmatch(word)
        if len(word) >= SHORTEST_ADJECTIVE and (word.endswith(ending) or participle):
            yield from (word + form for form in forms)


def inflected(ordinary: frozenset[str], language: str) -> Iterator[str]:
    """Yield existing forms of words that share their lemma, or all but its end."""
    import simplemma

    endings = ENDINGS[language].split()
    for word in sorted(ordinary):
        lemma = simplemma.lemmatize(word, lang=language)
        for cut in range(min(LONGEST_CUT, len(word) - 2) + 1):
            stem = word[: len(word) - cut]
            for ending in ("", *endings):
                form = stem + ending
                known = form != word and len(form) > SHORT and simplemma.is_known(form, lang=language)
                if known and related(simplemma.lemmatize(form, lang=language), lemma):
                    yield fold(form)


def _lines(name: str) -> Iterator[str]:
    for line in (TABLES / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield from re.findall(r"[^\s'./-]+", fold(line))


def _write(path: Path, found: set[str]) -> None:
    path.write_text("\n".join(sorted(found)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
