"""Classification of words as names by their kind and context.

Nothing here depends on the patient: the same text always gives the same cuts, so results can be cached.
"""

from __future__ import annotations

import re

from medsanitize.policies.tables.vocabulary import clinical_words, cues, lone_names, words
from medsanitize.sanitize.text.lexicon import WordKind, is_only_ordinary
from medsanitize.sanitize.text.person_names import find_labeled_names, find_name_pieces, find_signatures
from medsanitize.sanitize.text.running_text import is_german, is_written_as_word
from medsanitize.sanitize.text.tokens import TokenizedText
from medsanitize.sanitize.text.word_shape import Place, resembles_word

_NEAR = re.compile(r"[ \t.'’`´_^&+-]{0,3}")
_WITHIN = re.compile(r"[ \t.,:'’`´_^=/-]{0,4}")
_PARTICLES = frozenset(
    "van von vander der den de da do dos das di del della du la le les el al bin ben ibn ter ten te zu zum "
    "zur af av y e und and".split()
)
# Behind these a capital says nothing: German writes all nouns with one.
_GERMAN = frozenset("von der den zu zum zur und".split())
_BY = frozenset("by per von par por da af av door przez".split())
_CENTERS = frozenset("center centre centers centro zentrum centrum".split())
_BY_NAME = frozenset(["title", "cue", "unknown-word", "doubtful-word", "eponym"])
_MOST_NAMES = 4
_SIDES = frozenset("LR")
_ELIDED = frozenset("l dell all sull nell dall".split())
_MOST_DIGITS = 2
_FARTHEST = 12
_SHORT_LABEL = 3
_SHORT = 2
_LEVELS = frozenset("LRTCSX")
_NAMELIKE = (WordKind.UNKNOWN, WordKind.DOUBTFUL, WordKind.EPONYM)
_CLINICAL = (WordKind.SAFE, WordKind.NAMED)


def classify_words(reading: TokenizedText, *, running: bool = True) -> None:
    """Mark the words to cut and the words that the language model must decide.

    Parameters
    ----------
    reading : TokenizedText
        Updated in place: ``cut`` and ``open``.
    running : bool
        The text may be sentences: unlisted words that are written like words are kept.
    """
    # The order matters: each step relies on the cuts of those before, and earlier rules take precedence.
    _lone_name(reading)
    _institutions(reading)
    find_labeled_names(reading)
    find_signatures(reading)
    for place, word in enumerate(reading.words):
        if word.folded in cues()["title"]:
            _after_title(reading, place)
        elif word.folded in cues()["by"] or word.folded in cues()["relation"]:
            _after_cue(reading, place, running=running)
    for place, word in enumerate(reading.words):
        if place in reading.cut:
            continue
        if word.kind is WordKind.UNKNOWN:
            if not (running and is_written_as_word(reading, place)):
                reading.cut[place] = "unknown-word"
        elif word.kind is WordKind.EPONYM:
            _eponym(reading, place)
    for place, word in enumerate(reading.words):
        if place not in reading.cut and word.kind is WordKind.DOUBTFUL:
            _doubtful(reading, place, running=running)
    _initials(reading)
    find_name_pieces(reading)
    _capitalised(reading)


def _lone_name(reading: TokenizedText) -> None:
    """Cut the only word of a text if it is a name as well as a word, and written with a capital."""
    if len(reading.words) != 1 or reading.small:
        return
    word = reading.words[0]
    ordinary = is_only_ordinary(word.folded) and not resembles_word(word.folded, Place.LONE)
    if word.folded not in lone_names() and not ordinary:
        return
    # A label whose value was cut, such as "Tel." or "DNI", is no name.
    if reading.text.rstrip().endswith((".", ":")):
        return
    labels = any(word.folded in cues()[name] for name in ("label", "title", "relation", "by", "abbreviation"))
    if not labels and (word.titled or len(word.text) > _SHORT_LABEL):
        reading.cut[0] = "doubtful-word"


def _is_title(reading: TokenizedText, place: int) -> bool:
    """Return whether a word is used as a title: ``Dr`` and ``DR.``, but not ``DR CHEST``."""
    word = reading.words[place]
    if word.folded not in cues()["ambiguous title"]:
        return True
    if reading.text[word.end : word.end + 1] == "." or (word.titled and not reading.capitals):
        return True
    after = reading.words[place + 1] if place + 1 < len(reading.words) else None
    if word.small and after is not None and after.kind in _NAMELIKE:
        return True
    return place > 0 and reading.words[place - 1].folded in cues()["by"]


def _after_title(reading: TokenizedText, place: int) -> None:
    if not _is_title(reading, place):
        return
    taken, here = 0, place + 1
    # Bounded, because titles, particles and names may alternate through a whole list of persons.
    last = min(len(reading.words), place + _FARTHEST)
    while here < last and taken < _MOST_NAMES and _WITHIN.fullmatch(reading.gap(here - 1)):
        word = reading.words[here]
        if word.folded in cues()["title"] and not taken:
            here += 1
            continue
        # A particle counts only with a name behind it: "Dr. de la Cruz", but "Dr. de service".
        if word.folded in _PARTICLES and not word.titled:
            if not _namelike(reading, here + 1, first=True):
                return
        elif not _namelike(reading, here, first=not taken):
            return
        else:
            taken += 1
        reading.cut.setdefault(here, "title")
        here += 1


def _namelike(reading: TokenizedText, place: int, *, first: bool) -> bool:
    if not 0 <= place < len(reading.words):
        return False
    word = reading.words[place]
    if word.kind in _NAMELIKE:
        return True
    # "Dr. Hand" names a person, "Dr. hand" probably does not, unless the text has no capitals at all.
    if word.kind is WordKind.NAMED:
        as_name = word.titled or reading.capitals or reading.small
        return as_name and (first or word.titled)
    if len(word.text) == 1 and word.text.isalpha():
        stop = reading.text[word.end : word.end + 1] == "."
        return word.text.isupper() and (stop or _is_initial(reading, place))
    # "Frau Kollegin": who is addressed so is called by no name.
    colleague = word.folded in cues()["colleague"]
    return first and word.kind is WordKind.SAFE and word.titled and not reading.capitals and not colleague


def _is_initial(reading: TokenizedText, place: int) -> bool:
    """Return whether a capital precedes a name, with other capitals between them: ``Mr P J Marsh``."""
    last = min(len(reading.words), place + _MOST_NAMES)
    for here in range(place + 1, last):
        word = reading.words[here]
        if reading.gap(here - 1) != " ":
            return False
        if len(word.text) > 1 or not word.text.isupper():
            return word.kind in (*_NAMELIKE, WordKind.NAMED) and not word.small
    return False


def _after_cue(reading: TokenizedText, place: int, *, running: bool) -> None:
    """Cut words that may be names directly after a cue: ``requested by LONG``, ``daughter Grace``."""
    cue = reading.words[place]
    here = place + 1
    # "by PA Flint": behind a profession, a capital is that of a name.
    professional = here + 1 if _is_profession(reading, here) else 0
    here = professional or here
    while here < len(reading.words) and here < place + 4 and _WITHIN.fullmatch(reading.gap(here - 1)):
        word = reading.words[here]
        # "may", "will", "said": the sentence continues, and no name follows the cue.
        if word.folded in cues()["given verb"] and (word.small or reading.capitals):
            return
        if word.folded in _PARTICLES and here + 1 < len(reading.words):
            if not _name_follows(reading, here + 1):
                return
            reading.cut.setdefault(here, "cue")
            here += 1
            continue
        named = word.kind is WordKind.NAMED and word.titled and not reading.capitals and not reading.titles
        named = named or (word.kind is WordKind.NAMED and reading.capitals and _ends_order(reading, here))
        named = named or (here == professional and word.kind is WordKind.SAFE)
        named = named or (
            here > place + 1 and here - 1 in reading.cut and word.titled and _foreign(reading, here)
        )
        named = named or (cue.folded in cues()["relation"] and _is_surname(reading, here))
        doubtful = word.kind is WordKind.DOUBTFUL and not (word.small and cue.folded in cues()["by"])
        if word.kind is WordKind.UNKNOWN and running and word.small and is_written_as_word(reading, here):
            return
        if not (named or doubtful or word.kind is WordKind.UNKNOWN):
            return
        reading.cut.setdefault(here, "cue")
        here += 1


def _is_surname(reading: TokenizedText, place: int) -> bool:
    """Return whether a word with a capital follows a cut name: ``patient Thibault Quenouille``."""
    word = reading.words[place]
    written = word.titled and not (reading.capitals or reading.titles)
    name = reading.cut.get(place - 1) == "cue" and reading.words[place - 1].titled
    return written and name and reading.gap(place - 1) == " " and is_only_ordinary(word.folded)


def _is_profession(reading: TokenizedText, place: int) -> bool:
    """Return whether the abbreviation of a profession and a word with a capital follow a word for "by"."""
    if place < 1 or place + 1 >= len(reading.words) or reading.words[place - 1].folded not in cues()["by"]:
        return False
    word, after = reading.words[place], reading.words[place + 1]
    named = after.titled and not reading.capitals and not reading.titles and after.folded not in words()
    return word.text.isupper() and word.folded in cues()["profession"] and named and reading.gap(place) == " "


def _name_follows(reading: TokenizedText, place: int) -> bool:
    """Return whether a name follows a particle: an uncommon word, or one capitalized like a name."""
    word = reading.words[place]
    if word.folded in _PARTICLES and place + 1 < len(reading.words):
        return _name_follows(reading, place + 1)
    # "pt Fatima el A."
    shortened = len(word.text) == 1 and word.text.isupper() and reading.text[word.end : word.end + 1] == "."
    if shortened and place - 2 in reading.cut:
        return True
    return (word.kind in _NAMELIKE and not word.small) or _foreign(reading, place)


def _foreign(reading: TokenizedText, place: int) -> bool:
    """Return whether a word is capitalized after a particle of a language that capitalizes only names."""
    word, particle = reading.words[place], reading.words[place - 1]
    romance = particle.folded in _PARTICLES and particle.folded not in _GERMAN
    romance = romance and word.folded not in cues()["title"] and word.folded not in words()
    return word.titled and romance and not reading.capitals and not reading.titles


def _ends_order(reading: TokenizedText, place: int) -> bool:
    """Return whether a word is the last of the text and follows a word for "by": ``REF BY LONG``."""
    return reading.words[place - 1].folded in _BY and place + 1 == len(reading.words)


def _institutions(reading: TokenizedText) -> None:
    """Cut kinds of institutions together with an adjacent name; without a name they are kept."""
    for place in range(len(reading.words)):
        if not _is_institution(reading, place):
            continue
        left = place
        while left and _NEAR.fullmatch(reading.gap(left - 1)) and _names_place(reading, left - 1, place):
            left -= 1
        right = place
        while right + 1 < len(reading.words) and right < place + 6 and _NEAR.fullmatch(reading.gap(right)):
            step = right + 1
            if reading.words[step].folded in _PARTICLES and step + 1 < len(reading.words):
                step += 1
            if not _names_place(reading, step, place):
                break
            right = step
        around = [*range(left, place), *range(place + 1, right + 1)]
        if any(_proper(reading, other, place) for other in around):
            for other in range(left, right + 1):
                reading.cut.setdefault(other, "institution")


def _is_institution(reading: TokenizedText, place: int) -> bool:
    """Return whether a word is a kind of institution, such as ``Hospital``."""
    if reading.words[place].kind is WordKind.INSTITUTION:
        return True
    # "Center" also means the middle of something: it needs a neighbor, as in "Medical Center".
    if reading.words[place].folded not in _CENTERS:
        return False
    beside = [
        reading.words[other].folded for other in (place - 1, place + 1) if 0 <= other < len(reading.words)
    ]
    return any(word in cues()["institution part"] for word in beside)


def _names_place(reading: TokenizedText, place: int, near: int) -> bool:
    word = reading.words[place]
    if place < near - 5:
        return False
    part = word.folded in cues()["institution part"] or word.kind is WordKind.INSTITUTION
    return part or _proper(reading, place, near)


def _proper(reading: TokenizedText, place: int, near: int) -> bool:
    word = reading.words[place]
    if word.kind in (WordKind.NUMBER, WordKind.TERM):
        return False
    if word.kind in _NAMELIKE:
        return not word.small or word.kind is WordKind.UNKNOWN
    if word.folded in cues()["institution part"]:
        return (
            word.titled
            and not reading.capitals
            and word.folded in ("mercy", "memorial", "saint", "san", "st")
        )
    if not word.titled or reading.capitals or word.kind not in _CLINICAL:
        return False
    return (place > 0 and not reading.titles) or (place > near and word.folded not in words())


def _eponym(reading: TokenizedText, place: int) -> None:
    """Cut an eponym without its disease or technique: ``Hodgkin``, but not ``Hodgkin lymphoma``."""
    words, heads = reading.words, cues()["eponym head"]
    before = [word.folded for word in words[max(0, place - 3) : place]]
    while before and (before[-1] in _PARTICLES or before[-1] in ("von", "the", "of", "d", "m")):
        if before.pop() == "m":
            before.append("morbus")
            break
    after = list(words[place + 1 : place + 4])
    while after and (
        after[0].kind is WordKind.EPONYM or after[0].folded in ("s", "like", "type", "sche", "scher", "schen")
    ):
        after.pop(0)
    chain = words[place - 1] if place else None
    # After a cut name, the eponym is probably its second part: "Dr. X Hodgkin".
    if (
        chain is not None
        and place - 1 in reading.cut
        and reading.cut[place - 1] in ("title", "cue", "unknown-word")
    ):
        reading.cut[place] = "eponym"
        return
    good = bool(after and (after[0].folded in heads or _is_graded(reading, place)))
    good = good or bool(
        before
        and (
            before[-1] in heads
            or (len(before) > 1 and before[-2] in heads and before[-1] in cues()["eponym"])
        )
    )
    if not good and words[place].small and len(words) > 1:
        good = reading.stays(place - 1) and reading.stays(place + 1)
    if not good:
        reading.cut[place] = "eponym"


def _is_graded(reading: TokenizedText, place: int) -> bool:
    """Return whether an eponym is a scale with its grade: ``Gleason 7``."""
    word, after = reading.words[place], reading.words[place + 1]
    return (
        word.folded in cues()["scale"] and after.kind is WordKind.NUMBER and len(after.text) <= _MOST_DIGITS
    )


def _doubtful(reading: TokenizedText, place: int, *, running: bool) -> None:
    """Decide on an ordinary word that is also a name: kept, open for the model, or cut.

    It needs a phrase of ordinary words around it, and to be written like an ordinary word.
    """
    word = reading.words[place]
    before, after = reading.stays(place - 1), reading.stays(place + 1)
    before = before or (place - 1 in reading.open)
    # "l'IVA": no article stands before a person's name.
    if place and word.text.isupper() and not reading.capitals and _is_elided(reading, place):
        return
    # In capitals, an initial at the end is all that tells a name: "SCREENING ROSE W".
    if reading.capitals and place and place + 1 < len(reading.words) and _is_last_initial(reading, place + 1):
        reading.cut[place] = "doubtful-word"
        reading.cut.setdefault(place + 1, "initial")
        return
    pair = any(
        f"{reading.words[low].folded}-{reading.words[low + 1].folded}" in cues()["collocation"]
        for low in (place - 1, place)
        if 0 <= low < len(reading.words) - 1
    )
    alone = len(reading.words) == 1
    # A line in an image is no sentence with a verb: "MAY LONG" is a person.
    verb = running and word.folded in cues()["given verb"] and (word.small or reading.capitals)
    if pair or (verb and after):
        return
    # "Young reports pain": at the beginning of a sentence a capital does not distinguish a name from a word.
    starts = place == 0 or reading.text[: word.start].rstrip().endswith((".", ":", "!", "?", ";"))
    if starts and after and reading.words[place + 1].folded in cues()["person verb"]:
        reading.cut[place] = "doubtful-word"
        return
    edges = (before or place == 0) and (after or place == len(reading.words) - 1)
    if word.small and not alone:
        good = (
            edges
            or (before and not _cut_name(reading, place + 1))
            or (after and not _cut_name(reading, place - 1))
        )
    # Capitals hide whether the word is a name, so only the words on both sides count.
    elif reading.capitals:
        good = before and after
    else:
        good = starts and after and reading.words[place + 1].small
        good = good or (before and after and reading.titles and len(reading.words) > 2)
    if good:
        reading.open.add(place)
    else:
        reading.cut[place] = "doubtful-word"


def _is_elided(reading: TokenizedText, place: int) -> bool:
    """Return whether an article without its vowel stands directly before a word: ``dell'IVA``."""
    return reading.words[place - 1].folded in _ELIDED and reading.gap(place - 1) in ("'", "’")


def _is_last_initial(reading: TokenizedText, place: int) -> bool:
    """Return whether a single letter that is no side ends a phrase, as in ``SCREENING ROSE W``."""
    word = reading.words[place]
    if len(word.text) != 1 or not word.text.isalpha() or word.text in _SIDES:
        return False
    return place + 1 == len(reading.words) or not reading.gap(place).isspace()


def _cut_name(reading: TokenizedText, place: int) -> bool:
    return 0 <= place < len(reading.words) and place in reading.cut


def _listed_name(reading: TokenizedText) -> None:
    """Cut a surname, a comma and an initial at the start of a text: ``LEE, H``, ``Ng, T``."""
    if len(reading.words) < 2 or reading.gap(0) not in (", ", ","):
        return
    surname, initial = reading.words[:2]
    if len(initial.text) != 1 or not initial.text.isalpha() or not initial.text.isupper():
        return
    if 0 not in reading.cut:
        if reading.capitals or not (surname.text.isalpha() and surname.text.isupper()):
            return
        # "KNIE, L", "CT, T": a side or a part behind what is examined.
        technical = surname.folded in words() or surname.folded in clinical_words()
        if len(surname.text) < _SHORT or (technical and not _is_short_name(surname.text, initial.text)):
            return
        reading.cut.setdefault(0, "label")
    reading.cut.setdefault(1, "initial")


def _is_short_name(surname: str, initial: str) -> bool:
    """Return whether capitals are a short name rather than an abbreviation and a side or level."""
    return len(surname) == _SHORT and initial not in _LEVELS


def _initials(reading: TokenizedText) -> None:
    """Cut a single letter with a full stop next to a cut name: ``J. Smith``, ``Smith J.``."""
    _listed_name(reading)
    for place, word in enumerate(reading.words):
        if word.folded in cues()["title"] or place in reading.cut:
            continue
        if len(word.text) == 1 and word.text.isupper():
            stop = reading.text[word.end : word.end + 1] == "."
            left, right = (reading.cut.get(other) in _BY_NAME for other in (place - 1, place + 1))
            # "OSULLIVAN^K": in a PN value, the given name follows the caret.
            given = place > 0 and reading.gap(place - 1) == "^" and left
            if (stop and (left or right)) or (left and right) or given:
                reading.cut[place] = "initial"


def _capitalised(reading: TokenizedText) -> None:
    """Leave capitalized words within a sentence to the model: ``Long`` may be a name."""
    if reading.capitals or len(reading.words) < 3 or reading.titles:
        return
    # German nouns have capitals as well, which the model, being English, takes for names.
    german = is_german(reading)
    for place, word in enumerate(reading.words):
        if german and place and reading.stays(place - 1) and reading.words[place - 1].small:
            continue
        label = word.folded in cues()["label"] and reading.text[word.end : word.end + 1] in (".", ":")
        if place and word.kind is WordKind.NAMED and word.titled and place not in reading.cut and not label:
            reading.open.add(place)
