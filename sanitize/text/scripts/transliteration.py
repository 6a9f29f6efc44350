"""Comparison of names in Latin letters with names in Arabic, Hebrew, Devanagari, Thai and Hangul letters.

Each letter has the spellings that systems of romanization and passports use for it: ALA-LC and UNGEGN (Arabic,
Hebrew), ISO 15919 and Hunterian (Devanagari), RTGS (Thai), Revised Romanization and McCune-Reischauer (Hangul).
A Latin name spells a word if it can be divided into spellings of its letters, in order. Vowels that a script
does not write may be left over inside the name, but not at its beginning.
"""

# ruff: noqa: E501  (one table of spellings a line)

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Final

_VOWELS: Final = frozenset("aeiou")
_DOUBLE_VOWELS: Final = frozenset(["aa", "ee", "ae", "ie", "ei", "eu", "oe", "ai"])
_ABSENT: Final = "-"


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """Parse ``letters:spelling,spelling`` entries; ``-`` is no letter."""
    found = {}
    for entry in text.split():
        letters, _, spellings = entry.partition(":")
        listed = tuple("" if one == _ABSENT else one for one in spellings.split(","))
        found.update(dict.fromkeys(letters, listed))
    return found


_ARABIC: Final = _table(
    "اأإآٱى:a,e,i,o,u,aa,-,ae,ou,oo,ee ع:a,-,e,i,o,u,aa,ae,oo,ou,ee ءئؤ:-,a,e,i,o,u,ou ب:b,p پ:p ت:t ث:th,t,s ج:j,g,dj,dg گ:g چ:ch,tch "
    "ح:h خ:kh,k,ch,h,j د:d ذ:dh,z,d,th ر:r ز:z,s س:s,c ش:sh,ch,sch,s,sz ص:s,c ض:d,dh ط:t ظ:z,dh,th,d غ:gh,g,rh ف:f,ph,v,w "
    "ق:q,k,g,c,gh,kh كک:k,c,q,ck ل:l م:m ن:n هة:h,-,a,ah,e,eh,t,et,at و:w,u,o,ou,oo,v,au,ow,aw,oh,io يی:y,i,e,ee,j,ai,ay,ei,ey,ie,iy,-"
)  # fmt: skip
_HEBREW: Final = _table(
    "א:-,a,e,i,o,u,aa ב:b,v,w ג:g,j ד:d ה:h,-,a,ah,e,eh ו:v,w,u,o,ou,oo ז:z,s,j ח:h,ch,kh,- ט:t י:y,i,e,j,ee,ei,ai,ay,ey,ie,-,yi "
    "כך:k,c,ch,kh,ck ל:l מם:m נן:n ס:s,c ע:-,a,e,i,o,u פף:p,f,ph צץ:ts,tz,z,c,cz,s,tch,ch ק:k,c,q,ck ר:r ש:sh,s,sch,ch ת:t,th"
)  # fmt: skip
_DEVANAGARI: Final = _table(
    "क:k,c,q,ck ख:kh,k ग:g घ:gh,g ङ:n,ng च:ch,c छ:chh,ch ज:j,z,g झ:jh,z,j ञ:n,ny,- ट:t ठ:th,t ड:d,r ढ:dh,d,rh ण:n त:t,th थ:th,t "
    "द:d,dh,th ध:dh,d न:n प:p फ:ph,f,p ब:b भ:bh,b म:m य:y,i,j,- र:r ल:l व:v,w,b,o,u श:sh,s ष:sh,s,kh स:s,c ह:h,gh,- ळ:l "
    "अ:a,u,e,- आा:a,aa इि:i,e,ee,y ईी:i,ee,y,ie,ey,e उु:u,oo,o ऊू:u,oo,uu एे:e,a,i,ay ऐै:ai,ay,e,ei,ey ओो:o,u औौ:au,ou,ow,o ऑॉ:o,a,au ऋृ:ri,ru,r "
    "ंँ:n,m,ng,- ःऽ:h,- ़्:-"
)  # fmt: skip
_THAI: Final = _table(
    "ก:k,g ขคฆ:kh,k,g ง:ng จ:ch,j,t,c,d ฉชฌ:ch,sh,t ซสศษ:s,t,d ดฎ:d,t ตฏ:t,d ถทธฐฑฒ:th,t,d น:n ณ:n,- ญ:y,n บ:b,p ป:p,b ผพภ:ph,p,b ฝฟ:f,p ม:m ย:y,i,- ร:r,n,l,rn,- "
    "ลฬ:l,n วฺ:w,v,o,u,- หฮ:h,- อ:-,o,a,or,aw,u,i,e ะ:a,- ัา:a,aa,ar,u ำ:am,um ิ:i,-,e ีึื:i,ee,ue,u,e,eu,y ุู:u,oo เ:e,-,ay แ:ae,a,e โ:o,oh ไใ:ai,ay,i,y,ei ็่้๊๋ฯ:- ฤ:ri,rue,ru"
)  # fmt: skip
_HANGUL: Final = {
    **_table(
        "ᄀ:g,k ᄁ:k ᄂ:n ᄃ:d,t ᄄ:t,d ᄅ:r,l,n ᄆ:m ᄇ:b,p,v ᄈ:p ᄉ:s,sh ᄊ:s ᄋ:- ᄌ:j,ch,z ᄍ:j,ch ᄎ:ch,c ᄏ:k,c,kh ᄐ:t,th ᄑ:p,f ᄒ:h "
        "ᅡ:a,ah,ar ᅢ:ae,ai,e,ay ᅣ:ya ᅤ:yae ᅥ:eo,u,o,au,uh,eu ᅦ:e,ey ᅧ:yeo,you,yu,yo,yaw,eo,u,ou ᅨ:ye,e ᅩ:o,oh ᅪ:wa,oa ᅫ:wae ᅬ:oe,oi,we,e ᅭ:yo,o ᅮ:u,oo,woo,wu,ou ᅯ:wo,weo,won,wu "
        "ᅰ:we ᅱ:wi,we ᅲ:yu,you,yoo,u,oo ᅳ:eu,u,e ᅴ:ui,eui,ee,i,ie ᅵ:i,ee,yi,y,ih,e"
    ),
    **_table(
        "ᆨᆩᆿ:k,g,c,ck ᆫᆭ:n ᆮᆺᆻᆽᆾᇀᇂ:t,s,d,- ᆯᆶ:l,r ᆷ:m ᆸᇁ:p,b ᆼ:ng,n ᆰ:k,lk ᆱ:m ᆲ:p,l ᆹ:p ᆬ:n"
    ),
}  # fmt: skip
# Article, whose l is assimilated to some letters: an-nasir, ash-sharif; and the sound ch.
_ARTICLE: Final = ("al", "el", "ul", "il", "ol", "l", "a", "e", "u", "i", "o", "ou", "")
_ARABIC_UNITS: Final = re.compile("(?<![^ ])ال(?=..)|تش|.")
_UNITS: Final = {"ال": _ARTICLE, "تش": ("ch", "c", "cz", "tch", "tsch", "tsh"), " ": ("",)}
# Surnames with spellings of their own; with the sound of the Latin name before the letters.
_SURNAMES: Final = {
    "이": ("lee", "rhee", "yi", "li", "ri", "i", "rie", "leigh"),
    "박": ("park", "pak", "bak", "bark"),
    "임": ("lim", "im", "rim", "yim"),
    "유": ("yoo", "ryu", "yu", "you", "ryoo", "lyu"),
    "류": ("ryu", "ryoo", "yoo", "yu", "lyu"),
    "노": ("noh", "roh", "no", "ro"),
    "양": ("yang", "ryang"),
    "엄": ("um", "eom", "uhm", "om"),
    "여": ("yeo", "yo", "ryeo"),
    "염": ("yeom", "yum", "ryeom"),
}
_TABLES: Final = {
    "arabic": _ARABIC,
    "hebrew": _HEBREW,
    "devanagari": _DEVANAGARI,
    "thai": _THAI,
    "hangul": _HANGUL,
}
SCRIPTS: Final = frozenset(_TABLES)
"""Scripts that `spells` compares with Latin."""
# Vowels that a script writes: any other may be left over in the Latin spelling.
_WRITES_VOWELS: Final = frozenset(["hangul"])
_SILENT: Final = re.compile("[ก-ฮ][ิุ]?์")
_BEFORE_CONSONANT: Final = re.compile("([เแโไใ])([ก-ฮ])")
_POINTS: Final = re.compile("[\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u05f3\u05f4\"'`’]")
_REPEATED: Final = re.compile("([ก-ฮ\u0915-\u0939])\u094d?\\1")
_DOUBLE_WEAK: Final = re.compile("([ויوي])\\1")
_DOUBLED: Final = re.compile(r"([bcdfghjklmnpqrstvwxyz])\1")


@lru_cache(maxsize=262_144)
def spells(latin: str, word: str, script: str) -> bool:
    """Return whether a Latin name is a spelling of a word of another script.

    Parameters
    ----------
    latin : str
        Lower case, without accents.
    word : str
    script : str
        One of `SCRIPTS`.

    Examples
    --------
    >>> spells("mohammed", "محمد", "arabic"), spells("mahmoud", "محمد", "arabic")
    (True, False)
    """
    letters = _spellings(word, script)
    latin = _DOUBLED.sub(r"\1", latin.replace("x", "ks"))
    return bool(letters) and _divides(latin, letters, script not in _WRITES_VOWELS)


def syllable_spellings(word: str) -> frozenset[str]:
    """Return the Latin spellings of a Korean name of one syllable; none of another word."""
    if len(word) != 1 or not "\uac00" <= word <= "\ud7a3":
        return frozenset()
    spelt = ("".join(one) for one in product(*_spellings(word, "hangul")))
    return frozenset(_SURNAMES.get(word, ())) | {_DOUBLED.sub(r"\1", one) for one in spelt}


@lru_cache(maxsize=65536)
def _spellings(word: str, script: str) -> tuple[tuple[str, ...], ...]:
    """Return the spellings of each letter of a word; none if a letter is not of the script."""
    table = _TABLES[script]
    found: list[tuple[str, ...]] = []
    if script == "hangul" and word[:1] in _SURNAMES and len(word) > 2:
        found.append(_SURNAMES[word[0]])
        word = word[1:]
    letters = _letters(word, script)
    for letter in _ARABIC_UNITS.findall(letters) if script == "arabic" else letters:
        spellings = _UNITS.get(letter) or table.get(letter)
        if spellings is None:
            return ()
        found.append(spellings)
    return tuple(found)


def _letters(word: str, script: str) -> str:
    if script == "hangul":
        return unicodedata.normalize("NFD", word)
    if script == "thai":
        return _BEFORE_CONSONANT.sub(r"\2\1", _SILENT.sub("", _REPEATED.sub(r"\1", word)))
    if script == "devanagari":
        return _REPEATED.sub(r"\1", unicodedata.normalize("NFD", word))
    return _DOUBLE_WEAK.sub(r"\1", _POINTS.sub("", word)).replace("ن ن", "ن")


def _divides(latin: str, letters: Sequence[tuple[str, ...]], unwritten: bool) -> bool:
    """Return whether a name divides into one spelling of each letter, and vowels that are not written."""
    reached = {0}
    for spellings in letters:
        if unwritten:
            reached = _past_vowels(latin, reached)
        reached = {
            place + len(spelling)
            for place in reached
            for spelling in spellings
            if latin.startswith(spelling, place)
        }
        if not reached:
            return False
    if unwritten:
        reached = _past_vowels(latin, reached)
    return len(latin) in reached


def _past_vowels(latin: str, reached: set[int]) -> set[int]:
    """Add the places behind a short vowel, also in its double spelling, except at the beginning."""
    more = set(reached)
    for place in reached:
        for end in (place + 1, place + 2):
            if place and (latin[place:end] in _VOWELS or latin[place:end] in _DOUBLE_VOWELS):
                more.add(end)
    return more
