"""Names of employers, schools, clubs, ships, wards and rooms, recognized by the words next to them.

Such names are cut whole, because they often consist of ordinary words. The words next to them are in
``policies/tables/vocabulary_context.txt``.
"""

# ruff: noqa: E501  (one pattern a line)

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from medsanitize.policies.tables.vocabulary import context, cues, fold, words
from medsanitize.sanitize.text.morphology import is_clinical

_LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "sv")
_ARTICLES = "the|der|die|das|dem|den|le|la|les|l['’]|el|los|las|il|lo|i|gli|o|a|os|as|de|het|'t|du|des|del|della|dello|do|da"
_CAP = r"[A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĘĚĞĢĪİĶĹĻŁŃŅŇŌŐŒŔŘŚŞŠŢŤŪŮŰŹŻŽ]"
_NAME = rf"{_CAP}[\w'’&.-]{{0,40}}(?<![.-])"
_LINK = (
    r"(?:of|the|and|for|&|\+|de|du|des|d['’]|l['’]|la|le|les|del|della|dei|delle|do|da|dos|das|di|el|los|las|y|e|i|et|und|der|die|das|dem|den|für|im|am|zu|zum|zur|"
    r"van|voor|het|en|op|och|för|av|pod|nad|na|w|dla|im\.|nr\.?|no\.?)"
)
# "Oak & Sons", "College of Art", "Szkole nr 5"
_PHRASE = (
    rf"(?:{_NAME}|\d{{1,3}}\s{_NAME})(?:[ -](?:{_LINK}[ ]?){{0,3}}(?:{_NAME}|\d{{1,4}}(?![\w%]))){{0,6}}"
)
_UNIT = (
    r"(?!\s?(?i:mm|cm|ml|mg|kg|t|tesla|d|hz|%|°|x|fr|f|ch|min|h|w|positions?|pos|images?|views?"
    r"|days?|weeks?|months?|years?|hours?|times|tage?n?|wochen?|monate?n?|jahre?n?|stunden?|mal|jours?|semaines?|mois|ans?|heures?|fois|días?|semanas?|mes(?:es)?|años?|"
    r"horas?|veces|giorni?|settiman[ae]|mes[ei]|ann[oi]|or[ae]|volte|dias?|anos?|vezes|dag(?:en|ar|e)?|weken|maand(?:en)?|jaar|uur|keer|dni|tygodni[ae]?|miesi[ąęa]c[ey]?|lat|razy|"
    r"veck(?:a|or)|månad(?:er)?|år|gånger|uger?|måneder?|gange|dn[yíů]|týdn[yů]|měsíc[eů]?|gün|hafta|ay|yıl|kez)(?![^\W_]))"
)
# Not "bed 2 of 6", "bed 2/6", "room 2.5": counts and quantities.
_PLACE_NUMBER = (
    r"(?:\d{1,4}(?:[-.]\d{1,3}|-(?=[A-Z](?![^\W_])))?[ ]?(?:[A-Za-z](?![^\W_]))?|(?![LCTSlcts]\d)[A-Za-z]{1,2}-?\d{1,4}[A-Za-z]?|[A-Z](?=[ ]?(?:[,;.)]|$)))(?![\w%])"
    rf"(?![ ]?[/x×][ ]?\d|[.,]\d|[ ](?:of|von|sur|di|van|av|z)[ ]\d){_UNIT}"
)
_CODE = r"(?=(?:[^\W_]|[ /.-]){0,24}?\d(?:[^\d]?\d){2})(?:[A-Z]{1,6}[ -]?){0,4}\d[\w/.-]{1,24}(?<![./-])"
_UNCASED_AT = "at|by|bei|beim|chez|presso|bij|hos|por|par"
_MIXED = re.compile(rf"{_CAP}[^\W\d_]*[^\W\d_A-Z]")
_WORD = re.compile(r"[^\W_]+")
_MOST_LEFT = 4


_THE = re.compile(r"(?<![^\W_])[Tt]he $")


def find_context_names(text: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open spans of names that the words next to them reveal.

    Parameters
    ----------
    text : str

    Yields
    ------
    tuple of (int, int)
        In no order; spans may overlap.
    """
    for pattern in _patterns()["any"]:
        yield from (match.span("cut") for match in pattern.finditer(text))
    yield from (match.span("cut") for match in _patterns()["company"][0].finditer(text))
    # Without capitals, a name ends at a word that continues the sentence.
    if not _MIXED.search(text):
        for pattern in _patterns()["uncased"]:
            yield from (match.span("cut") for match in pattern.finditer(text))
        return
    for pattern in _patterns()["cased"]:
        yield from (
            _with_article(text, *match.span("cut"))
            for match in pattern.finditer(text)
            if _is_name(match["cut"])
        )
    yield from (_with_article(text, *span) for span in _kinds(text))
    for pattern in _patterns()["provider"]:
        yield from (match.span("cut") for match in pattern.finditer(text) if _names_provider(match["before"]))
    for pattern in _patterns()["alias"]:
        yield from (match.span("cut") for match in pattern.finditer(text) if _names_ward(match["cut"]))
    for pattern in _patterns()["ward"]:
        yield from (match.span() for match in pattern.finditer(text) if _names_ward(match["cut"]))


def _with_article(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span by an English article before it, which would remain without a noun."""
    article = _THE.search(text, max(0, start - 5), start)
    return (article.start() if article else start), end


def _is_name(phrase: str) -> bool:
    """Return whether a phrase is a name, not an abbreviation such as ``MRI`` or a word such as ``Rente``."""
    found = [word for word in _WORD.findall(phrase) if word[0].isupper()]
    if len(found) == 1 and fold(found[0]) in context()["stop"]:
        return False
    return not all(word.isupper() and fold(word) in words() for word in found)


def _names_ward(phrase: str) -> bool:
    """Return whether a ward is called by a name, not by its department."""
    found = [fold(word) for word in _WORD.findall(phrase)]
    return not any(word in context()["department"] or is_clinical(word) for word in found)


def _names_provider(phrase: str) -> bool:
    """Return whether the words before ``Center`` are more than the name of a specialty."""
    found = [fold(word) for word in _WORD.findall(phrase)]
    generic = context()["department"] | context()["specialty"]
    return not all(word in generic or is_clinical(word) for word in found)


def _kinds(text: str) -> Iterator[tuple[int, int]]:
    """Yield kinds of companies, schools, clubs and ships with the name before or after them."""
    after, before = _patterns()["after"][0], _patterns()["before"][0]
    for kind in _patterns()["kind"][0].finditer(text):
        # "club foot" is a deformity.
        if text[kind.end() :].lstrip(" -")[:4].lower() in ("foot", "feet", "hand"):
            continue
        named = after.match(text, kind.end())
        end = named.end() if named else kind.end()
        start = kind.start()
        # "Lärare på Gröna Ängens skola": a capital at the start of a text says nothing.
        if kind[0][0].isupper() or (
            (left := before.search(text, max(0, start - 44), start)) and left.start()
        ):
            start = _left(text, start, before)
        if named or start < kind.start():
            yield start, end


def _left(text: str, start: int, before: re.Pattern[str]) -> int:
    """Return the start of the capitalized words before a kind: ``Oak Hill High School``."""
    for _ in range(_MOST_LEFT):
        found = before.search(text, max(0, start - 44), start)
        if found is None:
            break
        # "Attends Oak School": the first word of a sentence has a capital of its own.
        if fold(found["word"]) in _patterns_of_work():
            break
        start = found.start("word")
    return start


@cache
def _patterns_of_work() -> frozenset[str]:
    return frozenset().union(*(context()[f"{kind} {one}"] for kind in ("work", "at") for one in _LANGUAGES))


@cache
def _patterns() -> dict[str, list[re.Pattern[str]]]:
    """Return the patterns by kind; the group ``cut`` is the name."""
    lists = context()
    kind, ending = _either(lists["kind"]), _either(lists["kind ending"])
    return {
        "any": _of_places(),
        "cased": [re.compile(pattern) for pattern in (*_of_work(), *_of_members())],
        "uncased": [re.compile(_of_work_uncased(), re.IGNORECASE)],
        "kind": [re.compile(rf"(?<![^\W_])(?:{kind}|[^\W\d_]{{2,24}}(?:{ending}))(?![^\W_])", re.IGNORECASE)],
        "after": [
            re.compile(
                rf"[ ](?:(?:of[ ]|de[ ]|d['’]|di[ ]|da[ ]|do[ ])[^\W\d_]{{3,20}}[ ](?=(?:{_LINK})[ ]))?(?:{_LINK}[ ]?){{0,3}}{_PHRASE}"
            )
        ],
        "before": [
            re.compile(rf"(?:^|(?<=[^\w]))(?P<word>{_CAP}[\w'’&-]{{0,40}})[ ](?:(?:of|and|de|van)[ ])?$")
        ],
        "company": [_of_companies()],
        "provider": _of_providers(),
        "alias": _of_aliases(),
        "ward": _of_wards(),
    }


def _of_work() -> list[str]:
    lists, found = context(), []
    for language in _LANGUAGES:
        work, at = _either(lists[f"work {language}"]), _either(lists[f"at {language}"])
        gap = r"(?:[ -][^\W\d_]{1,20}){0,3}?"
        # "plays football for Harbor United", "Accident du travail dans l'entreprise Métal Union"
        found.append(
            rf"(?<![^\W_])(?i:{work}){gap}[ ](?i:{at})(?:(?<=['’])|[ ])(?:(?i:{_ARTICLES})[ ]?){{0,2}}"
            rf"(?:(?!(?i:{at})[ ])[a-zà-ÿąćęłńóśźż]{{3,20}}[ ])?(?P<cut>{_PHRASE})"
        )
    return found


def _of_work_uncased() -> str:
    lists = context()
    stop = _either(lists["stop"])
    anyone = _either(frozenset().union(*(lists[f"work {language}"] for language in _LANGUAGES)))
    return (
        rf"(?<![^\W_])(?:{anyone})(?:[ ][^\W\d_]{{1,20}}){{0,2}}?[ ](?:{_UNCASED_AT})[ ]"
        rf"(?P<cut>(?!(?:an?|eine[rmns]?|une?|una|uno|um|uma|een|en|ett)[ ])(?:(?:{_ARTICLES})[ ])?(?!(?:{stop})(?![^\W_]))[^\W\d_]+"
        rf"(?:[ &-]{{1,3}}(?!(?:{stop})(?![^\W_]))[^\W\d_]+){{0,3}})"
    )


def _of_members() -> list[str]:
    lists = context()
    signed = "befundet|vidiert|validiert|freigegeben|diktiert|unterschrieben|gegengelesen|dictated|verified|authorised|authorized|signed off"
    member, title = _either(lists["member"]), _either(cues()["title"])
    label, aboard, vessel = (_either(lists[name]) for name in ("employer label", "aboard", "vessel"))
    return [
        rf"(?<![^\W_])(?i:{member})[ ](?P<cut>{_PHRASE})",
        rf"(?<![^\W_])(?i:{label})(?:[ ][a-z]{{2,10}}){{0,2}}[ ]?:[ ]?(?P<cut>{_PHRASE})",
        rf"(?<![^\W_])(?i:{aboard})[ ](?:(?i:van|of|på|{_ARTICLES})[ ]?){{0,2}}(?:[a-zà-ÿąćęłńóśźż]{{3,12}}[ ])?(?P<cut>{_PHRASE})",
        rf"(?<![^\W_])(?P<cut>(?:{vessel.upper()})[ ]{_PHRASE})",
        # "befundet am 4. von Wiesengrund": an ordinary word behind such a verb is a name.
        rf"(?<![^\W_])(?i:{signed})(?:[ ](?:am|on)(?:[ ][\d./-]{{1,10}})?)?[ ](?:von|durch|by)[ ]"
        # A title shows the name behind it, and stays.
        rf"(?!(?i:{title})(?![^\W_]))(?P<cut>{_PHRASE})",
        # A home: "no Lar Nossa Senhora da Paz".
        rf"(?<![^\W_])(?:no|do|ao|em)[ ](?P<cut>Lar[ ](?:d[aeo]s?[ ])?{_PHRASE})",
    ]


def _of_places() -> list[re.Pattern[str]]:
    """Places with their numbers, and the numbers of laboratories."""
    lists = context()
    place, number = _either(lists["place"]), _either(lists["place number"])
    body, ward = _either(lists["accreditation"]), _either(lists["ward"])
    return [
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            rf"(?<![^\W_])(?<!gamma )(?<!gamma-)(?<!node )(?<!nodes )(?<!klieren )(?<!lymphknoten )(?P<cut>(?:{place}|[^\W\d_]{{2,20}}(?:station|zimmer|saal|zaal))\.?"
            rf"(?:[ .:#-]{{0,3}}(?:{number})(?![^\W_]))?[ .:#-]{{0,3}}(?-i:{_PLACE_NUMBER}))",
            # Hungarian has the number first: "3. kórterem".
            r"(?<![^\W_])(?P<cut>\d{1,4}\.?(?:[/-]\w{1,3})?\.?[ ](?:sz(?:ámú|\.)?[ ])?(?:kórterem|szoba|ágy|emelet|osztály)[^\W\d_]{0,5})(?![^\W_])",
            # "Afd. C5": a ward, no vertebra.
            rf"(?<![^\W_])(?P<cut>(?:{ward})\.?[ :-]{{1,2}}(?-i:[A-Z]-?\d{{1,3}}[A-Z]?))(?![\w%])",
            r"(?<![^\W_])(?P<cut>(?-i:Rm)\.?[ ]?\d{1,4}[A-Za-z]?)(?![\w]|[.,]\d)",
            r"(?<![^\W_])(?P<cut>\d{1,2}[ ]?(?-i:North|South|East|West)(?:[ -]?\d{1,3}[A-Z]?)?|(?-i:\d{1,2}[NSEW]-\d{1,3}))(?![^\W_])",
            r"(?<![^\W_])(?P<cut>ch\.?[ ]\d{1,4}(?=[ ,/-]{1,3}lit[ ]))",
            # In Romance languages "RM" is an MRI.
            r"(?<=clinic|.floor|..ward|..unit|..dept) (?P<cut>(?-i:RM)\.?[ ]?\d{1,4}[A-Z]?)(?![\w]|[.,]\d)",
            rf"(?<![^\W_])(?P<cut>(?:{body})[ .:#-]{{0,3}}(?:(?:{number})[ .:#-]{{1,3}}){{0,2}}(?-i:{_CODE}))",
            r"(?<![^\W_])(?:akkreditierung|accr[eé]ditation|acreditaci[oó]n|accreditamento|acreditação|accreditatie|akredytacja|ackreditering)"
            rf"[ .:#-]{{1,3}}(?:(?:{number})[ .:#-]{{1,3}}){{0,2}}(?P<cut>(?:[^\W\d_]{{2,12}}[ -]{{1,2}})?(?-i:{_CODE}))",
            r"(?<![^\W_])(?P<cut>\d{2}D\d{7})(?![^\W_])",
        )
    ]


def _of_companies() -> re.Pattern[str]:
    """Shops with the branch or the place after them: ``Edeka Kessler in Hagen``."""
    company = _either(one.replace("-", " ") for one in context()["company"])
    place = rf"{_CAP}[^\W\d_]{{1,30}}"
    return re.compile(
        rf"(?<![^\W_])(?P<cut>(?={_CAP})(?i:{company})(?:[ ]{place}){{0,2}}"
        rf"(?:[ ](?:in|at|on|i|we?|de|di|en|à|em|te|of)[ ]{place}(?:[ -]{place}){{0,2}})?)(?![^\W_])"
    )


def _of_providers() -> list[re.Pattern[str]]:
    provider = _either(one.capitalize() for one in context()["provider"])
    return [
        # "at Vision Plus Center", "from Sunrise Imaging Associates"
        re.compile(
            rf"(?<![^\W_])(?:at|from|to|via|by|in|bei|vom|im|au|du|chez|en|al|del|presso|dal|no|do|pelo|bij|van|från|på)[ ](?:the[ ])?"
            rf"(?P<cut>(?P<before>{_CAP}[\w'’&-]{{1,30}}(?:[ ](?:(?:of|and|&|de|la)[ ]){{0,2}}{_CAP}[\w'’&-]{{1,30}}){{0,3}})[ ](?:{provider}))(?![^\W_])"
        ),
    ]


def _of_aliases() -> list[re.Pattern[str]]:
    alias = _either(one.replace("-", " ") for one in context()["alias"])
    return [
        re.compile(
            rf"(?<![^\W_])(?i:{alias})[ ]?:?[ ]?[\"“„«'‘]?(?P<cut>{_CAP}[\w'’.-]{{0,30}}(?:[ ]{_CAP}[\w'’.-]{{0,30}}){{0,2}})"
        ),
        # "AKA" is an amputation, and a disease is "also known as" another.
        re.compile(
            rf"(?<![^\W_])(?:aka|(?:(?:^|[.;,(][ ]?)(?i:known as)))[ ]?[\"“'‘]?(?P<cut>{_CAP}[\w'’.-]{{0,30}}(?:[ ]{_CAP}[\w'’.-]{{0,30}}){{0,2}})"
        ),
    ]


def _of_wards() -> list[re.Pattern[str]]:
    ward = _either(context()["ward"])
    return [
        re.compile(rf"(?<![^\W_])(?i:{ward})[ -][\"„“]?(?P<cut>{_CAP}[^\W\d_A-Z]{{2,30}})[\"“”]?"),
        re.compile(
            rf"(?<![^\W_])(?P<cut>{_CAP}[^\W\d_A-Z]{{2,30}}(?:[ ]{_CAP}[^\W\d_A-Z]{{2,30}}){{0,2}})[ ][Ww]ard(?![^\W_])"
        ),
    ]


def _either(found: Iterable[str]) -> str:
    """Return an alternation of words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(found, key=lambda word: (-len(word), word)))
