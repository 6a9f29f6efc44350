"""Ages over 89 in words and as decades of life (45 CFR 164.514(b)(2)(i)(C)): ``ninety-two-year-old``."""

# ruff: noqa: E501  (one language a line)

from __future__ import annotations

import re

_UNIT = "one|two|three|four|five|six|seven|eight|nine"
_EN = rf"(?:ninety(?:[ -](?:{_UNIT}))?|(?:a |one[ -])hundred(?:[ -](?:and )?(?:{_UNIT}|ten))?)"
_DE = "(?:(?:ein|zwei|drei|vier|fünf|fuenf|sechs|sieben|acht|neun)und)?neunzig|(?:ein)?hundert(?:und)?(?:eins?|zwei|drei|vier|fünf|fuenf|sechs|sieben|acht|neun|zehn)?"
_FR = "quatre[ -]vingts?[ -](?:dix(?:[ -](?:sept|huit|neuf))?|onze|douze|treize|quatorze|quinze|seize)|nonante(?:[ -](?:et[ -])?[a-z]{2,6})?|cent(?: (?:un|deux|trois|quatre|cinq|six|sept|huit|neuf|dix))?"
_ES = "noventa(?: y (?:un|uno|una|dos|tres|cuatro|cinco|seis|siete|ocho|nueve))?|cien(?:to (?:un|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez))?"
_IT = "novant(?:a|uno|un|adue|atré|atre|aquattro|acinque|asei|asette|otto|anove)|cento(?:uno|due|tre|quattro|cinque|sei|sette|otto|nove|dieci)?"
_PT = "noventa(?: e (?:um|uma|dois|duas|três|tres|quatro|cinco|seis|sete|oito|nove))?|cem|cento e (?:um|dois|três|quatro|cinco|seis|sete|oito|nove|dez)"
_NL = "(?:(?:een|één|twee|tweeën|drie|drieën|vier|vijf|zes|zeven|acht|negen)(?:en|ën)?)?negentig|honderd(?:een|twee|drie|vier|vijf|zes|zeven|acht|negen|tien)?"
_PL = (
    "dziewięćdziesi[ąę]t\\w{0,5}|sto(?: (?:jeden|dwa|trzy|cztery|pięć|sześć|siedem|osiem|dziewięć|dziesięć))?"
)
_SV = "nitti(?:o)?(?:ett|en|två|tre|fyra|fem|sex|sju|åtta|nio)?|hundra(?:ett|två|tre|fyra|fem|sex|sju|åtta|nio|tio)?|(?:(?:en|to|tre|fire|fem|seks|syv|otte|ni)og)?halvfems(?:indstyve)?|nitti(?:en|to|tre|fire|fem|seks|sju|syv|åtte|ni)?|hundre"
_RU = "девяност[оа](?:[ -](?:один|одного|два|двух|три|трех|трёх|четыре|четырех|пять|пяти|шесть|шести|семь|семи|восемь|восьми|девять|девяти))?|сто(?: (?:один|два|три|четыре|пять|шесть|семь|восемь|девять|десять))?"

_AGES = (
    rf"{_EN}(?=[ -]{{1,2}}(?:years?|yrs?|yo|y/o|yr)(?![^\W_]))",
    rf"(?:aged?|age of|age is)[ :]{{1,2}}(?P<cut2>{_EN})(?! (?:days?|weeks?|months?))",
    r"(?:early|mid|late)(?:[ -]to[ -](?:mid|late))?[ -](?:nineties|90['’]?s)",
    r"(?:nonagenarian|centenarian|supercentenarian|nonag[ée]naire|centenaire|nonagenari[aou]|nonagenári[ao]|centenári[ao]|centenari[ao]|ultranovantenne|ultracentenari[ao]|stulat(?:ek|ka|ka|kę)|hundraåring|столетн[а-я]{2,3})s?",
    rf"(?:{_DE})(?:[ -]?(?=jähr|jaehr)|(?= jahre?n?(?![^\W_])))",
    rf"(?:{_FR})(?= ans(?![^\W_]))",
    rf"(?:{_ES})(?= años(?![^\W_]))",
    rf"(?:{_IT})(?= anni(?![^\W_]))|(?:novant(?:a|un|adu|atre|aquattr|acinqu|asei|asett|ott|anov)|cent)enne",
    rf"(?:{_PT})(?= anos(?![^\W_]))",
    rf"(?:{_NL})(?:[ -]?(?=jarige?)|(?= jaar(?![^\W_])))",
    rf"(?:{_PL})(?: (?:jeden|dwa|dwóch|trzy|trzech|cztery|czterech|pięć|pięciu|sześć|sześciu|siedem|siedmiu|osiem|ośmiu|dziewięć|dziewięciu))?(?= lat(?:a)?(?![^\W_]))|dziewięćdziesięcio\w{{0,8}}?(?=letni)|stu(?=letni)",
    rf"(?:{_SV})(?:[ -]?(?=åri(?:g|ng))|(?= år(?![^\W_])))",
    rf"(?:{_RU})(?= (?:лет|года?)(?![^\W_]))|девяносто[а-яё]{{0,7}}?(?=летн)",
    r"(?<!\d)(?:9\d|1[0-4]\d)(?=[ '’]{0,2}(?:ya[şs](?:ında\w{0,3}|lı)?|éves|tuổi|tahun|let[áýéa]?|vuotiaa?s?|ετών|ετους)(?![^\W_]))",
    # Adjectives and decimals: 94-jarige, 96-årig, 92-letnia, 92-ročný, 92 de ani, 92-χρονη, 92-годишна, 92.8 years
    r"(?<!\d)(?<!\d[.,/])(?:9\d|1[0-4]\d)(?=[ -]{0,2}(?:jarige?n?|årig[ae]?|åring\w{0,3}|letni\w{0,3}|let[ýí]\w{0,3}|ročn\w{1,3}|godišnj\w{1,3}|годишн\w{1,3}|річн\w{1,3}|χρον\w{1,3}|de ani)(?![^\W_]))",
    r"(?<!\d)(?<!\d[.,/])(?:9\d|1[0-4]\d)[.,]\d(?=[ -]{0,2}(?:years?|yrs?|y/?o|jahre?n?|ans|años|anni|anos|jaar|lat|år|let)(?![^\W_]))",
    r"doksan(?: ?(?:bir|iki|üç|dört|beş|altı|yedi|sekiz|dokuz))?(?= yaş)|yüz(?: ?(?:bir|iki|üç|dört|beş))?(?= yaşında)",
)
UNSPACED_AGES = r"(?:九十[一二三四五六七八九]?|一?百(?:零?[一二三四五六七八九十]{1,2})?)多?(?=[岁歲歳才])|九旬|百岁|(?<!\d)90(?=代)|九十(?=代)|(?:아흔|백)\s?(?:하나|한|두|둘|세|셋|네|넷|다섯|여섯|일곱|여덟|아홉)?(?=\s?(?:살|세))|구십\s?[일이삼사오육칠팔구]?(?=\s?세)"
"""Pattern of such ages in Chinese, Japanese and Korean."""

WRITTEN_AGES: tuple[re.Pattern[str], ...] = (
    *(re.compile(rf"(?<![^\W_])(?:{age})" if "(?P<cut2>" in age else rf"(?<![^\W_])(?P<cut>{age})", re.IGNORECASE) for age in _AGES),
)  # fmt: skip
"""Patterns; the group ``cut`` or ``cut2`` is the age without its unit."""
