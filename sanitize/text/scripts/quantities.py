"""Quantities with units of other scripts, or next to a letter of a script without spaces."""

# ruff: noqa: E501  (one pattern a line)

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_UNITS = (
    "mm|cm|m|ml|cc|l|mg|g|kg|µg|mcg|ng|mmol|kv|kvp|ma|mas|mgy|gy|msv|mbq|hu|bpm|mmhg|t|s|ms|sec|min|h|hz|mhz|%|°|°c|mm2|cm2|mm3|cm3|ml/s|mg/dl|g/l|f"
    "|мм|см|м|мл|л|мг|г|кг|мкг|мм рт|ед|ме|мзв|мгр|кв|ма|мс|сек|с|мин|ч|лет|года?|год|месяц(?:а|ев)?|мес|недел[ьяи]|нед|дн(?:я|ей)|день|час(?:а|ов)?|раз(?:а)?|тл|гц|балл(?:а|ов)?|уд|градус(?:а|ов)?|срез(?:а|ов)?|снимк(?:а|ов)|р"
    "|χιλ|εκ|mm|κιλ[άα]|κιλ[όο]|γρ|ετ[ωώ]ν|έτη|μην[ωώ]ν|μήνες|ημερ[ωώ]ν|ημέρες|εβδομάδ(?:ες|ων)|ώρες|ωρ[ωώ]ν|λεπτά|φορές|τομές"
    "|مم|ملم|سم|مل|ملغ|غ|كغ|كيلوغرام(?:ات)?|كيلو|سنة|سنوات|عاما?|أعوام|شهرا?|أشهر|يوما?|أيام|أسبوعا?|أسابيع|ساعة|ساعات|دقيقة|دقائق|مرات|درجة"
    '|מ"?מ|ס"?מ|מ"?ל|מ"?ג|ק"?ג|ממ|סמ|שנים|שנה|חודשים|חודש|שבועות|ימים|שעות|דקות'
    "|मिमी|सेमी|मिलीमीटर|सेंटीमीटर|किलो|किग्रा|किलोग्राम|वर्ष|वर्षीय|साल|महीने|महीनों|माह|दिन|दिनों|सप्ताह|हफ्ते|घंटे|मिनट"
    "|มม|มิลลิเมตร|ซม|เซนติเมตร|กก|กิโลกรัม|ปี|เดือน|สัปดาห์|วัน|ชั่วโมง|นาที|มล"
    "|毫米|厘米|公分|米|毫升|升|毫克|克|公斤|千克|斤|岁|歲|天|周|週|个月|個月|年|小时|分钟|秒|次|枚|个|個|例|度|级|期|层|层面|倍|支|包|片"
    "|ミリ|センチ|キロ|歳|才|か月|カ月|ヶ月|ヵ月|週間|週|日間|年前|年間|時間|分間|回|本|箇所|か所|方向|枚|個|度|型|椎体|スライス"
    "|세|살|개월|달|주|주간|일간|년|년간|시간|분간|회|번|개|도|형|기|등급|장|매|배|킬로"
)
_NUMBER = r"\d{1,5}(?:[.,]\d{1,3})?"
_LATIN = "a-zA-Z"
_SPACED = "a-zA-Zа-яА-ЯёЁα-ωΑ-Ωά-ώא-תء-يऀ-ॿ"
_UNIT = rf"(?:{_UNITS})(?![{_SPACED}])"
_PATTERNS = (
    rf"(?<![\d.,/{_LATIN}]){_NUMBER}(?:\s?[-–~〜x×*х/]\s?{_NUMBER}){{0,3}}\s?{_UNIT}",
    rf"(?<![\d.,/{_LATIN}]){_NUMBER}(?:\s?[x×*х]\s?{_NUMBER}){{1,3}}(?![\d{_LATIN}])",
    rf"(?<![\d.,/{_LATIN}])[<>~≤≥±+-]?\d{{1,2}}[.,]\d{{1,2}}(?![\d{_LATIN}]|[.,/-]\d)",
    r"(?:до|около|примерно|έως|περίπου|حتى|حوالي|约|約|最大|径|直径|约|최대|약|직경|ประมาณ|लगभग)\s?\d{1,3}(?:[.,]\d)?(?!\d)",
    # The concentration of a contrast agent: Омнипак 350, オムニパーク350
    r"(?:омнипак|ультравист|визипак|йогексол|йопромид|йодиксанол|оптирей|ксенетикс|йомерон)(?:а|ом|у|е)?\s?\d{3}(?!\d)",
    r"(?:オムニパーク|イオメロン|イオパミロン|オプチレイ|欧乃派克|优维显|碘海醇|碘普罗胺|碘佛醇|典比乐|옴니파크|울트라비스트|이오메론)(?:注)?\s?\d{3}(?!\d)",
    r"(?<![^\W\d_])(?:[СТШГПКΑΘΟΙΣ]|Th|[CTLS])\d{1,2}(?:\s?[-/–]\s?(?:[СТШГПКΑΘΟΙΣ]|Th|[CTLS])?\d{1,2})?(?!\d)",
)  # fmt: skip
# "1949 года рождения" is no length of time.
_YEAR = re.compile(
    r"(?:1[89]\d\d|20\d\d|2[45]\d\d)\s?(?:лет|года?|ετ[ωώ]ν|έτη|سنة|عاما?|שנה|वर्ष|साल|ปี|年|년)(?![^\W\d_]*(?:前|間|간|전))",
    re.IGNORECASE,
)
_LEADING_ZERO = re.compile(r"(?<![\d.,])0\d{2,}")


@cache
def _compiled() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in _PATTERNS)


def find_script_quantities(text: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open spans of quantities in a text with ASCII digits and punctuation."""
    for pattern in _compiled():
        for match in pattern.finditer(text):
            if not _LEADING_ZERO.search(match[0]) and not _YEAR.match(match[0]):
                yield match.span()
