"""Coded concepts: known meanings of codes, and plausibility of codes without known meaning."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

# Synonyms and retired designators of coding schemes.
_SAME_SCHEME: Mapping[str, str] = {
    "SNM3": "SRT",
    "99SDM": "SRT",
    "SNOMED": "SRT",
    "SCT": "SCT",
    "SNOMED-CT": "SCT",
    "LOINC": "LN",
    "NCIT": "NCIt",
    "RADLEX": "RADLEX",
    "RADELEMENT": "RADELEMENT",
    "RFC3066": "RFC5646",
    "IETF4646": "RFC5646",
    "ISO639_1": "RFC5646",
    "I10P": "I10",
    "I10C": "I10",
    "I10CM": "I10",
    "ICD10": "I10",
    "I9C": "I9",
    "I9CM": "I9",
    "CPT": "C4",
    "HCPT": "C4",
    "HPC": "C4",
    "ICDO": "ICDO3",
    "UBERON": "UBERON",
}
"""Upper-case designator -> designator under which its codes are listed or checked."""

_LANGUAGES: Mapping[str, str] = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "en-GB": "English (United Kingdom)",
    "en-US": "English (United States)",
    "es": "Spanish",
    "et": "Estonian",
    "fi": "Finnish",
    "fr": "French",
    "fr-CA": "French (Canada)",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "pt-BR": "Portuguese (Brazil)",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sr": "Serbian",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
    "zh-CN": "Chinese (China)",
}
"""Language tags (RFC 5646) of CID 5000 -> their meanings."""

_FORMATS: Mapping[str, str] = {
    "DCM": r"1(?:09|1[0-4]|2[1-9]|3[0-3])\d{3}",
    "SRT": r"[A-Z][0-9A-F]?-[0-9A-F]{4,6}",
    "FMA": r"[1-9]\d{2,5}",
    "RADLEX": r"RID\d{1,6}",
    "RADELEMENT": r"RDE(?:S)?\d{1,5}",
    "I10": r"[A-TV-Z]\d[0-9AB](?:\.[0-9A-Z]{1,4})?",
    "I9": r"(?:\d{3}|V\d\d)(?:\.\d{1,2})?|E\d{3}(?:\.\d)?|\d\d\.\d{1,2}",
    "ICDO3": r"C\d\d(?:\.\d)?|[89]\d{3}/[012369]\d?",
    "C4": r"[1-9]\d{4}|\d{4}[FTU]|[A-V]\d{4}",
    "NCIt": r"C\d{3,6}",
    "UMLS": r"C\d{7}",
    "MSH": r"D\d{6}(?:\d{3})?",
    "MDC": r"\d{1,2}:\d{1,5}",
    "BARI": r"\d{1,2}[AB]?",
    "IBSI": r"[0-9A-Z]{4}",
    "SCPECG": r"\d{1,2}(?:\.\d{1,2}){1,4}(?:-\d{1,2}){0,2}",
    "UBERON": r"\d{7}",
}
"""Scheme -> pattern of its codes, for schemes without check digit."""

# UCUM has no list of valid units: they are composed of prefixes, atoms and exponents.
_UCUM_ATOM = (
    r"(?:(?:da|[YZEPTGMkhdcmunpfazy]|Ki|Mi|Gi|Ti)?(?:m|s|g|rad|K|C|cd|mol|sr|Hz|N|Pa|J|W|A|V|F|Ohm|S|Wb|Cel|T|H"
    r"|lm|lx|Bq|Gy|Sv|l|L|ar|t|bar|u|eV|pc|cal|Ci|R|RAD|REM|osm|eq|kat|U|B|bit|By|Bd|tex|G|dyn|erg|P|st|Torr)"
    r"|m\[Hg\]|mm\[Hg\]|cm\[H2O\]|deg|'{1,2}|gon|circ|sph|min|h|d|wk|mo|mo_s|mo_j|a|a_j|%|\[[A-Za-z]{1,4}(?:'U|_[a-z]{2})?\]"
    r"|\[ppth\]|\[ppm\]|\[ppb\]|\[pptr\]|\[pi\]|\[pH\]|\[hnsf'U\]|\[arb'U\]|\[iU\]|\[IU\]|\[diop\]|\[HPF\]|\[LPF\]"
    r"|10\*|10\^)(?:[+-]?\d{1,2})?"
)
_UCUM_TERM = rf"(?:\d{{1,3}}|(?:\d{{1,3}}(?=\D))?{_UCUM_ATOM}|\({_UCUM_ATOM}(?:[./]{_UCUM_ATOM})*\))"
_UCUM = re.compile(rf"/?{_UCUM_TERM}(?:[./]{_UCUM_TERM})*", re.ASCII)

# Tables of the Verhoeff algorithm: product and permutation in the dihedral group D5.
_VERHOEFF_PRODUCT = (
    "0123456789",
    "1234067895",
    "2340178956",
    "3401289567",
    "4012395678",
    "5987604321",
    "6598710432",
    "7659821043",
    "8765932104",
    "9876543210",
)
_VERHOEFF_PERMUTATION = (
    "0123456789",
    "1576283094",
    "5803796142",
    "8916043527",
    "9453126870",
    "4286573901",
    "2793806415",
    "7046913258",
)


def known_code(scheme: str, value: str) -> tuple[str, ...] | None:
    """Return the meanings that PS3.16 gives to a code.

    Parameters
    ----------
    scheme, value : str
        CodingSchemeDesignator and CodeValue, stripped. Retired SNOMED RT codes (SRT, SNM3, 99SDM) are known
        through the SNOMED CT codes that replaced them.

    Returns
    -------
    tuple of str or None
        The sorted meanings; None if the code is not in PS3.16. A CodeMeaning that equals one of them,
        ignoring case, contains no information about the patient.
    """
    return _meanings().get((_designator(scheme), value))


def plausible_code(scheme: str, value: str) -> bool:
    """Whether a code has the form of its standard scheme, including the check digit if the scheme has one.

    Codes of private schemes are never plausible. Neither are those of schemes with plain numbers and no check
    digit (RXNORM, NDC, PubChem, ...), where a record number would pass; short numbers of FMA, CPT and ICD-9
    are accepted.

    Parameters
    ----------
    scheme, value : str
        CodingSchemeDesignator and CodeValue, stripped.
    """
    designator = _designator(scheme)
    if (designator, value) in _meanings():
        return True
    check = _CHECKS.get(designator)
    if check is not None:
        return check(value)
    pattern = _FORMATS.get(designator)
    return pattern is not None and re.fullmatch(pattern, value, re.ASCII) is not None


def _designator(scheme: str) -> str:
    return _SAME_SCHEME.get(scheme.upper(), scheme)


def _sct(value: str) -> bool:
    """SNOMED CT concept identifiers: partition 00 or 10, then a Verhoeff check digit."""
    return bool(re.fullmatch(r"[1-9]\d{2,14}[01]0\d", value, re.ASCII)) and _verhoeff(value)


def _verhoeff(digits: str) -> bool:
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = int(_VERHOEFF_PRODUCT[check][int(_VERHOEFF_PERMUTATION[place % 8][int(digit)])])
    return check == 0


def _loinc(value: str) -> bool:
    """LOINC codes and parts: a number, a hyphen and a mod 10 check digit."""
    if not re.fullmatch(r"(?:LP|LA)?\d{1,6}-\d", value, re.ASCII):
        return False
    body, check = value.removeprefix("LP").removeprefix("LA").split("-")
    total = sum(
        sum(divmod(int(digit) * 2, 10)) if place % 2 == 0 else int(digit)
        for place, digit in enumerate(reversed(body))
    )
    return -total % 10 == int(check)


def _ucum(value: str) -> bool:
    """UCUM units; annotations in braces are free text, so their words must be in the vocabulary."""
    from medsanitize.policies.tables.vocabulary import fold, split_words, words

    bare = re.sub(r"\{[^{}]*\}", "", value)
    for annotation in re.findall(r"\{([^{}]*)\}", value):
        if not all(fold(word) in words() for word in split_words(annotation)):
            return False
    return len(value) <= 32 and (_UCUM.fullmatch(bare or "1") is not None or bare in ("/", "/min"))


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "SCT": _sct,
    "LN": _loinc,
    "UCUM": _ucum,
    "RFC5646": _LANGUAGES.__contains__,
}


@cache
def _meanings() -> Mapping[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], tuple[str, ...]] = {
        ("RFC5646", tag): (meaning,) for tag, meaning in _LANGUAGES.items()
    }
    text = (files(__package__) / "coded_concepts.csv").read_text(encoding="utf-8")
    rows = csv.reader(text.splitlines())
    next(rows)
    for scheme, value, meaning in rows:
        key = (scheme, value)
        found[key] = (*found.get(key, ()), meaning)
    return MappingProxyType(found)
