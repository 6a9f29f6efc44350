"""Cognates: candidate words of a language, derived from words of another by ending and spelling.

``appendicitis`` becomes ``appendicite`` in Italian, ``-ción`` becomes ``-ção``. A candidate counts if
`is_word` finds that it is in use and not a name. Run by a maintainer, never at run time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from medsanitize.policies.tables import vocabulary
from medsanitize.tools.standard_tables.terminologies import installed
from medsanitize.tools.standard_tables.word_checks import is_in_use, is_word, may_stay

LANGUAGES = tuple("en cs da de es fr it nl pl pt sv tr".split())
ENDINGS = (
    "tion ce tion tion ción tion zione tie cja ção tion syon",
    "sion ze sion sion sión sion sione sie sja são sion zyon",
    "ty ta tet tät dad té tà teit ność dade tet te",
    "al ální al al al al ale aal alny al al al",
    "al álního ale ale ales ale ali ale alna ais ala el",
    "al álně alt aler ales aux ali ele alne ais alt al",
    "ic ický isk isch ico ique ico isch yczny ico isk ik",
    "ical ická iske ische ica ique ica ische yczna ica iska ik",
    "ive ivní iv iv ivo if ivo ief ywny ivo iv if",
    "ive ivním ive ive iva ive iva ieve ywna iva iva if",
    "ous ózní øs ös oso eux oso eus yczny oso ös öz",
    "ous ózní øse öse osa euse osa euze yczna osa ösa öz",
    "logy logie logi logie logía logie logia logie logia logia logi loji",
    "graphy grafie grafi graphie grafía graphie grafia grafie grafia grafia grafi grafi",
    "y ie i ie ia ie ia ie ia ia i i",
    "y ii ien ien ía ie ie ieën ii ía in i",
    "ism ismus isme ismus ismo isme ismo isme yzm ismo ism izm",
    "sis za se se sis se si se za se s z",
    "itis itida itis itis itis ite ite itis ie ite it it",
    "ate ovaný eret iert ado é ato eerd owany ado erad e",
    "ated ovaná erede ierte ada ée ata eerde owana ada erade e",
    "ate ovat ere ieren ar er are eren ować ar era e",
    "ant antní ant ant ante ant ante ant ant ante ant an",
    "ent entní ent ent ente ent ente ent ent ente ent an",
    "ble bilní bel bel ble ble bile bel bilny vel bel bl",
    "or or or or or eur ore or or or or ör",
    "a a a a a e a a a a a a",
    "um um um um o um o um um o um um",
    "- - - - o e o - - o - -",
    "- a - e a e a e a a - -",
)
"""Endings of one word in the languages above; ``-`` stands for none."""
SPELLINGS = {
    "cs": r"c(?=[aourlt])>k ph>f th>t x>x qu>kv ([^aeiou])\1>\1 ae|oe>e",
    "da": r"c(?=[aourlt])>k ph>f th>t ch>k ae|oe>e x>ks qu>kv ti(?=o)>ti",
    "de": r"c(?=[aourlt])>k ph>ph c(?=[eiy])>z",
    "es": r"ph>f th>t rrh>rr y>i ch>c ch>qu ([^rlc])\1>\1 ^s(?=[ptc])>es ae|oe>e k>c mm>nm qu>cu",
    "fr": r"ae>é oe>œ k>c",
    "it": r"ph>f th>t rrh>rr y>i ch>c ae|oe>e k>c ct>tt pt>tt x>ss x>s h> bs>ss pl>pi dm>mm",
    "nl": r"ae|oe>e ph>f rrh>rr",
    "pl": r"c(?=[aourlt])>k ph>f th>t x>ks v>w qu>kw ([^aeiou])\1>\1 ae|oe>e y>y",
    "pt": r"ph>f th>t rrh>rr y>i ch>c ch>qu ([^rs])\1>\1 ^s(?=[ptc])>es ae|oe>e k>c",
    "sv": r"c(?=[aourlt])>k ph>f th>t c(?=[eiy])>c ch>k ae|oe>e x>x qu>kv",
    "tr": r"c(?=[aourlt])>k ph>f th>t x>ks ([^aeiou])\1>\1 ae|oe>e c(?=[eiy])>s ch>k",
}
"""Spelling of Greek and Latin roots: English pattern > replacement in a language; each rule is optional."""
ACCENTS = {
    "cs": "aá eé ií oó uú yý",
    "da": "aæ oø",
    "de": "aä oö uü",
    "es": "aá eé ií oó uú",
    "fr": "eéèê iîï oô uû",
    "nl": "eëé iï",
    "pt": "aáâã eéê ií oóôõ uú",
    "sv": "aä eé oö",
    "tr": "iı oö uü",
}
"""By language: letters and their accented forms."""
ROMANCE = tuple("es pt it fr".split())
ROMANCE_ENDINGS = (
    "ción ção zione tion",
    "sión são sione sion",
    "dad dade tà té",
    "miento mento mento ment",
    "aje agem aggio age",
    "tad dade tà té",
    "ico ico ico ique",
    "ica ica ica ique",
    "able ável abile able",
    "ible ível ibile ible",
    "ar ar are er",
    "er er ere re",
    "ir ir ire ir",
    "ado ado ato é",
    "ada ada ata ée",
    "ido ido ito i",
    "ida ida ita ie",
    "oso oso oso eux",
    "osa osa osa euse",
    "or or ore eur",
    "ia ia ia ie",
    "ivo ivo ivo if",
    "iva iva iva ive",
    "encia ência enza ence",
    "ancia ância anza ance",
    "al al ale al",
    "o o o e",
    "a a a e",
    "e e e e",
    "- - - -",
    "ura ura ura ure",
    "ario ário ario aire",
    "aria ária aria aire",
    "mente mente mente ment",
    "nte nte nte nt",
    "tico tico tico tique",
    "ción ción ción ção",
)
ROMANCE_SPELLINGS = {
    ("es", "it"): r"ll>l ñ>gn ue>uo ue>o h>f ct>tt x>ss j>gi ct>tt pt>tt d>t b>v",
    ("es", "pt"): r"ll>lh ñ>nh ue>o ie>e e>i ^tras>trans h>f y>i n$>m z>ç j>lh ch>ch",
    ("fr", "es"): r"ph>f th>t y>i é>e è>e (.)\1>\1",
    ("fr", "it"): r"ph>f th>t y>i ct>tt pt>tt é>e è>e eu>o",
    ("fr", "pt"): r"ph>f th>t y>i é>e è>e (.)\1>\1",
    ("it", "es"): r"tt>ct zz>z gn>ñ",
    ("it", "pt"): r"tt>t gn>nh",
    ("pt", "es"): r"lh>j nh>ñ",
    ("pt", "it"): r"lh>gli nh>gn ct>tt ç>z",
}
NEIGHBORS = {
    "cs": "pl",
    "da": "nb sv de",
    "de": "nl",
    "fr": "es",
    "nl": "de",
    "pl": "cs",
    "sv": "nb de",
    "tr": "fr",
}
"""Languages whose words are tried without changes."""
NORDIC = r"ø>ö æ>ä"
DANISH = r"ö>ø ä>æ t(?=[aeio])>d k(?=[aeio])>g p(?=[aeio])>b øy>øj ei>ej"
# Shorter stems give mostly chance words; longer neighbors are compounds.
SHORTEST_STEM = 3
SHORTEST_CLINICAL = 7
LONGEST_NEIGHBOR = 15
# Each rule may double the number of spellings.
MOST_SPELLINGS = 40


def cognates(language: str, lists: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return words of a language that are respelled English words or words of neighboring languages.

    Parameters
    ----------
    language : str
        One of ``LANGUAGES``.
    lists : mapping of str to frozenset of str
        Word lists by language.
    """
    tried = {*_from_english(language, lists["en"] | vocabulary.words()), *_from_neighbors(language, lists)}
    return frozenset(
        form for one in sorted(tried) for form in _accented(one, language) if is_word(form, language)
    )


@cache
def clinical_cognates(language: str) -> frozenset[str]:
    """Return words in use that correspond to English words of the terminologies that ship."""
    return frozenset(
        form
        for one in sorted(set(_from_english(language, clinical_words())))
        for form in _accented(one, language)
        if is_in_use(form, language)
    )


@cache
def clinical_words() -> frozenset[str]:
    """Return long words of the terminologies that ship; those with a capital may be eponyms."""
    return frozenset(
        word
        for source in installed()
        if source.shipped
        for term in source.terms()
        for word in vocabulary.split_words(term)
        if len(word) >= SHORTEST_CLINICAL and word.isascii() and word.isalpha() and word.islower()
    )


def _from_english(language: str, english: Iterable[str]) -> Iterator[str]:
    place = LANGUAGES.index(language)
    rows = [row.replace("-", "").split(" ") for row in ENDINGS]
    for word in sorted(english):
        if len(word) <= SHORTEST_STEM + 1 or not (word.isascii() and may_stay(word)):
            continue
        yield word
        for row in rows:
            stem = word.removesuffix(row[0])
            if word.endswith(row[0]) and len(stem) >= SHORTEST_STEM:
                yield from _spelt(stem + row[place], SPELLINGS.get(language, ""))


def _from_neighbors(language: str, lists: Mapping[str, frozenset[str]]) -> Iterator[str]:
    if language in ROMANCE:
        for other in ROMANCE:
            if other != language:
                yield from _romance(language, other, lists[other])
    rules = {"sv": NORDIC, "da": DANISH}.get(language, "")
    for other in NEIGHBORS.get(language, "").split():
        for word in lists[other]:
            if len(word) <= LONGEST_NEIGHBOR:
                yield from _spelt(word, rules)


def _romance(language: str, other: str, words: Iterable[str]) -> Iterator[str]:
    rows = [row.replace("-", "").split(" ") for row in ROMANCE_ENDINGS]
    here, there = ROMANCE.index(language), ROMANCE.index(other)
    rules = ROMANCE_SPELLINGS.get((other, language), "")
    for word in words:
        if not may_stay(word):
            continue
        for row in rows:
            stem = word.removesuffix(row[there])
            if word.endswith(row[there]) and len(stem) >= SHORTEST_STEM - 1:
                for base in {stem, _bare(stem)}:
                    yield from (one + row[here] for one in _spelt(base, rules))


def _spelt(word: str, rules: str) -> set[str]:
    """Return the word, and the results of applying any subset of rules."""
    made = {word}
    for pattern, replacement in _rules(rules):
        if len(made) < MOST_SPELLINGS:
            made |= {pattern.sub(replacement, one) for one in made}
    return made


@cache
def _rules(rules: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    parts = (rule.split(">") for rule in rules.split())
    return tuple((re.compile(pattern), replacement) for pattern, replacement in parts)


def _accented(word: str, language: str) -> Iterator[str]:
    """Yield the word, and the word with one of its letters accented."""
    yield word
    accents = {group[0]: group[1:] for group in ACCENTS.get(language, "").split()}
    for place, letter in enumerate(word):
        for other in accents.get(letter, ""):
            yield word[:place] + other + word[place + 1 :]


def _bare(word: str) -> str:
    spread = unicodedata.normalize("NFD", word)
    return "".join(char for char in spread if not unicodedata.combining(char))
