"""Patterns for dates and times of day in many languages; durations are not matched."""

# ruff: noqa: E501  (one pattern a line)

from __future__ import annotations

import re

_MONTHS = (
    "january february march april june july august september october november december "
    "januar jänner jaenner februar märz maerz mai juni juli oktober dezember "
    "janvier février fevrier mars avril juin juillet août aout septembre octobre novembre décembre decembre "
    "enero febrero marzo abril mayo junio julio agosto septiembre setiembre octubre noviembre diciembre "
    "gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre "
    "janeiro fevereiro março marco maio junho julho setembro outubro novembro dezembro "
    "januari februari maart mei augustus december maj juni juli augusti "
    "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września wrzesnia października pazdziernika listopada grudnia "
    "styczeń luty marzec kwiecień czerwiec lipiec sierpień wrzesień październik listopad grudzień "
    "marts oktober tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta "
    "lokakuuta marraskuuta joulukuuta ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık "
    "leden ledna lednu únor února únoru březen března březnu duben dubna dubnu květen května květnu červen června červnu červenec července "
    "červenci srpen srpna srpnu září říjen října říjnu listopad listopadu prosinec prosince prosinci "
    "január januári februári február március márciusi április áprilisi május májusi június júniusi július júliusi augusztus augusztusi szeptember "
    "szeptemberi október októberi november novemberi december decemberi "
    "ianuarie februarie martie aprilie iunie iulie septembrie octombrie noiembrie decembrie "
    "tammikuu helmikuu maaliskuu huhtikuu toukokuu kesäkuu heinäkuu elokuu syyskuu lokakuu marraskuu joulukuu tammikuun helmikuun maaliskuun "
    "huhtikuun toukokuun kesäkuun heinäkuun elokuun syyskuun lokakuun marraskuun joulukuun tammikuussa helmikuussa maaliskuussa huhtikuussa "
    "toukokuussa kesäkuussa heinäkuussa elokuussa syyskuussa lokakuussa marraskuussa joulukuussa desember"
).split()
_SHORT = (
    "jan feb mar apr may jun jul aug sept sep oct nov dec jän mrz mär okt dez janv févr fév avr juil ene abr ago dic gen "
    "mag giu lug ott dez fev set out mrt mei maj kwi cze lip sie wrz paź lis gru sty lut"
).split()
# Longest first: an alternation takes the first branch that matches.
_LONG = "|".join(sorted(set(_MONTHS), key=lambda word: (-len(word), word)))
_ANY = "|".join(sorted({*_MONTHS, *_SHORT}, key=lambda word: (-len(word), word)))
# Not "Tuesdays" and "dienstags": a day of every week is no date.
_WEEKDAYS = "|".join(
    sorted(
        (
            "monday tuesday wednesday thursday friday saturday sunday "
            "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag "
            "lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes miércoles miercoles jueves viernes sábado sabado domingo "
            "lunedì lunedi martedì martedi mercoledì mercoledi giovedì giovedi venerdì venerdi sabato domenica "
            "segunda-feira terça-feira terca-feira quarta-feira quinta-feira sexta-feira "
            "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag "
            "poniedziałek poniedziałku wtorek wtorku środa środę środy czwartek czwartku piątek piątku sobota sobotę soboty niedziela niedzielę niedzieli "
            "måndag måndagen tisdag tisdagen onsdag onsdagen torsdag torsdagen fredag fredagen lördag lördagen söndag söndagen "
            "mandag tirsdag lørdag søndag pazartesi çarşamba perşembe cumartesi pondělí úterý středa středu čtvrtek pátek neděle neděli "
            "hétfő hétfőn kedd kedden szerda szerdán csütörtök csütörtökön péntek pénteken szombat szombaton vasárnap marți miercuri joi vineri sâmbătă duminică "
            "maanantai maanantaina tiistai tiistaina keskiviikko keskiviikkona torstai torstaina perjantai perjantaina lauantai lauantaina sunnuntai sunnuntaina"
        ).split(),
        key=lambda word: (-len(word), word),
    )
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_ORDINAL = r"(?:st|nd|rd|th|er|re|e|\.º|º|ª|°|\.|a|de|:e)?"
_YEAR = r"(?:(?:19|20|21)\d{2}|['’]\d{2})"
_OF = r"(?:of|de|del|di|do|der|den|d')?"
_DAY_ENDING = r"(?:st|nd|rd|th|er|re|ste|de|e|:e|:a|-?e?go|\.|º|ª|°)?"
_ARTICLE = r"(?:the|le|el|il|de|den|dem|dia|día|giorno|dnia)"
# "on the 3rd rib" is no date: only what ends its clause is one.
_ENDS = r"(?=\s*(?:[;)]|(?-i:\.(?!\s?[a-zà-ÿ]))|,(?!\s?\d)|$))"
_NUMBER_WORD = (
    r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|thirteenth|fourteenth|fifteenth|sixteenth"
    r"|seventeenth|eighteenth|nineteenth|twentieth|thirtieth|(?:twenty|thirty)[ -](?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth)"
    r"|(?:ers|zwei|drit|vier|fünf|sechs|sieb|sieben|ach|neun|zehn|elf|zwölf|[a-zäöü]{3,6}zehn|[a-zäöü]{0,14}zigs|dreißigs)te[nr]|premier|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|treize|quatorze|quinze|seize|vingt|trente"
    r"|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|trece|catorce|quince|veinte|treinta|veinti[a-zéó]{3,6}|primero"
    r"|due|tre|quattro|cinque|sei|sette|otto|nove|dieci|undici|dodici|tredici|quattordici|quindici|sedici|venti[a-zé]{0,7}|trenta|primo"
    r"|dois|três|quatro|sete|oito|dez|doze|treze|catorze|vinte|primeiro)"
)
# Followed by a unit, numbers are a quantity and not a date.
_UNIT = r"(?!\s?(?:mm|cm|ml|mg|kg|kv|kvp|ma|mas|ms|sec|s|t|hz|gy|%|°|x|f|fr|min)(?![^\W_]))"
_ROMAN = r"(?:VIII|VII|VI|IV|IX|XII|XI|X|V|III|II|I)"
# "of this month", "of the last one", "of the next one", as letters have it.
_THIS_MONTH = (
    r"(?:c\.\s?m|u\.\s?s|p\.\s?v|d\.\s?m|d\.\s?j|b\.\s?m|ub\.\s?m|p\.\s?p|ds|dss?\.\s?mts|cte|pdo|dieses monats|des (?:monats|mts)"
    r"|(?:del? |do |du )?(?:cte|corriente|corrente|courant|ct|pdo|pasado|passado|mois (?:dernier|courant|prochain)|mes (?:pasado|actual|próximo|passado|corrente)|mese (?:scorso|corrente))"
    r"|dezer|bieżącego miesiąca|ubiegłego miesiąca|bm|denna månad)"
)
# What happened on a day; "CT 5/12" may be the number of an image.
_EVENT = (
    r"(?:today|yesterday|admitted|discharged|seen|injured|fell|operated|surgery|appointment|appt|visit|onset|dos|signed|dictated|died|transferred|d/c['’]?d"
    r"|heute|gestern|morgen|gestürzt|aufgenommen|entlassen|aufnahme|entlassung|termin|unfall|kontrolle am|op am|operiert|gesehen|verstorben|verlegt"
    r"|hier|demain|admise?|sorti[e]?|opérée?|vue? le|rendez-vous|rdv|hoy|ayer|ingresad[oa]|ingreso|alta|operad[oa]|cita|visto el"
    r"|oggi|ieri|ricoverat[oa]|dimess[oa]|operat[oa]|visita|hoje|ontem|internad[oa]|alta em|consulta em|vandaag|gisteren|opgenomen|ontslagen|geopereerd|afspraak"
    r"|dziś|dzisiaj|wczoraj|przyjęt[ya]|wypisan[ya]|operowan[ya]|wizyta|idag|igår|inskriven|utskriven|opererad|besök)"
)
# When a sample arrived; "received 2.5 ml" has a unit.
_RECEIPT = (
    r"(?:received|rec['’]?d|collected|eingang|eingegangen|erhalten|entnommen|reçue?s?|prélevée?|recibid[oa]|recibimos|recogid[oa]|pervenut[oaie]|ricevut[oaie]"
    r"|recebid[oa]|colhid[oa]|entrada|ontvangen|afgenomen|otrzyman[oya]|dostarczon[oya]|pobran[oya]|przyjęto|inkom(?:men|met)?|mottag(?:en|et)|modtaget|mottatt"
    r"|přijat[oa]|přijetí|odebrán[oa]|érkezett|beérkezett|primit[ăa]?|recoltat[ăa]?|saapunut|otettu|geliş|alındı|kabul)"
)
_CUE = (
    r"(?:dob|d\.o\.b|born|birth(?:date|day)?|bday|dated?|since|geb(?:oren)?|geb\.?datum|geburtsdatum|geburtstag|datum|am|vom"
    r"|n[ée]e?|naissance|ddn|nacid[oa]|nacimiento|fecha|fnac|nat[oa]|nascita|data|nascid[oa]|nascimento|dn|le|du|il|del"
    r"|dnia|ur|urodzon[ya]|data\surodzenia|född|fodd|geboortedatum|gebdat|on)"
)

# HIPAA 164.514(b)(2)(i)(C): a year by itself may be kept.
DATES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # 12.05.1950, 2019-05-12, 5/12/50, 12 05 50, 12.05.50M, 12-05-50
        r"(?<!\d)(?<!\d[.,])(?P<cut>\d{1,4}\s?[./\-–_]\s?\d{1,2}\s?[./\-–_]\s?\d{2,4})(?=[tfmwd_ ]|[^\w]|$|\b)(?!\d)"
        + _UNIT,
        r"(?<!\d)(?<!\d[.,])(?P<cut>(?:0[1-9]|[12]\d|3[01])\s(?:0[1-9]|1[0-2])\s(?:19|20)?\d{2})(?![\d.,])"
        + _UNIT,
        r"(?<!\d)(?P<cut>(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[T_-]?\d{4,6})?)(?!\d)",
        r"(?<!\d)(?P<cut>(?:0[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])(?:19|20)\d{2})(?!\d)",
        # 05/2019, 2019-05, 05/50 after a cue, 12.05. and 12.05 and 12/05 without a unit
        r"(?<![\d/-])(?<!\d[.,])(?P<cut>(?:0?[1-9]|1[0-2])\s?[./-]\s?(?:19|20)\d{2})(?![\d])" + _UNIT,
        r"(?<![\d/-])(?<!\d[.,])(?P<cut>(?:19|20)\d{2}\s?[./-]\s?(?:0[1-9]|1[0-2]))(?![\d.])" + _UNIT,
        rf"(?<![^\W_]){_CUE}[\W_]{{1,4}}(?P<cut>{_DAY}[\s./-]{{1,2}}\d{{1,4}}(?:[\s./-]{{1,2}}\d{{2,4}})?)(?![\d])"
        + _UNIT,
        r"(?<![^\W_])(?:dob|born|geb|geburtsdatum|nacid[oa]|nat[oa]|n[ée]e?|född|ur)[\W_]{1,4}(?P<cut>\d{2,8})(?![\d])"
        + _UNIT,
        r"(?<![\w/-])(?<!\d[.,])(?P<cut>(?:0[1-9]|[12]\d|3[01])\.(?:0[1-9]|1[0-2])\.?)(?![\d\w])" + _UNIT,
        r"(?<![\w/-])(?<!\d[.,])(?<!slice )(?<!image )(?<!phase )(?<!frame )(?<!series )(?P<cut>(?:0[1-9]|[12]\d|3[01])/(?:0[1-9]|1[0-2])|(?:0[1-9]|1[0-2])/(?:0[1-9]|[12]\d|3[01]))(?![\w/]|[.,]\d)"
        + _UNIT,
        # 12.V.2019, 7-iii-2019, 3 XI 19
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_DAY}(?:[./-]|\s|\.\s)(?:{_ROMAN})(?:[./-]|\s|\.\s)(?:(?:19|20)\d{{2}}|['’]\d{{2}}))(?!\d)",
        rf"(?<![\w/-])(?<!\d[.,])(?P<cut>{_DAY}[./-](?-i:{_ROMAN})[./-]\d{{2}})(?![\w/]|[.,-]\d)",
        # admitted 5/12, heute 14.5., hier 3/5; 12th inst.
        rf"(?<![^\W_]){_EVENT}[\s:,(]{{1,3}}(?P<cut>(?:{_DAY}/(?:0?[1-9]|1[0-2])|(?:0?[1-9]|1[0-2])/{_DAY}|{_DAY}\.\s?(?:0?[1-9]|1[0-2])\.)(?:\d{{2,4}})?)(?![\w/]|[.,]\d)"
        + _UNIT,
        rf"(?<![^\W_]){_RECEIPT}[\s:,(]{{1,3}}(?:(?:on|am|den|dne|le|el|il|em|op|dnia|w dniu|la)\s)?(?P<cut>\d{{1,2}}[./]\s?\d{{1,2}}\.?(?:\d{{2,4}})?)(?![\w/]|[.,]\d)"
        + _UNIT,
        rf"(?<![^\W_])(?:mo|di|mi|do|fr|sa|so|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)[.,]{{1,2}}\s?(?P<cut>{_DAY}\.\s?(?:0?[1-9]|1[0-2])\.?)(?![\w/]|[.,]\d)"
        + _UNIT,
        rf"(?<![^\W_])(?P<cut>(?:mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)[.,]?\s(?:0?[1-9]|1[0-2])/{_DAY})(?![\w/]|[.,]\d)",
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_DAY}(?:st|nd|rd|th)\s(?:inst|ult|prox)(?:ant|imo)?)(?![^\W_])",
        # il 25 c.m., am 12. d. M., el 14 del cte., d.d. 14 dezer
        rf"(?<![^\W_])(?:il|del|dal|al|data|am|vom|seit|zum|bis|el|le|du|dia|día|dnia|de|den|d\.d\.)\s(?P<cut>{_DAY}\.?[\s/]?{_THIS_MONTH}\.?)(?![^\W_])",
        # fell on Mon, am Mi, we wt.
        r"(?<![^\W_])(?:on|since|until|till|by|last|next|this|every other)\s(?P<cut>(?-i:Mon|Tue|Tues|Wed|Weds|Thu|Thur|Thurs|Fri|Sat|Sun))(?![^\W_])",
        r"(?<![^\W_])(?:am|seit|bis|ab|vom|letzten|nächsten|kommenden|diesen)\s(?P<cut>(?-i:Mo|Di|Mi|Do|Fr|Sa|So))(?![^\W_])(?!\.\s?(?-i:[A-ZÄÖÜ]))",
        r"(?<![^\W_])(?:we?|od|do|na)\s(?P<cut>(?:pon|wt|śr|czw|pt|sob|ndz|niedz)\.)",
        r"(?<![^\W_])(?P<cut>weds|thurs)(?![^\W_])",
        # 2019-W12-3
        r"(?<![\w/-])(?<!\d[.,])(?P<cut>(?:19|20)\d{2}-?W(?:0[1-9]|[1-4]\d|5[0-3])(?:-?[1-7])?)(?![\w])",
        # 4 December 2019, Dec 4th, 4. Dezember, 4 de mayo de 2019, le 1er mars
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_DAY}{_ORDINAL}[\s.\-/_]{{0,2}}{_OF}[\s.\-/_]{{0,2}}(?:{_LONG})(?![^\W\d_])(?:[\s.,\-/_]{{0,3}}{_OF}[\s.,\-/_]{{0,2}}{_YEAR})?)",
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_DAY}{_ORDINAL}[\s.\-/_]{{0,2}}(?:{_ANY})(?![^\W\d_])\.?[\s.,\-/_]{{0,3}}(?:{_YEAR}|\d{{2}}(?!\d)))",
        rf"(?<![^\W_])(?P<cut>(?:{_ANY})(?![^\W_])\.?[\s.,\-/_]{{1,3}}{_DAY}(?:st|nd|rd|th)?(?!\d)(?:[\s.,\-/_]{{1,3}}(?:{_YEAR}|\d{{2}}(?!\d)))?)"
        + _UNIT,
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_DAY}(?:st|nd|rd|th)?[\s.\-_]{{0,2}}(?:jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec|okt|dez|mrz)(?![^\W\d_]))",
        rf"(?<![^\W_])(?P<cut>(?:{_ANY})(?![^\W_])\.?[\s.,\-/_]{{0,3}}{_OF}\s?{_YEAR})(?!\d)",
        rf"(?<![^\W_])(?P<cut>(?:{_LONG}))(?<!mars)(?<!marco)(?<!mai)(?<!march)(?<!mei)(?<!mart)(?<!marca)(?<!maja)(?<!maj)(?<!luty)(?<!marco)(?![^\W_])",
        # twelfth of May, trois mai, tres de mayo, 3rd of May, Q1 2019, 14/3
        rf"(?<![^\W_])(?P<cut>{_NUMBER_WORD}\s(?:of\s|de\s|di\s)?(?:{_LONG}|may)(?![^\W_])(?:\s(?:de\s|of\s)?{_YEAR})?)",
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_DAY}(?:st|nd|rd|th)?\s(?:of\s)?may)(?![^\W_])",
        r"(?<![^\W_])(?P<cut>q[1-4][\s/-]{0,2}(?:19|20)\d{2})(?!\d)",
        r"(?<![\w/-])(?<!\d[.,])(?<!slice )(?<!image )(?<!phase )(?<!frame )(?<!series )(?P<cut>(?:1[3-9]|2\d|3[01])/(?:0?[1-9]|1[0-2]))(?![\w/]|[.,]\d)"
        + _UNIT,
        # Monday the 3rd of May, lunes 3, Montag, dem 3., måndagen den 3:e
        rf"(?<![^\W_])(?P<cut>(?:{_WEEKDAYS})(?![^\W_])(?:[\s,.]{{1,3}}(?:{_ARTICLE}\s){{0,2}}{_DAY}{_DAY_ENDING}(?![\w%]|[.,/]\d)"
        + _UNIT
        + rf"(?:\s{_OF}\s?(?:{_ANY})(?![^\W_]))?)?)",
        rf"(?<![^\W_])(?P<cut>(?:mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\.?,?\s(?:the\s)?{_DAY}(?:st|nd|rd|th))(?![^\W_])",
        rf"(?<![^\W_])(?P<cut>(?:mo|di|mi|do|fr|sa|so)[.,]{{1,2}}\s?(?:de[nm]\s)?{_DAY}\.)(?!\d)",
        # the 21st of June
        rf"(?<![^\W_])(?P<cut>the\s{_DAY}{_DAY_ENDING}\s{_OF}\s?(?:{_LONG}|may)(?![^\W_]))",
        # on the 14th, am 14., le 14, el día 14, il 14, no dia 14, de 14e, 14-go, den 14:e
        rf"(?<![^\W_])(?:on|since|until|till|by|from|before|after)\s(?P<cut>the\s{_DAY}(?:st|nd|rd|th))"
        + _ENDS,
        rf"(?<![^\W_])(?:am|vom|seit dem|bis zum|zum|ab dem)\s(?P<cut>{_DAY}\.)(?=\s*(?:[,;)]|$))",
        rf"(?<![^\W_])(?:le|il|depuis le)\s(?P<cut>{_DAY}(?:er)?)" + _ENDS,
        rf"(?<![^\W_])(?:el|del|il|no|do|o|al|dal|dnia)\s(?P<cut>(?:(?:día|dia|giorno)\s)?{_DAY})" + _ENDS,
        rf"(?<![^\W_])(?:op|sinds|vanaf|tot)\s(?P<cut>de\s{_DAY}(?:ste|de|e))" + _ENDS,
        rf"(?<!\w)(?<!\d[.,])(?P<cut>{_DAY}-?e?go)" + _ENDS,
        rf"(?<![^\W_])(?P<cut>den\s{_DAY}(?::[ea])?)" + _ENDS,
        # times of day: 14:32, 14h30, 2 pm, 14.32 Uhr; "bei 3 Uhr" is a place on a circle
        r"(?<!\d)(?<!\d[.,:])(?P<cut>(?:[01]?\d|2[0-3])[:h][0-5]\d(?:[:.][0-5]\d(?:\.\d{1,6})?)?(?:\s?[ap]\.?m\b\.?|\s?uhr\b)?)(?![\d:])(?!\s?(?:min|sec|delay)\b)",
        r"(?<!\w)(?<!\d[.,])(?P<cut>(?:0?[1-9]|1[0-2])(?:[:.][0-5]\d)?\s?[ap]\.?m)(?![^\W_])(?!\s?(?:view|spot))\.?",
        r"(?<!\w)(?<!\d[.,])(?!(?:(?<=bei )|(?<=zwischen )|(?<=auf ))\d{1,2} uhr)(?P<cut>(?:[01]?\d|2[0-3])(?:[:.][0-5]\d)?\s?(?:uhr|heures|o'clock|godz|uur|hod\b\.?)(?:\s[0-5]\d(?!\d))?)(?![^\W_])",
        r"(?<!\w)(?<!\d[.,])(?P<cut>(?:[01]?\d|2[0-3])(?:\sh\s[0-5]\d|[.:][0-5]\d\s?h|[0-5]\d\s?h(?:rs)?))(?![^\W_])(?!/)",
        r"(?<![^\W_])(?:um|alle|ore|om|godz|kl|klokken|klockan|saat|a\slas|à|às|gegen|vers|ab)[.:]?\s(?P<cut>(?:[01]\d|2[0-3])[.:h][0-5]\d)(?![\w.,]*\d)"
        + _UNIT,
    )
)
"""Patterns; their group ``cut`` is a date, a part of a date finer than the year, or a time of day."""
