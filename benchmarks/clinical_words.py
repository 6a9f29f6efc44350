"""Clinical words of spelling dictionaries that cleaned sentences keep, in eight languages.

    python benchmarks/clinical_words.py DICT [--sample 1500] [--half tune|report] [--show]

DICT is a folder with Debian's lists of words: ngerman, dutch, french, italian, spanish, portuguese, polish,
swedish, german-medical. Of these, only dutch, polish and spanish are sources of the vocabulary; the others
are under the GPL or LGPL and only measured against. A word is clinical if it contains a Greek or Latin stem
of medicine (some ordinary words do as well). It is put into a sentence of its language, as the list writes
it, and counts as kept if it is in the cleaned sentence. Rules are written with one half of the words, by
digest, and reported on the other. If names-dataset is installed, frequent and rare names are counted that
stay where the rules for unlisted words apply: as the first word of a sentence, as a German noun, and in
small letters.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from common import table
from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.vocabulary import fold
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms
from vocabulary import name_sets

BAR = 95.0
_CLINICAL = re.compile(
    r"[ck]ardi|n[ei]fr|nephr|h[ei]pat|epat[io]|gastr|ent[eé]r[io](?!t)|derm|neuro|oste[oi]|osteo|arth?r[oi]t|arthro|"
    r"artro|pulmo|pneumo|thora[ck]|tora[ckc]|h[aä]e?mato|hemato|ematol|[zc]yst|cist[ie]t|cistos|zyto|[ck]ytos|"
    r"e[ck]tomi|ostomi|plasti[ek]|endos[ck]op|s[ck]opi|patholog|patolog|opathi|opati|itis$|itide|[ai]emi[ae]?$|"
    r"ämi|émie|[oó]se$|osis$|oza$|os$(?<=ros)|omat|karcin|carcin|sarko|sarcom|tumor|s[ck]leros|esclero|stenos|"
    r"estenos|algi[ae]?$|spasm|leu[kc]o|l[yi]m(?:ph|f)|l[yi]nf|thromb|tromb|embol|aneur|angi[oó]|ven[oó]s|arteri|"
    r"[ck]oron|my[oó](?:m|k|c)|mi[oó][ck]ard|ophthalm|oftalm|otit|rhin|rinit|trache|laryng|lar[iy]ng|phar[iy]n|"
    r"bron[ck]h|bronqu|pleur|peri[ck]ar|peritone|[ck]olit|pan[ck]re|duoden|appendi[ckx]|ap[eé]ndic|prostat|"
    r"uterin|ovari|gyn[äaeé]|gin[eé][ck]o|obst[eé]tr|pedi[aá]t|psy[ck]hi|psi[qc]ui|onkolo|onc[oó]lo|anest|"
    r"anäst|radiolo|röntg|tomogra|ultras|e[ck]ogra|ec[hk]ogr|biops|n[ée][ck]ro|fibro|hyper[tp]|ipert|hipert|"
    r"hypot|ipot[eo]|hipot|toxi[ck]|bakt[eé]r|ba[ct]ter|virus|m[yi]kos|mi[ck]osi|par[aá]sit|epider|synd?rom|"
    r"s[ií]ndrom|diagnos|prognos|therap|terap|chirurg|cirurg|ciruj|kirurg"
)
SENTENCES = {
    "german-medical": ("de", "Die Untersuchung zeigt {} und sonst keinen weiteren Befund."),
    "ngerman": ("de", "Die Untersuchung zeigt {} und sonst keinen weiteren Befund."),
    "dutch": ("nl", "Het onderzoek toont {} en verder geen afwijkingen."),
    "french": ("fr", "Cet examen montre {} sans autre anomalie."),
    "italian": ("it", "Questo esame mostra {} senza altre lesioni."),
    "spanish": ("es", "El estudio muestra {} sin otras alteraciones."),
    "portuguese": ("pt", "O exame mostra {} sem outras lesões."),
    "polish": ("pl", "Badanie pokazuje {} bez innych zmian."),
    "swedish": ("sv", "Undersökningen visar {} utan andra förändringar."),
}
"""Language and sentence of each list."""
PLACES = {
    "first word": ("{} shows no fracture of the hip.", False),
    "within a sentence": ("The report was sent and {} agreed with it.", False),
    "German noun": ("Die Untersuchung zeigt {} und sonst keinen Befund.", False),
    "small letters": ("The report was sent and {} agreed with it.", True),
}
"""Sentences that mention a name without a title, and whether it is written without a capital."""
_SHORTEST = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Clean the sentences, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dict", type=Path)
    parser.add_argument("--sample", type=int, default=1500, help="words of each list")
    parser.add_argument("--names", type=int, default=3000, help="names of each set")
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    parser.add_argument("--show", action="store_true", help="print the words that are lost")
    given = parser.parse_args(arguments)
    cleaner, nobody = TextCleaner(TextSection(action="clean")), compile_terms([])
    rows, good = [], True
    for name, (language, sentence) in SENTENCES.items():
        path = given.dict / name
        if not path.exists():
            continue
        words = sampled(path, given.half, given.sample)
        lost = [
            word
            for word in words
            if word not in cleaner.clean(sentence.format(word), nobody).text.replace(".", "").split()
        ]
        share = 100 * (1 - len(lost) / len(words))
        good = good and share >= BAR
        rows.append((language, name, len(words), f"{share:.2f}"))
        if given.show:
            print(name, " ".join(lost))
    print(table(("language", "list", "words", "kept, %"), sorted(rows)))
    print(table(("names", "place", "names", "left, %"), list(left_names(cleaner, given.names))))
    return 0 if good else 1


def left_names(cleaner: TextCleaner, count: int) -> Iterator[tuple[str, ...]]:
    """Yield per set of names and place the percentage of names that stay in a sentence."""
    nobody = compile_terms([])
    with TemporaryDirectory() as folder:
        for what, listed in name_sets(53_000, Path(folder)):
            names = sorted(listed, key=_digest)[:count]
            for place, (sentence, small) in PLACES.items():
                written = [name.lower() if small else name for name in names]
                left = sum(
                    fold(name) in map(fold, cleaner.clean(sentence.format(name), nobody).text.split())
                    for name in written
                )
                yield what, place, str(len(names)), f"{100 * left / max(1, len(names)):.2f}"


def sampled(path: Path, half: str, count: int) -> list[str]:
    """Return clinical words of a list, by digest."""
    found = sorted((_digest(word), word) for word in set(clinical_words(path)))
    wanted = int(half == "report")
    return [word for digest, word in found if digest[0] % 2 == wanted][:count]


def _digest(word: str) -> bytes:
    return hashlib.sha256(word.encode()).digest()


def clinical_words(path: Path) -> Iterator[str]:
    """Yield the words of a list that have a stem of medicine; in other lists than German ones, no names."""
    raw = path.read_bytes()
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    for word in text.split():
        capital = word[:1].isupper()
        if len(word) < _SHORTEST or not word.isalpha() or (capital and "german" not in path.name):
            continue
        if _CLINICAL.search(fold(word)) or path.name == "german-medical":
            yield word


if __name__ == "__main__":
    sys.exit(main())
