"""Patterns for places on earth: degrees of latitude and longitude, plus codes, three-word addresses."""

from __future__ import annotations

import re

_DECIMAL = r"[-+]?\d{1,3}[.,]\d{4,}"
_SIDE = r"(?-i:[NSEWO](?![^\W_]))"
# Quotation marks that are no ASCII are removed before: only a side of the compass says what a space is.
_MINUTES = r"\d{1,3}\s?[°º]\s?\d{1,2}(?:[.,]\d{1,6})?\s?['’]"
_SECONDS = r"\s?\d{1,2}(?:[.,]\d{1,6})?\s?(?:[\"”]|'')"
_SPACED = r"\d{1,3}\s?[°º]\s?\d{1,2}(?:[.,]\d{1,6})?(?:[\s'’]{1,2}\d{1,2}(?:[.,]\d{1,6})?)?[\s'’\"”]{0,2}"

COORDINATES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # 48.20849 N, 16.37208 E; N 48.2084; 48.20849, 16.37208
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_DECIMAL}\s?[°º]?\s?{_SIDE}(?!\s?\d{{1,3}}(?![\d.,]))(?:\s?[,;/]?\s?{_DECIMAL}\s?[°º]?\s?{_SIDE})?)",
        rf"(?<![^\W_])(?P<cut>(?-i:[NSEWO])\s?{_DECIMAL}\s?[°º]?(?:\s?[,;/]?\s?(?-i:[NSEWO])\s?{_DECIMAL}\s?[°º]?)?)(?![\w])",
        r"(?<!\w)(?<!\d[.,])(?P<cut>[-+]?\d{1,2}\.\d{5,}\s?°?[,;/\s]\s?[-+]?\d{1,3}\.\d{5,}\s?°?)(?![\w])",
        # lat 48.2, long 16.37; GPS 48.2 16.4
        r"(?<![^\W_])(?:lat(?:itude)?|lon(?:g(?:itude)?)?|lng|latitud|longitud|breitengrad|längengrad|breedtegraad|lengtegraad)[\s:=.]{1,3}(?P<cut>[-+]?\d{1,3}[.,]\d{3,}\s?°?(?:\s?[NSEWO](?![^\W_]))?)",
        r"(?<![^\W_])(?:gps|geo|coord(?:inate)?s?\.?|koordinaten|coordonnées|coordenadas|coordinate|coördinaten|współrzędne|geolocation)[\s:=]{1,3}(?P<cut>[-+]?\d{1,3}[.,]\d+[°\s,;/]{0,3}(?:[NSEWO][\s,;/]{0,2})?[-+]?\d{1,3}[.,]\d+\s?°?(?:\s?[NSEWO](?![^\W_]))?)",
        # 48°12'30"N 16°22'19"E
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_MINUTES}{_SECONDS}(?:[\s,;/]{{0,2}}{_MINUTES}{_SECONDS})?)",
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_SPACED}{_SIDE}(?:\s?[,;/]?\s?{_SPACED}{_SIDE})?)",
        rf"(?<![^\W_])(?P<cut>(?-i:[NSEWO])\s?{_MINUTES}(?:{_SECONDS})?(?:\s?[,;/]?\s?(?-i:[NSEWO])\s?{_MINUTES}(?:{_SECONDS})?)?)",
        # open location codes, three-word addresses
        r"(?<![^\W_])(?P<cut>[23456789CFGHJMPQRVWX]{4,8}\+[23456789CFGHJMPQRVWX]{2,3})(?![\w])",
        r"(?<![\w/])(?P<cut>///[^\W\d_]{3,20}\.[^\W\d_]{3,20}\.[^\W\d_]{3,20})",
        r"(?<![^\W_])(?:what3words|w3w)[\s:]{1,3}(?P<cut>[^\W\d_]{3,20}\.[^\W\d_]{3,20}\.[^\W\d_]{3,20})",
    )
)
"""Patterns; the group ``cut`` is cut."""
