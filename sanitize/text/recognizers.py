"""Second layer of text cleaning: patterns of identifiers by their form or by the word before them.

Each recognizer is a regular expression that runs in linear time. If it has a group ``cut``, only that group is
cut, so that a label before it ("MRN", "Tel.") is kept. The classes follow 45 CFR 164.514(b)(2)(i)(A) to (R).
"""

# ruff: noqa: E501  (one pattern a line)

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from medsanitize.policies.tables import vocabulary
from medsanitize.sanitize.text import addresses
from medsanitize.sanitize.text.context_names import find_context_names
from medsanitize.sanitize.text.coordinates import COORDINATES
from medsanitize.sanitize.text.feast_days import FEAST_DAYS
from medsanitize.sanitize.text.lexicon import WordKind, word_kind
from medsanitize.sanitize.text.text_dates import DATES
from medsanitize.sanitize.text.written_ages import WRITTEN_AGES


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """A match of a recognizer: the half-open span to cut, and its rule."""

    start: int
    end: int
    rule: str


_PREFIX = re.compile(r"(?<![^\W_])((?:MRN|PID|ID|Nr|No)[.:\s]{1,3})?(?<![^\W_])([A-Z]{1,3})([-/. ])$")
_SUFFIX = re.compile(r"[-/][A-Z]{1,2}(?![^\W_])")
_LONGEST_PREFIX = 10
# "Wohnhaft Am Mühlgraben 3": the label has a capital as the street has.
_ADDRESS_LABEL = re.compile(
    r"(?:wohnhaft|anschrift|adress[ea]?|adres|address|woont|woonachtig|lives|domicili[éoa]e?|domiciliad[oa]|residente|zamieszkał[ya]|mieszka|bosatt|bydliště|bytem|morada)\.?[ ]+",
    re.IGNORECASE,
)
_BEHIND_POSTCODE = re.compile(r"(?<=\d{4}),\s+")
# HIPAA 164.514(b)(2)(i)(C): ages over 89 identify; 90 may be written only as a category.
_OLD = r"(?:9\d|1[0-4]\d)"
# A number after a person is an age, unless a unit follows.
_NO_UNIT = r"(?!\d|[.,/]\d|\s?(?:mm|cm|m|ml|mg|kg|g|lbs?|kv|ms|s|hz|bpm|mmhg|°|%|/|mbq|hu|days?|weeks?|months?|min|th|degrees?|slices?|images?)(?![^\W_]))"
_PERSON = (
    r"(?:pt|pat|patient(?:e|in)?|paciente|paziente|pacjent(?:ka)?|pacient(?:ka)?|utente|wom[ae]n|m[ae]n|lady|gentlem[ae]n|female|male|frau|mann|femme|homme|dame|mujer|var[óo]n|hombre|señora?|donna"
    r"|uomo|signora|homem|mulher|idos[oa]|vrouw|dame|heer|kvinna|kobieta|mężczyzna|žena|muž|kadın|erkek|hasta|женщина|мужчина|больн(?:ой|ая)|пациент(?:ка)?)"
)
_OLD_AGE = (
    # 92 yo, 93-year-old, 91 jährig, 95 ans, 90F, 093Y
    rf"(?<!\d)(?<!\d[.,/])(?P<cut>0?{_OLD})(?:[\W_]{{0,3}}(?:y(?![a-z])|y[/.]?o(?![a-z])|y(?:ea)?rs?(?![a-z])|[fmw](?![^\W_])"
    r"|j(?:[aä]hr|\.)|j(?=[ ]?[mwf](?![^\W_]))|ans?\b|años|anos|anni\b|rok|lat\b|let\b|å(?:r)?(?![a-z])|vuot|jaar|jr\b|歳|岁|세|л\.|г\.\s?р)|[ ]aa?\.|(?:[ajr]|л)(?![^\W_]))"
    # aged 93, age: 95, Alter 92, F 94, M/94, lat 92
    r"|\b(?:age[d\W_]{0,4}|alter\W{0,3}|âge\W{0,3}|edad\W{0,3}|età\W{0,3}|idade\W{0,3}|leeftijd\W{0,3}|wiek\W{0,3}|yaş\W{0,3}|lat\s|(?<=\bdi )a(?:nni|a|\.)\s"
    rf"|ålder\W{{0,3}}|[fmw](?:[ -]?|/|,[ ]))(?P<cut2>{_OLD})(?!\d|\s?(?:mm|cm|ml|mg|kv|ms|hz|°|%|view|deg))"
    # she is 93, turned 95, Pat. 94, Mujer de 92, žena 93 r.
    rf"|(?<![^\W_])(?:s?he(?:['’]s| is| was)|turn(?:s|ed|ing)|celebrated (?:her|his))(?: now| just| almost| nearly| over)?\s(?P<cut3>{_OLD})(?:th)?{_NO_UNIT}"
    rf"|(?<![^\W_]){_PERSON}[.,]?(?: (?:is|was|ist|est|es|è|de|di|van|von|i en ålder av|aged)| [(\[])?[ ]?(?:now )?(?P<cut4>{_OLD}){_NO_UNIT}(?=[ ]?(?:[.,;:)\]]|$|r\.|a\.|aa\b|г\.|л\.|and\b|with\b|w/|m\b|f\b))"
    r"|(?<![^\W_])in (?:her|his|their) (?:early |mid(?:dle)?[ -]?|late )?(?P<cut5>(?:90['’]?s|nineties))"
)

_ID_CUE = (
    r"(?:mrns?|mpi|emr|ehr|uhid|pid|patient\s?id|pat\W{0,2}(?:id|nr|no)|patienten(?:nummer|nr)|fall(?:nummer|nr)"
    r"|aufnahme(?:nummer|nr)|acc(?:ession)?|auftrags?(?:nummer|nr)|ids?(?!h[12](?![^\W_]))|ipp|nip|nda|nhc|expediente|dossier"
    r"|cartella|nosologico|episodio|chart|case|record|visit|encounter|order|account|acct|policy|member"
    r"|insurance|versicherten(?:nummer|nr)|kv(?:nr)|certificate|licen[cs]e|passport|reisepass|passeport|pasaporte"
    r"|card|badge|employee|station|room|ssn|nhs|chi|hkid|tax|steuer\W?id|idnr|svnr|nir|insee|cpf|cns|rg|dni|nie"
    r"|curp|rut|nif|cf|codice\s?fiscale|bsn|pesel|personnummer|personnr|cpr|hetu|ahv|avs|oib|egn|cnp|amka"
    r"|nummer|numero|número|numéro|núm|number|numer|serial|s/n|sn|seriennummer|série|serie|matricola|matrícula"
    r"|device|ser(?:ial)?|lot|batch|charge|chargennr|lote|lotto|partij|partia|udi|gtin|plate(?![\W_]{0,4}[CTLS]\d{1,2}(?![\w]))|kennzeichen|immatriculation|targa|rejestracyjny|barcode|ref|dob)"
)
_ID = (
    rf"(?<![^\W_]){_ID_CUE}(?:[\W_]{{0,3}}(?:n[o°ºr]|num(?:ber|mer|ero)?|nr|id|code|#)(?![^\W\d_]))?"
    r"[\W_]{0,4}(?P<cut>(?=[\w/.-]{0,24}?\d)(?:(?!\d{1,2}(?![\w]))[^\W_])(?:[\w/.-]{0,30}[^\W_])?)"
    r"(?!\s?(?:mm|cm|ml|mg|kv|kvp|ms|hz|view|slice|phase|week|year)s?(?![^\W_]))"
)
# S21-1234, C2019-447, M19/4471, 21-S-1234, 21:S1234: specimens are numbered by kind and year; not "L40/400", a window.
_YEAR = r"(?:[0-2]\d|(?:19|20)\d{2})"
_SPECIMEN = (
    rf"(?<![^\W_])(?P<cut>(?:[A-Z]{{1,3}}-?{_YEAR}(?:[-:]\d{{3,7}}|[./]\d{{4,7}})|[A-Z] {_YEAR}-\d{{4,7}}|[A-Z]{{1,3}}-\d{{3,7}}/{_YEAR}|[A-Z]{{1,3}}/(?:{_YEAR}/\d{{3,7}}|\d{{3,7}}/{_YEAR}))(?:[-/.:][A-Z]?\d{{1,3}}[A-Z]?)?)(?![\w]|[.,]\d)(?!\s?(?:mm|cm|ms|kV|HU|mA|%))"
    rf"|(?<!\w)(?<!\d[.,])(?P<cut2>{_YEAR}[-:/][A-Z]{{1,3}}[-:/]?\d{{3,7}}(?:[-/.:][A-Z]?\d{{1,3}}[A-Z]?)?)(?![\w]|[.,]\d)"
)
_NUMBERED = r"(?<![^\W_])(?:no|nr|n°|nº|#)[.:\s]{0,3}(?P<cut>[A-Z]{0,4}[-/ ]?\d{3,}[\w/-]{0,20})"

_PHONE = (
    r"(?<![\w+])(?P<cut>(?:\+|00)\d{1,3}[\s().\-/]{0,3}\d(?:[\s().\-/]{0,3}\d){5,14})(?!\d)"
    r"|(?<!\w)(?<!\d[.,])(?P<cut2>\(?\d{2,5}\)?[\s./-]{1,2}\d{3,4}[\s.-]?\d{3,5})(?![\w])"
    r"|(?<!\w)(?<!\d[.,])(?P<cut3>\d{3}[\s.-]\d{4})(?![\w.,])"
    r"|(?<!\w)(?<!\d[.,])(?P<cut4>\d{2}(?:[\s.]\d{2}){3,5})(?![\w])"
    r"|(?<![\w)+])(?P<cut5>\+\d{2,3}(?:[\s().\-/]{1,3}\d{1,5}){0,5})(?!\s?(?:mm|cm|°|HU|%|dB|[\d,.]))"
)
_PHONE_CUE = (
    r"(?<![^\W_])(?:tel(?:ef?[oó]?n[oe]?|éfono|éphone|efoon)?|t[eé]l|phone|ph|fon|fono|cell|cellulare|celular|mobile|mobil|móvil"
    r"|m[oó]vel|handy|portable|komórka|fax|telefax|pager|bleep|beeper|ext|extn|extension|durchwahl|dw|app|apparat"
    r"|poste|interno|int|anexo|ramal|toestel|wewn|anknytning|anknytn|contact|call|ring|rückruf|rappeler|llamar"
    r"|chiamare|ligar|bellen|zadzwonić|ringa)[\W_]{0,4}(?:(?:at|on|under|unter|au|al|no|nr|is|number|nummer)[\W_]{1,3})?"
    r"(?P<cut>[+(]{0,2}\d{3,}(?:[\s().\-/]{0,3}\d{2,}){0,6}|[+(]{1,2}\d{1,5}\)?(?:[\s().\-/]{0,3}\d{2,}){1,6}"
    r"|\d{1,3}(?:[\s().\-/]{1,3}\d{2,}){1,6})(?!\s?(?:mm|cm|ml|mg|ms|kv|views?|slices?)\b)"
    r"|(?<![^\W_])x[.\s]?(?P<cut2>\d{4,6})(?![\w])"
)

_NATIONAL = (
    r"(?<![^\W_])(?P<cut>[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]"  # Italy
    r"|[XYZ][- ]?\d{7}[- ]?[A-Z]|\d{7,8}[- ]?[A-Z](?![a-z])"  # Spain, Ireland
    r"|[A-CEGHJ-PR-TW-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]"  # United Kingdom
    r"|\d{6,8}[-+A]\d{3,4}[0-9A-Z]?"  # Nordic countries
    r"|[A-Z]{4}\d{6}[HM][A-Z]{5}\w\d"  # Mexico
    r"|[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?"  # IBAN
    r"|[A-Z]{1,2}\d{6,9}[A-Z]?)(?![^\W_])"
)
# Not the sum of a score, such as "4+3=7".
_RUN = r"(?<!\d)(?!(?<![+=.,/\-])\d ?\+ ?\d ?= ?\d{1,2}(?!\d|[.,/+=-]\d))(?P<cut>\d++(?:[\W_]++\d++){2,})(?!\s?(?:mm|cm|d|t|s|ms|ml|mg|kv|ma|x|min|sec|%|hz|gy|mas|kvp)(?![^\W_]))"
_SPELLED = r"(?<![^\W_])(?P<cut>[^\W\d_](?:[\W_]++[^\W\d_](?![^\W_])){3,})"

_SERVICE = (
    r"(?:twitter|x\.com|insta(?:gram)?|facebook|fb|tiktok|snapchat|skype|discord|telegram|whatsapp|wechat|weixin|weibo|linkedin|mastodon|reddit"
    r"|youtube|vkontakte|vk|messenger|line id|kakao(?:talk)?|signal id|user(?:name)?|login|handle|account name|benutzername|nutzername|usuario|utente"
    r"|utilisateur|identifiant|usuário|gebruikersnaam|użytkownik|användarnamn)"
)
_HANDLE = (
    rf"(?<![^\W_]){_SERVICE}[ ]?[:=][ ]?(?P<cut>[\w@][\w.:#@+-]{{1,60}})"
    rf"|(?<![^\W_]){_SERVICE}[ ](?P<cut2>(?=\S{{0,60}}[\d_.:#@])[\w@][\w.:#@+-]{{1,60}}\w)"
    r"|(?<![\w@.])(?P<cut3>@(?=\w{0,30}[\d_])[\w.]{3,40})"
)
# B-MW 1234, 7ABC123, AB12 CDE, 1234 BCD, AA-123-BB: only behind a word for it, since lots and levels look alike.
_PLATE = (
    r"(?<![^\W_])(?i:(?:licen[cs]e |number |registration )?plates?|reg(?:istration)?|kennzeichen|kfz|kfz-kennzeichen|immatriculation|plaque|matr[íi]cula|placa"
    r"|targa|targat[oa]|tg|kenteken|nummerplaat|rejestracja|rejestracyjny|rej|registreringsnummer|regnr|reg[ ]nr|bil|plaka|spz|rz|vrm|vrn|placas|immatriculée?|kz|wagen|pkw|auto|car|vehicle|tag|reg\.[ ]?(?:nr|no)|fahrzeug|lkw|v[ée]hicule|voiture|coche|veh[íi]culo|carro|ve[íi]culo|veicolo|voertuig|samoch[óo]d|fordon|køretøj|vozidlo|araç|lorry|truck|taxi)(?i:[ ](?:no|nr|number|nummer)\b\.?)?[ :.]{1,3}"
    r"(?P<cut>(?!(?:[CTLS]\d{1,2}[ \-]?)+(?![\w]))(?=(?:[ \-·]?[A-Z0-9ÄÖÜ]){5})(?=[A-ZÄÖÜ \-·]{0,8}\d)(?=[\d \-·]{0,8}[A-ZÄÖÜ])(?:[A-ZÄÖÜ]{1,3}|\d{1,4}|[A-Z0-9]{3,8})"
    r"(?:[ \-·](?!MM|CM|KG|ML)(?:[A-ZÄÖÜ]{1,3}|\d{1,5}|[A-Z]{1,2}\d{1,4}|\d{1,3}[A-Z]{1,2})(?![^\W_])){0,3})(?![^\W_])"
)

# "four four seven one", as dictated; pairs of hexadecimal digits, with spaces or percent signs.
_DIGIT_WORDS = (
    "zero|oh|one|two|three|four|five|six|seven|eight|nine|double|null|eins|zwei|zwo|drei|vier|fünf|sechs|sieben|acht|neun|zéro|un|deux|trois|quatre|cinq"
    "|sept|huit|neuf|cero|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|due|tre|quattro|cinque|sei|sette|otto|nove|um|dois|três|quatro|sete|oito"
    "|nul|een|één|twee|drie|vijf|zes|zeven|negen|jeden|dwa|trzy|cztery|pięć|sześć|siedem|osiem|dziewięć|noll|ett|två|fyra|fem|sju|åtta|nio"
)
_SAID = rf"(?<![^\W_])(?P<cut>(?:{_DIGIT_WORDS})(?:[\s,-]{{1,3}}(?:{_DIGIT_WORDS})(?![^\W_])){{3,}})"
_HEX = (
    r"(?<![^\W_])(?P<cut>(?=(?:[2-7]\d[ :,-]){0,11}[2-7][a-f](?![^\W_]))[2-7][0-9a-f](?:[ :,-][2-9a-f][0-9a-f]){3,})(?![^\W_])"
    r"|(?P<cut2>[^\s<>\"]{0,200}%[0-9a-f]{2}[^\s<>\"%]{0,40}%[0-9a-f]{2}[^\s<>\"]{0,400})|(?P<cut3>(?:\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|&#x?[0-9a-f]{1,6};){2,})"
)

_TOP_LEVEL = "com|org|net|edu|gov|mil|info|biz|health|hospital|clinic|med|care|io|eu|de|fr|uk|ch|pl|nl|se|es|pt|be|br|ca|au|jp"
_FILES = "dcm|jpe?g|png|tiff?|bmp|gif|pdf|docx?|xlsx?|pptx?|txt|csv|zip|rar|nii|nrrd|mpe?g|avi|mp4|wav|exe|ini|xml|html?|hl7|log"

# Group names must be unique within a pattern, hence cut2 to cut5. No flag: capitals distinguish the form.
_TABLE: tuple[tuple[str, str, int], ...] = (
    ("email", r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,6}", 0),
    ("email", r"(?<![^\W_])\w{1,40}(?:\.\w{1,40}){0,4}\s?[(\[]at[)\]]\s?\w{1,60}(?:\.\w{1,60}){0,4}", re.I),
    ("email", _HANDLE, re.I),
    ("url", r"(?:(?:https?|s?ftp|file|ldap|hl7|dicom|smb)://|www\.)[^\s<>\"]{1,2000}", re.I),
    ("url", rf"(?<![\w.@-])(?:[\w-]{{3,63}}\.){{1,5}}(?:{_TOP_LEVEL})(?![\w.-])(?:/[^\s]{{0,500}})?", re.I),
    ("path", r"(?<![^\W_])[A-Za-z]:[\\/][^\s\"]{1,400}|\\\\[\w.$-]{1,60}(?:\\[^\s\\\"]{0,100}){1,20}", 0),
    ("path", r"(?<![\w./])~?(?:/[\w.~-]{1,100}){2,30}/?", 0),
    ("path", rf"(?<![\w.-])[\w-]{{1,100}}\.(?:{_FILES})(?![\w])", re.I),
    ("mac-address", r"(?<![^\W_])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}(?![^\W_])|(?<![^\W_])(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}\b", re.I),
    ("ip-address", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w])", 0),
    ("ip-address", r"(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}(?![\w:])|(?<![\w:])(?:[0-9a-f]{1,4}:){1,6}:[0-9a-f:]{0,30}(?![\w])", re.I),
    ("uid", r"(?<![\w.])[0-2](?:\.\d{1,64}){4,40}(?![\w])", 0),
    ("uuid", r"(?<![^\W_])[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}(?![^\W_])", re.I),
    ("age-over-89", _OLD_AGE, re.I),
    ("phone", _PHONE_CUE, re.I),
    ("phone", _PHONE, 0),
    ("number", _PLATE, 0),
    ("number", _ID, re.I),
    ("number", _NUMBERED, re.I),
    ("number", _NATIONAL, 0),
    ("number", _SPECIMEN, 0),
    ("number", _RUN, re.I),
    ("spelled", _SPELLED, 0),
    ("spelled", _SAID, re.I),
    ("spelled", _HEX, re.I),
)  # fmt: skip


# Compiled on first use: most commands clean no text.
@cache
def _compiled() -> tuple[tuple[str, re.Pattern[str]], ...]:
    rows = [(rule, re.compile(pattern, flags)) for rule, pattern, flags in _TABLE]
    rows += [("date", pattern) for pattern in (*DATES, *FEAST_DAYS)]
    rows += [("age-over-89", pattern) for pattern in WRITTEN_AGES]
    rows += [("address", pattern) for pattern in (*COORDINATES, *addresses.ADDRESSES)]
    return tuple(rows)


def find_patterns(text: str) -> Iterator[PatternMatch]:
    """Yield the matches of all recognizers in a text, in no order; spans may overlap."""
    for rule, pattern in _compiled():
        for match in pattern.finditer(text):
            span = _span(rule, match)
            if rule == "address":
                label = _ADDRESS_LABEL.match(text, span.start, span.end)
                yield PatternMatch(label.end() if label else span.start, _town_ends(text, span), rule)
            else:
                yield extend_to_words(text, span) if rule in ("number", "phone") else span
    yield from (PatternMatch(start, end, "institution") for start, end in find_context_names(text))


def extend_to_words(text: str, span: PatternMatch) -> PatternMatch:
    """Extend a number by the letters that belong to it.

    Parameters
    ----------
    text : str
    span : PatternMatch
        The number.

    Returns
    -------
    PatternMatch
        The span of, for example, ``A-20391187``, ``12.345.678-Z`` or ``AB 12 34`` in ``MRN AB 12 34``.
    """
    start, end = span.start, span.end
    before = _PREFIX.search(text, max(0, start - _LONGEST_PREFIX), start)
    if before and (before[1] or before[3] != " "):
        letters = before[2]
        # "CT-1234" may be a modality and a number: a word of the vocabulary is kept unless a label precedes.
        if before[1] or len(letters) == 1 or letters.lower() not in vocabulary.words():
            start = before.start(2)
    after = _SUFFIX.match(text, end)
    return PatternMatch(start, after.end() if after else end, span.rule)


def _town_ends(text: str, span: PatternMatch) -> int:
    """Return the end of an address: ordinary words after a postcode and a comma are not its town."""
    for match in _BEHIND_POSTCODE.finditer(text, span.start, span.end):
        rest = vocabulary.split_words(text[match.end() : span.end])
        if rest and all(word_kind(word) is WordKind.SAFE for word in rest):
            return match.start()
    return span.end


def _span(rule: str, match: re.Match[str]) -> PatternMatch:
    groups = match.groupdict()
    for name in ("cut", "cut2", "cut3", "cut4", "cut5"):
        if groups.get(name) is not None:
            return PatternMatch(*match.span(name), rule)
    return PatternMatch(*match.span(), rule)
