"""Detection of names that are ordinary words or in several parts: labels, degrees, particles, initials."""

from __future__ import annotations

import re

from medsanitize.policies.tables import vocabulary
from medsanitize.policies.tables.vocabulary import cues
from medsanitize.sanitize.text.lexicon import WordKind
from medsanitize.sanitize.text.tokens import TokenizedText

_LABELS = re.compile(r"[\s.]{0,2}[:=][\s\"'(]{0,3}")
_BLANK = re.compile(r"[ \t:.=]{1,3}")
_BETWEEN = re.compile(r"[ \t,^.'’-]{1,2}")
_INITIAL_GAP = re.compile(r"[.\s]{1,2}")
_JOINED = re.compile(r"['’`´-]")
_CREDENTIAL_GAP = re.compile(r",?\s{1,2}")
_NAMELIKE = (WordKind.UNKNOWN, WordKind.DOUBTFUL, WordKind.EPONYM)
_MOST_NAMES = 4
_SHORT_NAME = 3
_LONGEST_INITIALS = 3
_LONGEST_GIVEN = 5
_TIED = frozenset("o d al el ibn abu mc mac ó di da dall dell l".split())
_PARTICLES = frozenset(
    "van von vander der den de da do dos das di del della du la las los le ter ten te zu zur zum af "
    "av".split()
)
_GERMAN = frozenset("von zu zum zur".split())
_BY = frozenset("by per von par por da af av door przez from".split())
_RULES = frozenset("title cue unknown-word doubtful-word eponym label initial".split())


def find_labeled_names(reading: TokenizedText) -> None:
    """Cut up to four words after a label: ``Patient: Klein``, ``NAME LONG``, ``surname=smith``.

    Parameters
    ----------
    reading : TokenizedText
        ``cut`` is updated in place.
    """
    for place, word in enumerate(reading.words[:-1]):
        if word.folded not in cues()["label"] and word.folded not in cues()["name label"]:
            continue
        gap = reading.gap(place)
        # "AD" is Turkish for "name" and an abbreviation in many other languages.
        named = word.folded in cues()["name label"] and (word.text != "AD" or ":" in gap)
        if not (_LABELS.fullmatch(gap) or (named and _BLANK.fullmatch(gap))):
            continue
        last = min(len(reading.words), place + 1 + _MOST_NAMES)
        for here in range(place + 1, last):
            if here > place + 1 and not _BETWEEN.fullmatch(reading.gap(here - 1)):
                break
            if not _behind_label(reading, here, named=named):
                break
            reading.cut.setdefault(here, "label")


def _behind_label(reading: TokenizedText, place: int, *, named: bool) -> bool:
    """Return whether a word after a label may be a name: by its kind, or by its capital."""
    word = reading.words[place]
    if word.folded in cues()["name label"] or word.folded in cues()["label"]:
        return False
    if word.kind in _NAMELIKE or (word.folded in _PARTICLES and place + 1 < len(reading.words)):
        return True
    if not word.text.isalpha() or word.kind not in (WordKind.SAFE, WordKind.NAMED):
        return False
    if word.small and not (named and reading.small):
        return False
    return word.kind is WordKind.NAMED or word.folded not in vocabulary.words()


def find_signatures(reading: TokenizedText) -> None:
    """Cut initials and names before a degree: ``T. Brown``, ``Brown, MD``, ``by JRS``, ``J.S.``.

    Parameters
    ----------
    reading : TokenizedText
        ``cut`` is updated in place.
    """
    words = reading.words
    for place, word in enumerate(words):
        if word.folded in cues()["credential"] and word.text.isupper() and place:
            _before_degree(reading, place)
        if place and _is_initials(reading, place):
            reading.cut.setdefault(place, "initial")
        if not _is_letter(reading, place) or place + 1 == len(words):
            continue
        gap, after = reading.gap(place), words[place + 1]
        if _is_letter(reading, place + 1) and _INITIAL_GAP.fullmatch(gap) and "." in gap:
            # "a.p." and "i.v." are abbreviations with dots, not initials.
            if (word.folded + after.folded) not in vocabulary.words() and _stop(reading, place + 1):
                reading.cut.setdefault(place, "initial")
                reading.cut.setdefault(place + 1, "initial")
        elif gap in (". ", ".") and _begins_name(reading, place + 1):
            reading.cut.setdefault(place, "initial")
            if after.kind is WordKind.DOUBTFUL:
                reading.cut.setdefault(place + 1, "initial")


def _begins_name(reading: TokenizedText, place: int) -> bool:
    """Return whether a name begins at a word: particles and then a word that may be a name."""
    while place < len(reading.words) - 1 and reading.words[place].folded in _PARTICLES:
        place += 1
    word = reading.words[place]
    return word.kind in _NAMELIKE and not word.small


def _is_letter(reading: TokenizedText, place: int) -> bool:
    word = reading.words[place].text
    return len(word) == 1 and word.isalpha() and word.isupper()


def _stop(reading: TokenizedText, place: int) -> bool:
    end = reading.words[place].end
    return reading.text[end : end + 1] == "."


def _before_degree(reading: TokenizedText, place: int) -> None:
    taken = 0
    while place and taken < _SHORT_NAME and _CREDENTIAL_GAP.fullmatch(reading.gap(place - 1)):
        place -= 1
        word = reading.words[place]
        written = word.titled or (reading.capitals and not word.small) or _is_letter(reading, place)
        if not written or (word.kind not in (*_NAMELIKE, WordKind.NAMED) and not _is_letter(reading, place)):
            return
        reading.cut.setdefault(place, "label")
        taken += 1


def _is_initials(reading: TokenizedText, place: int) -> bool:
    """Return whether a word is initials: two or three capitals after ``read by`` or ``Tech:``."""
    word, cue = reading.words[place], reading.words[place - 1]
    if not (1 < len(word.text) <= _LONGEST_INITIALS and word.text.isalpha() and word.text.isupper()):
        return False
    label = cue.folded in cues()["label"] and _LABELS.fullmatch(reading.gap(place - 1))
    if reading.cut.get(place - 1) == "initial" and reading.gap(place - 1) in ("/", ", "):
        return word.folded not in cues()["abbreviation"]
    by = cue.folded in _BY and not reading.capitals and _BLANK.fullmatch(reading.gap(place - 1))
    return bool(label or by) and word.folded not in cues()["abbreviation"]


def find_name_pieces(reading: TokenizedText) -> None:
    """Cut parts of names next to a part that was cut: ``O'``, ``van der``, ``Garcia-Lopez``.

    Parameters
    ----------
    reading : TokenizedText
        ``cut`` is updated in place.
    """
    _leading_particles(reading)
    _saints(reading)
    # Twice: the part found in the first pass may have a part on its other side ("Nguyen Thi Hoa").
    for _ in range(2):
        for place in sorted(place for place, rule in reading.cut.items() if rule in _RULES):
            for other in (place - 1, place + 1):
                if _is_piece(reading, other, place):
                    reading.cut.setdefault(other, "label")


def _is_piece(reading: TokenizedText, place: int, beside: int) -> bool:
    """Return whether the word at ``place`` belongs to the name that was cut at ``beside``."""
    if not 0 <= place < len(reading.words) or place in reading.cut:
        return False
    word, gap, before = reading.words[place], reading.gap(min(place, beside)), place < beside
    if not word.text.isalpha() or word.kind is WordKind.INSTITUTION or _says_who(word.folded, before=before):
        return False
    if _JOINED.fullmatch(gap):
        tied = before and word.folded in _TIED
        return tied or (not word.small and word.folded not in vocabulary.words())
    if gap != " ":
        return False
    if word.folded in _PARTICLES:
        outer = reading.cut.get(place - 1) in _RULES or place == 0 or word.titled
        if not before:
            return _is_middle_name(reading, place)
        return outer or _is_piece_of_particles(reading, place)
    # Short parts of names ("Thi") are too ambiguous to be recognized by themselves.
    short = len(word.text) <= _SHORT_NAME and not word.small and not reading.capitals
    return short and (word.titled or not word.text.isascii()) and not _starts_sentence(reading, place)


def _is_middle_name(reading: TokenizedText, place: int) -> bool:
    """Return whether a particle behind a name and the short word after it have capitals: ``Le Van An``."""
    after = reading.words[place + 1] if place + 1 < len(reading.words) else None
    titled = reading.words[place].titled and not reading.titles and not reading.capitals
    if after is None or not titled or not after.titled or reading.gap(place) != " ":
        return False
    return len(after.text) <= _LONGEST_GIVEN or after.kind in _NAMELIKE


def _says_who(folded: str, *, before: bool) -> bool:
    sections = ("title", "relation", "label", "abbreviation", *(["by"] if before else []))
    return any(folded in cues()[section] for section in sections)


def _is_piece_of_particles(reading: TokenizedText, place: int) -> bool:
    """Return whether a particle follows an initial or such a particle: ``J. van der Berg``."""
    if place == 0 or reading.gap(place - 1) not in (" ", ". "):
        return False
    return _is_letter(reading, place - 1) or (
        reading.words[place - 1].folded in _PARTICLES and _is_piece_of_particles(reading, place - 1)
    )


def _starts_sentence(reading: TokenizedText, place: int) -> bool:
    before = reading.text[: reading.words[place].start].rstrip()
    return before.endswith((".", ":", "!", "?", ";")) or (not before and reading.titles)


def _leading_particles(reading: TokenizedText) -> None:
    """Cut a name at the beginning of the text that starts with particles: ``van der Meer``."""
    words = reading.words
    count = 0
    while count < len(words) - 1 and words[count].folded in _PARTICLES and reading.gap(count) == " ":
        count += 1
    if not count or count == len(words):
        return
    name = words[count]
    known = name.kind not in _NAMELIKE and (count == 1 or name.folded in vocabulary.words())
    german = words[0].folded in _GERMAN
    as_name = words[0].small and name.titled and (name.kind in _NAMELIKE or not german)
    if name.text.isalpha() and (as_name or (reading.capitals and name.text.isupper() and not known)):
        for place in range(count + 1):
            reading.cut.setdefault(place, "label")


def _saints(reading: TokenizedText) -> None:
    """Cut the names of saints, which are names of institutions: ``São João``, ``St Mary``."""
    for place, word in enumerate(reading.words[:-1]):
        after = reading.words[place + 1]
        if word.folded not in cues()["saint"] or reading.gap(place) not in (" ", ". ", "-"):
            continue
        named = after.titled if word.small else not after.small
        if named and after.text.isalpha() and after.folded not in vocabulary.words():
            reading.cut.setdefault(place, "institution")
            reading.cut.setdefault(place + 1, "institution")
