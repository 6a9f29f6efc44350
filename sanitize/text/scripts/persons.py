"""Names that are also words, by the words next to them: titles, forms of address, relations, institutions."""

from __future__ import annotations

import re
from typing import Final

from medsanitize.policies.tables.script_words import fold_script, script_cues
from medsanitize.policies.tables.vocabulary import cues as latin_cues
from medsanitize.sanitize.text.lexicon import WordKind
from medsanitize.sanitize.text.scripts.characters import has_script, script_of
from medsanitize.sanitize.text.scripts.forms import (
    has_preposition,
    is_name_shaped,
    is_open_word,
    korean_tails,
    listed_thai_words,
)
from medsanitize.sanitize.text.tokens import TokenizedText

_AFTER_TITLE: Final = re.compile(r"\.?[\s:'\"«»„“׳״·・-]{0,3}")
# No full stop: a sentence ends there.
_NEAR: Final = re.compile(r"[\s:'\"«»„“׳״·・-]{0,3}")
_BETWEEN_NAMES: Final = re.compile(r"[ ・·=-]{0,2}")
_ONE_SPACE: Final = re.compile(r"[ -]{1,2}")
_KANA_PARTICLES: Final = frozenset("はがをにでとものへやなしたて")
_LONGEST_THAI_NAME: Final = 16
_TOUCHING: Final = re.compile(r"[\s・·]?")
_WITHIN: Final = re.compile(r"[\s.,№#\"«»'-]{0,4}")
_SENTENCE: Final = tuple('.:;!?()[]\n•–—"«/')
_CASED: Final = ("cyrillic", "greek")
# First letters of verbs, participles and words with the article.
_SAYING: Final = {
    "arabic": ("ي", "ت", "ال", "مت", "مص"),
    "hebrew": ("מ", "ה", "נ", "י", "ת", "ש"),
    "devanagari": (),
}
_MOST_NAMES: Final = 3
_TITLED_TEXT: Final = 3
_LONGEST_HAN_NAME: Final = 4
_LONGEST_HANGUL_NAME: Final = 4
_MOST_OF_INSTITUTION: Final = 6
_GENERIC: Final = frozenset(
    "我 本 住 出 外 转 入 该 当 他 貴 同 病 在 到 我院 本院 대학 종합 개인 타 본 전문 "
    "요양 소아 교정 보존 구강 노인 동네 지역 다른 이 그 นี้ เดิม อื่น".split()
)
_LONG_SURNAMES: Final = frozenset("남궁 황보 제갈 사공 선우 서문 독고 동방".split())
_KOREAN_KINDS: Final = (
    "병원",
    "의원",
    "대학교",
    "의료원",
    "보건소",
    "센터",
    "치과",
    "요양원",
    "어린이집",
    "유치원",
    "복지관",
)


def find_script_names(reading: TokenizedText) -> None:
    """Cut words that can be names next to a title, a relation or an institution.

    Parameters
    ----------
    reading : TokenizedText
        ``cut`` is updated in place.
    """
    cues = script_cues()
    for place, word in enumerate(reading.words):
        if word.text.isascii():
            continue
        folded = fold_script(word.text)
        if folded in cues["title"]:
            _after(reading, place, sure=True)
        elif folded in cues["relation"]:
            _after(reading, place, sure=False)
        if _is_honorific(folded):
            _before(reading, place)
        if folded in cues["institution"]:
            _institution(reading, place)
        elif script_of(word.text[0]) == "hangul":
            _korean_institution(reading, place)
        _capitalized(reading, place)
    _next_to_names(reading)


def _next_to_names(reading: TokenizedText) -> None:
    """Cut words that can be names next to an unknown word: a given name next to a rare family name."""
    written = [place for place, word in enumerate(reading.words) if has_script(word.text)]
    # Without an ordinary word next to it, a word that can be a name is taken for one.
    if all(_is_doubtful(reading, place) for place in written):
        for place in written:
            if reading.words[place].kind is not WordKind.UNKNOWN:
                reading.cut.setdefault(place, "label")
    for place in written:
        word = reading.words[place]
        if word.kind is not WordKind.UNKNOWN:
            continue
        script = script_of(word.text[0])
        if script == "thai":
            _thai_names(reading, place)
        for step in (-1, 1):
            other = place + step
            while _joins(reading, other, min(other, other - step), script):
                reading.cut.setdefault(other, "label")
                other += step


def _is_doubtful(reading: TokenizedText, place: int) -> bool:
    """Return whether nothing but a list of words in use tells a word from a name."""
    word = reading.words[place]
    return word.kind in (WordKind.UNKNOWN, WordKind.NAMED) or is_open_word(word.text)


def _joins(reading: TokenizedText, place: int, before: int, script: str) -> bool:
    """Return whether the word at ``place`` can be part of the name next to it."""
    if not 0 <= place < len(reading.words) or not _ONE_SPACE.fullmatch(reading.gap(before)):
        return False
    word = reading.words[place]
    if script_of(word.text[0]) != script:
        return False
    if script == "cjk":
        return len(word.text) == 1 and word.text not in _KANA_PARTICLES and reading.gap(before) == " "
    if fold_script(word.text) in script_cues()["function"]:
        return False
    return script in ("arabic", "hebrew", "devanagari") and word.kind is WordKind.NAMED


def _thai_names(reading: TokenizedText, place: int) -> None:
    """Cut the groups of words next to an unknown group if they are short and not only clinical words."""
    for step in (-1, 1):
        group: list[int] = []
        other = place + step
        while 0 <= other < len(reading.words) and script_of(reading.words[other].text[0]) == "thai":
            gap = reading.gap(min(other, other - step))
            if gap != (" " if not group else ""):
                break
            group.append(other)
            other += step
        length = sum(len(reading.words[other].text) for other in group)
        clinical = all(reading.words[other].text in listed_thai_words() for other in group)
        if length <= _LONGEST_THAI_NAME and not clinical:
            for other in group:
                reading.cut.setdefault(other, "label")


def _is_honorific(folded: str) -> bool:
    cues = script_cues()["honorific"]
    if folded in cues:
        return True
    # Korean forms of address have particles: 씨에게.
    return any(
        folded.startswith(cue) and folded[len(cue) :] in korean_tails()
        for cue in ("씨", "님", "선생님", "교수님")
    )


def _after(reading: TokenizedText, place: int, *, sure: bool) -> None:
    """Cut the words after a title or relation that can be names."""
    last = min(len(reading.words), place + 1 + _MOST_NAMES)
    for taken, here in enumerate(range(place + 1, last)):
        near = _BETWEEN_NAMES if taken else _AFTER_TITLE if sure else _NEAR
        if not near.fullmatch(reading.gap(here - 1)) or not _can_be_name(
            reading, here, sure=sure and not taken
        ):
            return
        reading.cut.setdefault(here, "title" if sure else "cue")
        # In Thai, the next word would follow the title in the next pass, and be cut as well.
        if sure and script_of(reading.words[here].text[0]) == "thai":
            reading.cut.setdefault(place, "title")


def _can_be_name(reading: TokenizedText, place: int, *, sure: bool) -> bool:
    word = reading.words[place]
    if not has_script(word.text) or word.kind is WordKind.NUMBER:
        return False
    folded, cues = fold_script(word.text), script_cues()
    if (
        folded in cues["title"]
        or folded in cues["relation"]
        or folded in cues["institution"]
        or folded in cues["join"]
        or folded in cues["function"]
    ):
        return False
    script = script_of(word.text[0])
    if word.kind is WordKind.NAMED and script == "hangul":
        return is_name_shaped(word.text)
    if word.kind in (WordKind.UNKNOWN, WordKind.NAMED):
        return True
    # After a relation stands a name, or what is said of the person: a verb, an adjective, a preposition.
    if is_open_word(word.text):
        said = folded.startswith(_SAYING.get(script, ())) or has_preposition(folded)
        if sure or not said:
            return script not in _CASED or word.titled
    if script in _CASED:
        return word.titled and not reading.capitals
    # After a relation and a space stands a name, or what the person has: มารดา บุญเรือน, ผู้ป่วย มีไข้.
    apart = reading.gap(place - 1) == " " and word.text not in listed_thai_words()
    return script == "thai" and (sure or apart)


def _before(reading: TokenizedText, place: int) -> None:
    """Cut the word before a form of address if it can be a name: ``高峰先生``, ``이상 님``."""
    if not place or not _TOUCHING.fullmatch(reading.gap(place - 1)):
        return
    word = reading.words[place - 1]
    folded = fold_script(word.text)
    script, cues = script_of(word.text[-1]), script_cues()
    if folded in cues["relation"] or folded in cues["title"] or folded in cues["honorific"]:
        return
    if word.kind in (WordKind.UNKNOWN, WordKind.NAMED) or word.text in _LONG_SURNAMES:
        reading.cut.setdefault(place - 1, "title")
    elif script == "hangul" and len(word.text) in range(2, _LONGEST_HANGUL_NAME + 1):
        alone = reading.gap(place - 1) == " " and fold_script(reading.words[place].text)[:1] in "씨님"
        if alone:
            reading.cut.setdefault(place - 1, "title")
    elif script == "cjk" and len(word.text) in range(2, _LONGEST_HAN_NAME + 1):
        form = reading.words[place].text
        if form in ("先生", "女士", "小姐", "氏", "様", "さん", "さま") and not _is_role(folded):
            reading.cut.setdefault(place - 1, "title")


def _is_role(folded: str) -> bool:
    return folded in (
        "患者",
        "家族",
        "担当",
        "主治医",
        "息子",
        "病人",
        "医生",
        "家属",
        "放射線科",
        "外科",
        "内科",
    )


def _institution(reading: TokenizedText, place: int) -> None:
    """Cut the name of an institution after its kind, or, in Chinese and Japanese, before it."""
    cues = script_cues()
    script = script_of(reading.words[place].text[0])
    if script == "cjk":
        _institution_before(reading, place)
        return
    pending: list[int] = []
    for here in range(place + 1, min(len(reading.words), place + 1 + _MOST_OF_INSTITUTION)):
        gap = reading.gap(here - 1)
        if not _WITHIN.fullmatch(gap):
            break
        word = reading.words[here]
        folded = fold_script(word.text)
        if folded in cues["institution part"] or (script not in _CASED and is_open_word(word.text)):
            pending.append(here)
            continue
        named = word.kind in (WordKind.UNKNOWN, WordKind.NAMED)
        named = named or (word.titled and (not _is_titled(reading) or is_open_word(word.text)))
        numbered = word.kind is WordKind.NUMBER and ("№" in gap or "#" in gap or gap == " ")
        glued = script == "thai" and not gap and folded not in _GENERIC
        if not (named or numbered or glued) or "," in gap:
            break
        for other in (*pending, here):
            reading.cut.setdefault(other, "institution")
        pending.clear()


def _institution_before(reading: TokenizedText, place: int) -> None:
    first = place
    named = False
    while first and place - first < _MOST_OF_INSTITUTION and not reading.gap(first - 1):
        word = reading.words[first - 1]
        if (
            script_of(word.text[0]) != "cjk"
            or word.text in _GENERIC
            or word.text in "由在到从於于转自のはがをにでとへ"
        ):
            break
        named = named or word.kind in (WordKind.UNKNOWN, WordKind.NAMED) or word.text.startswith("第")
        named = named or word.text in (
            "大学",
            "人民",
            "中心",
            "市",
            "省",
            "县",
            "区",
            "县立",
            "市立",
            "県立",
            "国立",
            "都立",
            "中央",
            "総合",
        )
        first -= 1
    if named:
        for other in range(first, place + 1):
            reading.cut.setdefault(other, "institution")


def _korean_institution(reading: TokenizedText, place: int) -> None:
    """Cut a Korean name of an institution written in one word with its kind: ``한국병원``."""
    text = reading.words[place].text
    for kind in _KOREAN_KINDS:
        name, found, tail = text.rpartition(kind)
        if found and name and name not in _GENERIC and (not tail or tail in korean_tails()):
            reading.cut.setdefault(place, "institution")
            # The university stands before its hospital: 연세대학교 세브란스병원.
            return


def _is_titled(reading: TokenizedText) -> bool:
    """Return whether each word of a text is capitalized; of two words, the second may be a name."""
    return reading.titles and sum(len(word.text) > _TITLED_TEXT for word in reading.words) >= _TITLED_TEXT


def _capitalized(reading: TokenizedText, place: int) -> None:
    """Cut a capitalized word inside a sentence: Russian and Greek write only proper nouns so."""
    word = reading.words[place]
    if not word.titled or reading.capitals or script_of(word.text[0]) not in _CASED or _is_titled(reading):
        return
    kept = script_cues()["institution"] | script_cues()["clinical"]
    if fold_script(word.text) in kept or word.text[1:2].isdigit():
        return
    if _is_of_term(reading, place):
        return
    before = reading.text[: word.start].rstrip()
    if place and before and not before.endswith(_SENTENCE):
        reading.cut.setdefault(place, "name")


def _is_of_term(reading: TokenizedText, place: int) -> bool:
    """Return whether a name follows the disease or method that is called by it: ``киста Бейкера``."""
    if (
        not place
        or reading.words[place].folded not in latin_cues()["eponym"]
        or reading.gap(place - 1) != " "
    ):
        return False
    heads = latin_cues()["disease"] | latin_cues()["technique"] | latin_cues()["according"]
    return reading.words[place - 1].folded in heads
