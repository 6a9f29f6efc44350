"""Patterns for postal addresses: streets with house numbers, post boxes, postcodes with their towns."""

# ruff: noqa: E501  (one pattern a line)

from __future__ import annotations

import re

_CAP = r"[A-ZÀ-ÖØ-ÞĀ-ŽŁŚŻŹĆŃÅÄÖ]"
_NAME = rf"{_CAP}[\w'’.-]{{0,40}}"
_JOIN = r"(?:(?:de|del|della|dei|di|da|do|dos|das|du|des|la|le|les|las|los|el|der|den|dem|von|van|am|an|im|of|the|y|e|al|w)\s+|[ldLD]['’]\s?)"
_NUMBER = r"\d{1,5}\s?[A-Za-z]?(?:\s?[-/]\s?\d{1,5}[A-Za-z]?|-(?:[IVX]{1,4}|[A-Z])(?![^\W_]))?(?![\w.,]*\d)"
_TOWN = (
    rf"(?:\s{{0,2}},?\s{{0,2}}(?:[A-Z]{{1,2}}-)?(?:\d{{5}}(?:-\d{{4}})?|\d{{4}}(?:\s?[A-Z]{{2}}(?![\w]))?|\d{{2}}-\d{{3}}|\d{{3}}\s\d{{2}})(?![\d]))?"
    rf"(?:\s{{0,2}},?\s{{1,2}}{_JOIN}{{0,2}}{_NAME}(?:[\s-]{{1,2}}{_JOIN}{{0,2}}{_NAME}){{0,3}})?"
    rf"(?:,?\s{{1,2}}[A-Z]{{2}}(?![\w]))?(?:,?\s{{1,2}}\d{{4,5}}(?:-\d{{4}})?(?!\d))?"
)
# Followed by a unit, a number is a quantity and not a house number.
_AFTER = r"(?!\s?(?:mm|cm|ml|mg|f|fr|french|min|sec|ms|kv|views?|slices?)(?![^\W_]))"
_EN_LONG = (
    "street|avenue|road|drive|lane|court|boulevard|terrace|crescent|highway|parkway|square|close|trail|gardens|"
    "STREET|AVENUE|ROAD|DRIVE|LANE|BOULEVARD|TERRACE|CRESCENT|HIGHWAY|PARKWAY|SQUARE|"
    "Street|Avenue|Road|Drive|Lane|Court|Boulevard|Terrace|Crescent|Highway|Parkway|Square|Close|Trail|Gardens|Way|Place|Row|Circle|Loop"
)
_EN_SHORT = r"(?:St|Ave|Rd|Dr|Ln|Ct|Blvd|Pl|Sq|Hwy|Pkwy|Cres|Ter|Cir|ST|AVE|RD|BLVD|LN)\b\.?"
_ENDINGS = (
    "straße|strasse|str\\.|str\\b|weg|platz|allee|gasse|damm|ufer|chaussee|steig|graben|promenade|straat|laan|plein|gracht|kade|dijk|"
    "singel|dreef|steeg|gatan|gata|gate|vägen|vagen|veien|vegen|gränd|torget|stigen|gade|vej|stræde|katu|tie|"
    "STRASSE|STRAßE|WEG|PLATZ|ALLEE|GASSE|STRAAT|LAAN|PLEIN|GRACHT|GATAN|VÄGEN|GADE|VEJ"
)

# Case-sensitive, unlike the other patterns: the capital of a name is what makes an address recognizable.
ADDRESSES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        # 123 Main Street, Springfield 12345
        rf"(?<!\w)(?<!\d[.,])\d{{1,6}}[A-Za-z]?,?\s{{1,2}}(?:[NSEW]\.?\s{{1,2}})?(?:{_NAME}\s{{1,2}}|of\s|the\s){{1,4}}(?:(?:{_EN_LONG})(?![^\W_])|{_EN_SHORT})"
        rf"(?:,?\s{{1,2}}(?i:apt|apartment|suite|ste|unit|flat|floor|#)\.?\s{{0,2}}\w{{1,6}})?{_TOWN}",
        # Hauptstraße 12, 10115 Berlin; Berliner Straße 5; Storgatan 3; Keizersgracht 12
        # Names contain hyphens: one that also separated names would be tried in thousands of ways.
        rf"(?<![\w])(?:{_NAME}\s){{0,3}}(?:{_CAP}[\w'’.-]{{0,80}}?|[Aa]n?\s)?(?i:{_ENDINGS})\s{{0,2}}{_NUMBER}{_AFTER}{_TOWN}",
        rf"(?<![\w])(?:Am|An\s(?:der|den)|Auf\s(?:der|dem)|Im|In\s(?:der|den)|Zum|Zur|Unter\sden)\s{_NAME}(?:\s{_NAME})?\s{_NUMBER}{_AFTER}{_TOWN}",
        # 12 rue de la Paix, 75002 Paris
        rf"(?<!\w)(?<!\d[.,])\d{{1,4}}\s?(?:bis|ter|quater)?,?\s{{1,2}}(?i:rue|avenue|av\.?|boulevard|bd\.?|bld|place|pl\.|impasse|allée|allee|chemin|ch\.|quai|cours|route|rte|square|passage|villa)"
        rf"\s{{1,2}}{_JOIN}{{0,3}}{_NAME}(?:[\s-]{_JOIN}{{0,2}}{_NAME}){{0,4}}{_TOWN}",
        # Calle Mayor 5, 28013 Madrid; via Roma 1; Rua do Ouro, 12; ul. Długa 5
        rf"(?<![\w])(?i:calle|c/|cl\.|avda\.?|avenida|av\.|plaza|pza\.?|paseo|pº|camino|carretera|ctra\.?|ronda|travesía|via|v\.le|viale|piazza|p\.za|piazzale|"
        rf"corso|c\.so|largo|vicolo|lungomare|contrada|strada|rua|r\.|travessa|praça|estrada|alameda|ul\.?|ulica|ulicy|ulice|náměstí|nám\.|třída|tř\.|nábřeží|al\.|aleja|aleje|alei|pl\.|os\.|osiedle|plac)"
        rf"\s{{0,2}}{_JOIN}{{0,3}}(?:\d{{1,2}}\s)?{_NAME}(?:\s{_JOIN}{{0,2}}{_NAME}){{0,4}},?\s{{1,2}}(?:n[º°o.]{{0,2}}\s?)?{_NUMBER}{_AFTER}(?:\sm\.\s?\d{{1,4}}|,?\s\d{{1,2}}\.?[ºª]\s?(?:[A-Z]|[Ee]sq\.?|[Dd]to\.?|[Ii]zq(?:da|uierda)?\.?|[Ii]zda\.?|[Dd]cha\.?|[Dd]erecha|[Ii]nt(?:erior)?\.?|[Ee]xt(?:erior)?\.?|[Dd]ireito|[Ee]squerdo)(?![^\W_]))?{_TOWN}(?:\s\([A-Z]{{2}}\))?",
        # Ihlamur Sokak No: 12 D 3, Gül Mah. 3. Sok. 12/4
        rf"(?<![\w])(?:{_NAME}\s{{1,2}}){{1,3}}(?:(?:\d{{1,5}}\.\s)?(?i:sokağı|sokak|sok\.?|sk\.?|caddesi|cadde|cad\.?|cd\.?|bulvarı|blv\.?|mahallesi|mah\.?))(?:\s\d{{1,5}}\.\s(?i:sok|cad|sokak|cadde)\b\.?)?"
        rf"(?:\s(?i:no)\s?[.:]?)?\s?\d{{1,5}}(?:[/-]\d{{1,4}})?(?:\s(?i:d|daire|kat|k)[.:]?\s?\d{{1,3}})*{_TOWN}",
        # Springfield, IL; Bad Homburg
        rf"(?<![^\W_]){_NAME},\s(?:AL|AK|AZ|AR|CA|CO|CT|DE|FL|GA|HI|IA|ID|IL|IN|KS|KY|LA|MA|MD|ME|MI|MN|MO|MS|MT|NC|ND|NE|NH|NJ|NM|NV|NY|OH|OK|OR|PA|RI|SC|SD|TN|TX|UT|VA|VT|WA|WI|WV|WY)(?=$|[.,;)]|\s\d{{5}})",
        rf"(?<![^\W_])Bad\s(?!Axe|Order){_CAP}[a-zäöüß]{{3,30}}(?![^\W_])",
        # post boxes
        rf"(?<![\w])(?i:p\.?\s?o\.?\s{{0,2}}box|post\s?box|postfach|postbus|bp|cs|bo[iî]te\spostale|apartado(?:\sde\scorreos)?|casella\spostale|caixa\spostal|skr\.\s?poczt\.|postboks)\s{{0,2}}\w{{0,3}}\d\w{{0,8}}{_TOWN}",
        # postcodes with a town, and those that are a postcode by their form
        rf"(?<!\w)(?<!\d[.,])(?:(?:D|A|CH|F|I|E|NL|B|L|PL|SE|DK|CZ)-)?\d{{4,5}},?\s{{1,2}}(?!MM|CM|ML|MG|MS|HU|HZ|KV|Hz|Gy|MBq|HZ|SLICES|IMAGES){_CAP}[a-zà-ÿß'’.-]{{2,40}}(?:[\s-]{{1,2}}(?:am|an\sder|bei|im|sur|en|la|le|de|del|di)?\s?{_NAME}){{0,3}}",
        rf"(?<!\w)(?<!\d[.,])\d{{2}}-\d{{3}}(?![\w-])(?:\s{_NAME}(?:[\s-]{_NAME}){{0,2}})?",
        rf"(?<!\w)(?<!\d[.,])\d{{4}}\s?(?!MM|CM|ML|MG|MS|HU|HZ|KV|AP|PA)[A-Z]{{2}}(?![\w])(?:\s{_NAME})?",
        r"(?<![\w])(?!T[12] ?\d)[A-PR-UWYZ][A-HK-Y]?\d[A-Z\d]? ?\d(?!MM|CM|ML|MG|MS|KV|MA|HZ|GY|ED|DT|CH|TH|ND|RD|ST)[ABD-HJLNP-UW-Z]{2}(?![\w])",
        r"(?<![\w])[ABCEGHJ-NPRSTVXY]\d[A-Z] ?\d[A-Z]\d(?![\w])",
        r"(?<![\w])[A-Z]{2}\s\d{5}(?:-\d{4})?(?!\d)",
    )
)
"""Patterns; the whole match is cut."""
