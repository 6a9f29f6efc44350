"""Recognition of clinical and technical numbers: with a unit, after a technical word, in a known notation."""

# ruff: noqa: E501  (one pattern a line)

from __future__ import annotations

import re
from collections.abc import Iterator

_UNITS = (
    "mm|cm|dm|m|µm|um|μm|nm|km|mm2|mm3|cm2|cm3|mm²|cm²|cm³|mm³|m2|m²|ml|cc|l|dl|cl|grams|gram|gramm|µl|mls|ml/s|ml/sec|ml/min|ml/kg|cc/s|l/min|mg|g|kg|gm|gr|µg|ug|mcg|ng|"
    "mg/ml|mgi/ml|mgi|mg/kg|mg/dl|ng/ml|g/l|mmol|mol|umol|µmol|mmol/l|µmol/l|mmol/kg|meq|mosm|iu|ie|ui|units?|einheiten|"
    "kv|kvp|kev|mev|mv|v|ma|mas|µas|gy|mgy|cgy|µgy|ugy|mgycm|sv|msv|usv|µsv|mbq|gbq|kbq|bq|mci|ci|uci|µci|mbq/kg|mwb|w|kw|mw|"
    "%|hz|khz|mhz|ghz|t|tesla|s|sec|secs|seconds?|sek|sekunden|segundos?|secondi|secondes?|seg|ms|msec|min|mins|minutes?|minuten|minutos?|minuti|minut|"
    "h|hr|hrs|hours?|std|stunden|heures?|horas?|ore|uur|godz|timmar|fps|i/s|b/s|hu|he|uh|bpm|ppm|rpm|db|mmhg|kpa|bar|psi|torr|cmh2o|"
    "°|deg|degrees?|grad|grados?|degrés?|gradi|graus|grader|stopni|°c|c°|px|pixels?|dpi|lp|lp/mm|fr|french|f|gauge|ga|ch|"
    "packs?|py|packyears?|pyrs?|weeks?|wks?|wk|wochen|woche|ssw|semaines?|sa|settimane|semanas?|weken|tygodni|tygodnie|veckor|"
    "months?|mths?|mo|monate?|monaten|mois|mesi|mese|meses|mes|maanden|maand|miesięcy|miesiące|månader|days?|tage?n?|jours?|giorni|días?|dias?|dagen|dni|dagar|"
    "years?|yrs?|yr|yo|y/o|jahre?n?|jährig|jähriger|jährige|ans|anni|años|anos|jaar|jarige|lat|lata|rok|år|årig|uma|mån|mies|měs|týd|tyg|ay|hafta|gün|мес|нед|"
    "views?|frames?|slices?|images?|imgs?|phases?|echoes|echos?|channels?|kanal|ebenen|ebene|schichten|bilder|aufnahmen|vues?|incidences?|coupes?|clichés?|"
    "images?|proyecciones|proyección|cortes|imágenes|incidências|proiezioni|immagini|strati|sezioni|opnamen|coupes|projekcje|projekcji|obrazów|warstw|snitt|bilder|"
    "leads?|ports?|stents?|vessels?|lesions?|nodules?|metastases|nodes|fragments?|pieces|passes|doses?|fractions?|cycles?|fx|times|mal|fois|veces|volte|vezes|keer|razy|gånger|"
    "fold|x|st|nd|rd|th|d|dim|p|w|n|z|r|l|joules?|j|ev|ohm|mets?|steps?|beats?|pts?|points?|cores?|biopsies|samples|weeks|g/kg|kg/m2|kg/m²|mm/s|cm/s|m/s|mt/m|t/m/s"
).split("|")
# Longest first: an alternation takes the first branch that matches.
_UNIT = "|".join(re.escape(unit) for unit in sorted(set(_UNITS), key=lambda unit: (-len(unit), unit)))
_NUMBER = r"\d{1,5}(?:[.,]\d{1,4})?"
_TECHNICAL = (
    "te|tr|ti|ta|fa|etl|fov|nex|nsa|bw|bandwidth|b|bval|bvalue|b-value|kv|kvp|ma|mas|wl|ww|w|l|c|window|level|mi|tis|tib|tic|fr|fps|gain|gn|dr|matrix|slice|slices|thk|"
    "thickness|gap|phase|phases|frame|frames|snr|dose|ctdi|ctdivol|dlp|dap|suv|suvmax|hu|adc|ef|lvef|fe|fevi|feve|fevg|ef lk|фв|crp|nt-probnp|bnp|tsh|cea|ldh|hb|d-dimer|d-dimere|troponin|lipase|lipasi|amylase|ferritin|bilirubin|ggt|alat|asat|krea|срб|ттг|пса|psa|crea|creatinine|kreatinin|créatinine|creatinina|"
    "egfr|gfr|bmi|bp|rr|ta|hr|fc|pulse|puls|spo2|temp|sense|grappa|ipat|accel|acc factor|factor|kernel|filter|delay|pitch|increment|inc|collimation|angle|gantry|tilt|field|energy|"
    "mono|ei|di|sid|sod|exposure|index|s|exi|table|speed|flow|rate|width|depth|dep|freq|power|pwr|persist|pers|wf|prf|map|dg|frq|zoom|scale|grade|grad|stage|stadium|stade|estadio|"
    "stadio|score|type|typ|class|level|bosniak|birads|bi-rads|bi rads|lirads|li-rads|pirads|pi-rads|tirads|lung-rads|gleason|fazekas|pfirrmann|kellgren|salter|harris|weber|ao|asa|nyha|"
    "ecog|karnofsky|ki67|ki-67|gcs|nihss|mrs|t|n|m|g|p|gravida|para|segment|seg|rib|rippe|côte|costilla|costa|zone|level|x|approx|ca|circa|about|etwa|environ|"
    "ungefähr|aprox|über|under|over|up to|bis|run|echo|station|bed|pass|stack|volume|part|step|loop|cycle|day|week|month|tag|woche|dia|día|jour|giorno|dag|version|v|rev"
).split("|")
_CUE = "|".join(re.escape(word) for word in sorted(set(_TECHNICAL), key=lambda word: (-len(word), word)))
_AGENTS = (
    "omnipaque|iohexol|visipaque|iodixanol|ultravist|iopromid[ea]?|isovue|iopamidol|iopamiro|iomeron|imeron|iomeprol|optiray|ioversol|xenetix|iobitridol|oxilan|ioxilan|"
    "accupaque|solutrast|hexabrix|telebrix|conray|iopamiron|jopamiro|scanlux|omnitrast|clarograf|ultraject|iodine|iod|iodo|jod|km|contrast|kontrastmittel|contraste|produit|contrasto"
)

_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![\w.,/]){_NUMBER}(?:\s?(?:-|–|to|bis|à|a|x|×|\*|/|±|:)\s?{_NUMBER}){{0,3}}\s?-?(?:{_UNIT})(?![^\W_])",
        rf"(?<![\w.,/]){_NUMBER}\s?%",
        rf"(?<![^\W_])(?:{_CUE})[\s.:=_#<>~-]{{0,3}}\d{{1,4}}(?:[.,]\d{{1,3}})?(?:\s?[/x×-]\s?\d{{1,4}}(?:[.,]\d{{1,3}})?){{0,2}}(?![\w/]|[.,-]\d)",
        rf"(?<![^\W_])(?:{_AGENTS})[\s:=_(-]{{0,3}}\d{{2,3}}(?![\w]|[.,-]\d)",
        rf"(?<![\w.,]){_NUMBER}(?:\s?[x×*]\s?{_NUMBER}){{1,3}}(?:{_UNIT})?(?![\w])",
        r"(?<![\w.,/])\d{1,2}\s?(?:/|of|von|de|di|sur|van|z|av)\s?\d{1,2}(?![\w/]|[.,]\d)",
        r"(?<![\w.,/-])[<>~≤≥±+-]?\d{1,2}[.,]\d{1,3}(?![\w]|[.,/-]\d)",
        r"(?<![^\W_])(?:th|[ctlsd])\d{1,2}(?:\s?[-/–]\s?(?:th|[ctls])?\d{1,2}){1,3}(?![\w])",
        r"(?<![\w.,/])\d\s?\+\s?\d(?:\s?=\s?\d{1,2})?(?![\w]|[.,/-]\d)",
        r"(?<![^\W_])[cpyra]{0,3}t(?:is|x|[0-4][a-d]?)(?:\s?\(?[mn]?\)?)?\s?(?:[cp]?n(?:x|[0-3][a-c]?))?\s?(?:[cp]?m(?:x|[01][a-c]?))?(?![^\W_])",
        r"(?<![^\W_])(?:bi|li|pi|ti|ni|o|lung|c)-?\s?rads\W{0,2}[0-6][a-c]?(?![^\W_])",
        r"(?<![^\W_])\d[a-d](?![^\W_])",
        r"(?<![^\W_])ki-?67(?!\d)",
    )
)
# Quantities have no leading zeros; record numbers and phone numbers do.
_LEADING_ZERO = re.compile(r"(?<![\d.,])0\d{2,}")


def find_quantities(text: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open spans of a text whose numbers are quantities, notations or counts."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if not _LEADING_ZERO.search(match[0]):
                yield match.span()
