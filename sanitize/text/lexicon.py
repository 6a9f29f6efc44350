"""Classification of single words: ordinary, also a name, eponym, technical token or unknown."""

from __future__ import annotations

import re
from enum import Enum
from functools import cache, lru_cache

from medsanitize.policies.tables import vocabulary
from medsanitize.sanitize.text.cognates import is_cognate
from medsanitize.sanitize.text.morphology import is_clinical, is_composed
from medsanitize.sanitize.text.scripts.characters import has_script
from medsanitize.sanitize.text.scripts.forms import is_script_name, is_script_word
from medsanitize.sanitize.text.word_shape import resembles_no_name

_PART = re.compile(r"\d+|[^\W\d_]+")
_LEVELS = re.compile(r"(?:th|[ctlsd])\d{1,2}(?:(?:th|[ctls])?\d{1,2})?")
# Bands of chromosomes: 14q24, 1q24q25.
_BANDS = re.compile(r"(?:\d{1,2}|[xy])[pq]\d{1,2}(?:[pq]\d{1,2})?")
# Stages and classes: IIF, IIIB.
_GRADE = re.compile(r"I{2,3}[A-F]|I{2,3}[a-f]")
# Lists have the spelling of Portuguese since 1990, and that of German in Switzerland.
_REFORMED = re.compile("ß|(?<=[qg])ü(?=[eiéêí])|éi(?=as?$)|ói(?=des?$|as?$|c[oa]s?$)")
_LONGEST = 64
_PLAIN_SPELLING = {"ß": "ss", "ü": "u", "éi": "ei", "ói": "oi"}
_MOST_DIGITS = 3
_MOST_PARTS = 4
_SHORT = 2


class WordKind(Enum):
    """Kinds of words.

    * ``SAFE``: ordinary or clinical, not a name.
    * ``NAMED``: ordinary or clinical, and in a list of names (Hand); cut only where a name is expected.
    * ``DOUBTFUL``: an ordinary word and a frequent name (Young, Koch); kept only in a phrase.
    * ``EPONYM``: the name in the term for a disease or technique.
    * ``INSTITUTION``: a kind of institution.
    * ``NUMBER``: digits.
    * ``TERM``: letters and few digits.
    * ``UNKNOWN``: in no list.
    """

    SAFE = 0
    NAMED = 1
    DOUBTFUL = 2
    EPONYM = 3
    INSTITUTION = 4
    NUMBER = 5
    TERM = 6
    UNKNOWN = 7


@lru_cache(maxsize=65536)
def word_kind(word: str) -> WordKind:
    """Return the kind of one word, a run of letters and digits."""
    kind = listed_kind(word)
    if kind is not WordKind.UNKNOWN or len(word) > _LONGEST:
        return kind
    folded = vocabulary.fold(word)
    if _GRADE.fullmatch(word):
        return WordKind.TERM
    known = folded in vocabulary.clinical_words() or _is_spelt(folded) or _is_shaped(folded)
    known = known or (is_in_corpus(folded) and word in (word.lower(), word.upper()))
    known = known or (word.isupper() and is_in_corpus(_lower_turkish(word)))
    return WordKind.SAFE if known else kind


@lru_cache(maxsize=65536)
def is_guessed(word: str) -> bool:
    """Return whether only an ending or its sequences of letters say that a word is no name.

    Letters that OCR misread may say so as well.
    """
    if word_kind(word) is not WordKind.SAFE or len(word) == 1 or has_script(word):
        return False
    folded = vocabulary.fold(word)
    if _is_acronym(word, folded):
        return False
    listed = folded in vocabulary.clinical_words() or any(folded in words for words in _ordinary())
    listed = listed or is_in_corpus(folded) or is_in_corpus(_lower_turkish(word))
    return not listed and not is_composed(folded)


def listed_kind(word: str) -> WordKind:
    """Return the kind of one word by all lists except those that are generated from terminologies."""
    # The order is that of precedence: a word may be in several lists.
    if word.isascii() and word.isdigit():
        return WordKind.NUMBER
    if len(word) > _LONGEST:
        return WordKind.UNKNOWN
    if has_script(word):
        return WordKind.SAFE if _is_acronym(word, vocabulary.fold(word)) else _script_kind(word)
    folded = vocabulary.fold(word)
    if folded in vocabulary.cues()["institution"]:
        return WordKind.INSTITUTION
    if folded in vocabulary.cues()["short name"]:
        return WordKind.DOUBTFUL
    if folded in vocabulary.cues()["made of parts"]:
        return WordKind.UNKNOWN
    if folded in vocabulary.named_words():
        return WordKind.NAMED
    if _is_ordinary(folded):
        return WordKind.SAFE
    if folded in vocabulary.cues()["eponym"]:
        return WordKind.EPONYM
    if folded in vocabulary.doubtful_words():
        return WordKind.DOUBTFUL
    if _REFORMED.search(folded) and _is_ordinary(reformed(folded)):
        return WordKind.SAFE
    if _is_acronym(word, folded):
        return WordKind.SAFE
    # Outside the Latin script, a single character may be a whole name.
    if len(word) == 1:
        return (
            WordKind.SAFE
            if word.isascii() or word in "ªº" or "\xc0" <= word <= "\u024f"
            else WordKind.UNKNOWN
        )
    if not word.isalpha():
        return WordKind.TERM if word.isascii() and _is_term(folded) else WordKind.UNKNOWN
    return WordKind.SAFE if is_clinical(folded) else WordKind.UNKNOWN


def _is_acronym(word: str, folded: str) -> bool:
    """Return whether a word is an abbreviation of medicine, written with capitals: ``FEVI``, ``PgR``."""
    capitals = word.isupper() or (word[0].isupper() and word[1:] != word[1:].lower())
    return capitals and folded in vocabulary.cues()["acronym"]


def _script_kind(word: str) -> WordKind:
    if not is_script_word(word):
        return WordKind.UNKNOWN
    return WordKind.NAMED if is_script_name(word) else WordKind.SAFE


def _is_spelt(folded: str) -> bool:
    """Return whether a word is a clinical word in the spelling of a language, and no eponym."""
    named = folded in vocabulary.cues()["made of parts"] or folded in vocabulary.eponyms()
    return not named and not has_script(folded) and is_cognate(folded)


def _is_shaped(folded: str) -> bool:
    """Return whether a word has letters that no name has, and is no eponym."""
    sure = folded.isalpha() and not has_script(folded) and folded not in vocabulary.cues()["made of parts"]
    return sure and resembles_no_name(folded) and folded not in vocabulary.eponyms()


def is_in_corpus(folded: str) -> bool:
    """Return whether web texts have a word without a capital: one with a capital may be a rare name."""
    named = folded in vocabulary.cues()["made of parts"] or folded in vocabulary.eponyms()
    return not named and folded in vocabulary.corpus_words()


def _lower_turkish(word: str) -> str:
    """Return a word in lower case as Turkish has it: the letter I without a dot."""
    return vocabulary.fold(word.replace("I", "ı"))


@cache
def _ordinary() -> tuple[frozenset[str] | vocabulary.WordBlock, ...]:
    cues = vocabulary.cues()
    said = cues["title"] | cues["relation"] | cues["by"] | cues["marker"]
    return (
        vocabulary.words(),
        vocabulary.plain_words(),
        said,
        vocabulary.open_words(),
    )


def _is_ordinary(folded: str) -> bool:
    return any(folded in words for words in _ordinary())


def reformed(folded: str) -> str:
    """Return a folded word in the spelling of the lists.

    Examples
    --------
    >>> reformed("freqüente"), reformed("tireóide"), reformed("fuß")
    ('frequente', 'tireoide', 'fuss')
    """
    return _REFORMED.sub(lambda found: _PLAIN_SPELLING[found[0]], folded)


def is_word(folded: str) -> bool:
    """Return whether a folded word is in a list of ordinary words, and so may be part of a term."""
    return folded in vocabulary.words() or folded in vocabulary.plain_words()


def is_only_in_use(folded: str) -> bool:
    """Return whether a folded word is in no other list than those of words in use."""
    used = folded in vocabulary.open_words() or is_in_corpus(folded)
    return used and all(folded not in words for words in _ordinary()[:-1])


def is_only_ordinary(folded: str) -> bool:
    """Return whether a folded word is in use, and has no clinical meaning that is known."""
    return is_only_in_use(folded) and folded not in vocabulary.clinical_words() and not is_clinical(folded)


def _is_term(word: str) -> bool:
    """Return whether a word is a technical token such as ``T2w``, ``Br40d3`` or ``L4L5``."""
    # Identifiers have more digits.
    if _LEVELS.fullmatch(word) or _BANDS.fullmatch(word):
        return True
    parts = _PART.findall(word)
    if len(parts) > _MOST_PARTS or sum(len(part) for part in parts if part.isdigit()) > _MOST_DIGITS:
        return False
    return all(len(part) <= _SHORT or (part.isalpha() and is_word(part)) for part in parts)
