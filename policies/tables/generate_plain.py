"""Make the lists of ordinary words that cleaned texts may keep.

``python -m medsanitize.policies.tables.generate_plain`` writes ``vocabulary_plain.txt``,
``vocabulary_doubtful.txt`` and ``vocabulary_parts.txt`` beside this module, from the hand-written
``plain_*.txt``, one a language. Run by a maintainer, never at run time. It needs what ``generate_open`` needs:
lists of names, and simplemma, which is asked whether an inflected form is a word of the language and of the
same lemma; nothing of these is shipped.
"""

# ruff: noqa: E501  (one language a paragraph)

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path

from medsanitize.policies.tables.generate_open import is_frequent, may_stay, other_names
from medsanitize.policies.tables.generate_vocabulary import keep_words, name_words, stop_words
from medsanitize.policies.tables.vocabulary import fold, words

HERE = Path(__file__).parent
SHORT = 3
"""Words up to this length that a person listed are taken for what they mean there."""
LONGEST_CUT = 3
SAME_LETTERS = 4
SHORTEST_PART = 5
WIDE = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "æ": "ae", "œ": "oe"})
PLAIN = str.maketrans({"ł": "l", "ø": "o", "æ": "ae", "œ": "oe", "ı": "i", "đ": "d"})

ENDINGS = {
    "en": "s es ed d ing er ers ly ion ions al ally ment ments ness y ies ied ier iest est 's able",
    "de": "e en er es em n s st t te ten ter test tet ete eten end ende enden ender endes ung ungen lich liche lichen licher "
    "liches isch ische ischen ischer isches ig ige igen iger iges keit heit heiten in innen nis nisse ern ere eren erer",
    "fr": "e s es x aux ale ales al elle elles el els er ez é ée és ées ent ant ante ants antes ait aient era eront ons r ment "
    "ion ions eur euse eurs euses if ive ifs ives ique iques que ques ien ienne iens iennes ir i ie is ies it issent it u ue us ues",
    "es": "s es a as o os e en an ar er ir ado ada ados adas ido ida idos idas ando iendo ó aba aban ará ió ieron aron mente "
    "ción ciones dad dades ico ica icos icas al ales or ora ores oras oso osa osos osas ante antes ente entes ito ita n z ces",
    "it": "o a i e he hi ato ata ati ate uto uta uti ute ito ita iti ite are ere ire ano ono ava avano ando endo rà ò ì mente "
    "zione zioni tà ico ica ici iche ale ali ore ori oso osa osi ose ante anti ente enti ivo iva ivi ive io ia ie ii",
    "pt": "s es a as o os e em am ar er ir ado ada ados adas ido ida idos idas ando endo ou ava avam ará iu eram aram mente ção "
    "ções ões ão ãos ães dade dades ico ica icos icas al ais or ora ores oras oso osa osos osas ante antes ente entes m ns éis eis",
    "nl": "e en s n t te ten de den d ing ingen er ers end ende lijk lijke lijks heid heden je jes isch ische tie ties eren eerd eerde 's",
    "pl": "a ą e ę i o ó u y ego ej emu ym ych ymi im ich imi iego iej iemu ie ia ią ię iu iem iom ami ach om ów owi em owie "
    "ał ała ało ali ały ić yć ać eć any ana ane anych anego anej ony ona one onych onego onej ć je jąc jący jąca jące nie nia niu "
    "niem niom niach ek ki ka kę ką ku kiem kach kom ość ości ością c ce cy dz dze ż że sz szy ź",
    "sv": "a e n t s en et ar er or na an arna erna orna ade at ad ades as de da t te ta tt r are ast aste ande ende ning ningar "
    "ningen ningarna het heter isk iskt iska lig ligt liga ns ts ens ets arnas ernas",
    "da": "e en er et s ens erne ene ers ets n t r ede et te ende else elser elsen elserne ing inger ingen ingerne isk iske lig lige ligt "
    "hed heder ere est este",
    "cs": "a u y e i o ou ě í é á ý ů ům ám ech ích ách emi ami em ím ém ého ému ými ých ší ejší ost osti ostí ní ného nému ním nými ných "
    "ová ové ový ového ovou ově al ala alo ali el ela elo eli en ena eno eny án ána áno ány it at ět ovat uje ují ován ována ováno nost "
    "nosti ce ci cí k ka ky ku kem kou ek",
    "tr": "ı i u ü sı si su sü nın nin nun nün ın in un ün da de ta te dan den tan ten nda nde ndan nden a e ya ye na ne lar ler ları leri "
    "larda lerde lardan lerden ların lerin lı li lu lü sız siz suz süz lık lik luk lük dır dir dur dür tır tir mış miş muş müş dı di du dü "
    "tı ti ıyor iyor uyor üyor lan len ması mesi ma me mak mek makta mekte ar er ır ir ur ür la le yla yle ca ce",
}  # fmt: skip
"""What inflection puts at the end of words, by language."""


def main(argv: list[str] | None = None) -> None:
    """Write ``vocabulary_plain.txt`` and ``vocabulary_doubtful.txt``."""
    parser = argparse.ArgumentParser(description="Make the lists of ordinary words.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    parser.add_argument("--collisions", action="store_true", help="print the words that are names as well")
    options = parser.parse_args(argv)
    typed = {language: listed(language) for language in sorted(ENDINGS)}
    found = set().union(*typed.values())
    for language, ordinary in typed.items():
        forms = frozenset(inflected(ordinary, language))
        found.update(forms, regular(ordinary | forms, language))
    names, kept, stopped = name_words(), keep_words() | plain_keep(), stop_words()
    listed_by_hand = frozenset().union(*typed.values())
    doubtful = {
        word
        for word in found - kept
        if word in stopped or (word in names and not (len(word) <= SHORT and word in listed_by_hand))
    }
    rare = {word for word in found - listed_by_hand - kept if word in other_names() and not is_frequent(word)}
    bare = {form for word in found - doubtful - rare for form in unaccented(word) if may_stay(form)}
    plain = {word for word in (found | bare) - doubtful - rare - words() if word.isalpha() and len(word) > 1}
    _write(options.out / "vocabulary_plain.txt", plain)
    _write(options.out / "vocabulary_parts.txt", set(parts(typed, names)))
    _write(options.out / "vocabulary_doubtful.txt", doubtful & listed_by_hand)
    if options.collisions:
        print(" ".join(sorted(doubtful & listed_by_hand)))


def unaccented(word: str) -> Iterator[str]:
    """How a word is written where there are no accents: ``Schaedel``, ``GEFÄSS``, ``torax``, ``kirik``."""
    if not word.isascii():
        sharp = word.replace("ß", "ss")
        yield sharp
        yield sharp.translate(WIDE)
        spread = unicodedata.normalize("NFD", sharp.translate(PLAIN))
        yield "".join(char for char in spread if not unicodedata.combining(char))


def parts(typed: Mapping[str, frozenset[str]], names: frozenset[str]) -> Iterator[str]:
    """Listed words that may stand in compounds: no name begins or ends with one of them."""
    ends: set[str] = set()
    for name in names | other_names():
        ends.update(name[:size] for size in range(SHORTEST_PART, len(name) - 1))
        ends.update(name[-size:] for size in range(SHORTEST_PART, len(name) - 1))
    for language in ("da", "de", "nl", "sv"):
        yield from (word for word in typed[language] - ends - names if len(word) >= SHORTEST_PART)


def listed(language: str) -> frozenset[str]:
    """Words of ``plain_LANGUAGE.txt``, and of the language's section of ``vocabulary_terms.txt``."""
    return frozenset(_lines(f"plain_{language}.txt"))


def plain_keep() -> frozenset[str]:
    """Ordinary words that some list of names holds too, kept because texts cannot do without them."""
    return frozenset(_lines("plain_keep.txt"))


ADJECTIVES = {
    "de": (("end", "lich", "isch", "bar", "iert", "haft", "artig", "förmig", "gradig", "seitig"), ("e", "en", "er", "es", "em")),
    "fr": (("ant", "ante", "ent", "ente", "ique", "aire", "euse", "ée", "é", "ale", "ive", "if", "eur", "elle"), ("s",)),
    "es": (("ado", "ada", "ido", "ida", "ico", "ica", "oso", "osa", "ivo", "iva", "ante", "ente"), ("s",)),
    "pt": (("ado", "ada", "ido", "ida", "ico", "ica", "oso", "osa", "ivo", "iva", "ante", "ente"), ("s",)),
    "nl": (("end", "isch", "lijk", "baar", "ig", "eerd"), ("e",)),
    "sv": (("isk", "lig", "ande", "ende"), ("a", "t")),
}  # fmt: skip
"""Endings of adjectives and participles whose forms are regular, so that nobody need know each: (of words, of forms)."""
SHORTEST_ADJECTIVE = 7
PARTICIPLE = re.compile(
    r"(?:(?:ab|an|auf|aus|ein|vor|nach|um|zu|mit|hin|weg|bei|durch)?ge|ver|be|ent|er|zer|un|miss)\w+(?:en|t)"
)


def regular(ordinary: frozenset[str], language: str) -> Iterator[str]:
    """Forms of long adjectives and participles, which are what their endings say."""
    ending, forms = ADJECTIVES.get(language, ((), ()))
    for word in sorted(ordinary):
        participle = language == "de" and PARTICIPLE.fullmatch(word)
        if len(word) >= SHORTEST_ADJECTIVE and (word.endswith(ending) or participle):
            yield from (word + form for form in forms)


def inflected(ordinary: frozenset[str], language: str) -> Iterator[str]:
    """Forms of the words that the language has and that share their lemma, or all but the end of it."""
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


def related(one: str, other: str) -> bool:
    """Whether two lemmas are one, or words derived from one another: equal but for their last letters."""
    pairs = zip(one.lower(), other.lower(), strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return common >= SAME_LETTERS and common * 4 >= 3 * min(len(one), len(other))


def _lines(name: str) -> Iterator[str]:
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield from re.findall(r"[^\s'./-]+", fold(line))


def _write(path: Path, found: set[str]) -> None:
    path.write_text("\n".join(sorted(found)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
