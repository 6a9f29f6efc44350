"""Names of days of the year: feasts and public holidays, which are dates without a number.

A feast that is also a clinical word ("Christmas disease", "natal") is matched only with a word for a day. The
names of public holidays of all countries are in ``policies/tables/feast_days.txt``; the patterns here have
what that table lacks: inflected forms, feasts on which nobody is free, and names with a condition.
"""

# ruff: noqa: E501  (one language a line)

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from medsanitize.policies.tables.vocabulary import feast_days, fold
from medsanitize.sanitize.text.scripts.characters import UNSPACED, WORD, has_script, script_of

_CHRISTMAS = r"(?:christmas|xmas)(?![ -](?:disease|factor|tree))(?:[ -](?:eve|day))?"
_NAMES = (
    # English
    rf"easter(?:[ -](?:sunday|monday|saturday|eve|day|weekend))?|good friday|maundy thursday|palm sunday|ash wednesday|shrove tuesday|whit(?:[ -]?sunday|[ -]?monday)|whitsun|pentecost|ascension day"
    rf"|{_CHRISTMAS}|boxing day|new year['’]s(?: (?:eve|day))?|new years? (?:eve|day)|thanksgiving(?: day)?|(?:memorial|labou?r|independence|veterans?['’]?|columbus|presidents?['’]?|martin luther king|mlk|canada|anzac|australia|remembrance|armistice|victoria|groundhog|mothers?['’]?s?|fathers?['’]?s?|valentine['’]?s?|republic) day(?! \d)"
    r"|valentine['’]s|juneteenth|halloween|hogmanay|(?:guy fawkes|bonfire) night|mardi gras|(?:early |late )?(?:may|spring|august|summer) bank holiday|bank holiday(?: monday)?|(?:st|saint)\.? [a-z]{2,12}['’]?s day"
    r"|yom kippur|rosh hashanah?|passover|hanukk?ah|chanukah|purim|sukkot|eid(?:[ -](?:al|ul|el)[ -][a-z]{3,5})?|diwali|deepavali|holi festival|nowruz|navratri|(?:chinese|lunar) new year|songkran|vesak",
    # German, Dutch, Danish, Norwegian, Swedish, Finnish
    r"oster(?:n|sonntag|montag|samstag|wochenende)|karfreitag|gründonnerstag|gruendonnerstag|palmsonntag|pfingst(?:en|sonntag|montag|wochenende)|(?:christi )?himmelfahrt(?:stag)?|fronleichnam|weihnacht(?:en|stag|sfeiertag)?|(?:ersten?|zweiten?|1\.|2\.) (?:weihnachts)?feiertag"
    r"|heilig(?:er )?abend|heiligabend|silvester(?:abend|nacht)?|neujahr(?:stag|smorgen)?|rosenmontag|faschingsdienstag|aschermittwoch|allerheiligen|allerseelen|reformationstag|totensonntag|volkstrauertag|nikolaus(?:tag|abend)?|(?:heilige )?drei[ -]?könig(?:e|stag)|buß- und bettag|tag der (?:deutschen einheit|arbeit)|maifeiertag|bundesfeier(?:tag)?|mariä himmelfahrt"
    r"|(?:eerste |tweede )?kerst(?:mis|avond|dag|nacht)?|(?:eerste |tweede )?(?:paas|pinkster)(?:dag|zondag|maandag|weekend)|pasen|pinksteren|hemelvaart(?:sdag)?|goede vrijdag|oudjaar(?:s(?:avond|dag|nacht))?|oud en nieuw|nieuwjaar(?:sdag|snacht)?|koning(?:s|inne)dag|bevrijdingsdag|sinterklaas(?:avond)?"
    r"|(?:første |anden |andre )?juledag|lillejuleaften|juleaften?|påske(?:dag|aften)?|pinse(?:dag)?|nytår(?:saften|sdag)?|nyttårs(?:aften|dag)|langfredag(?:en)?|skærtorsdag|skjærtorsdag|store bededag|grundlovsdag|sankt ?hans(?:aften)?|kristi himmelfart(?:sdag)?|syttende mai"
    r"|jul(?:afton|dag)(?:en)?|annandag(?:en)?(?: jul| påsk| pingst)?|nyårs(?:afton|dag|natt)(?:en)?|påsk(?:en|afton|dag)?(?:en)?|skärtorsdag(?:en)?|midsommar(?:afton|dag|helgen)?(?:en)?|pingst(?:en|afton|dag)?(?:en)?|kristi himmelsfärds?(?:dag)?(?:en)?|valborg(?:smässoafton)?|trettondag(?:en|safton)|alla helgons dag|nationaldagen"
    r"|joulu(?:aatto|päivä|na)?(?:na)?|juhannus(?:aatto)?(?:na)?|pääsiäi(?:nen|senä|späivä\w{0,2})|vappu(?:na|aatto)?|uudenvuoden(?:aatto|päivä)(?:na)?|itsenäisyyspäivä(?:nä)?",
    # French, Spanish, Italian, Portuguese
    r"(?:lundi |dimanche |samedi )?(?:de )?p[âa]ques|(?:veille|nuit|jour) de no[ëe]l|no[ëe]l(?=\s(?:19|20)\d\d)|réveillon|reveillon|jour de l['’]an|nouvel an|toussaint|(?:lundi |dimanche )?(?:de )?(?:la )?pentec[ôo]te|jeudi de l['’]ascension|assomption|f[êe]te (?:nationale|du travail)|saint[ -]sylvestre|chandeleur|mercredi des cendres|vendredi saint|jeudi saint|[ée]piphanie|f[êe]te des (?:mères|pères|rois)"
    r"|nochebuena|nochevieja|navidad(?:es)?|año nuevo|semana santa|(?:jueves|viernes|sábado|sabado|lunes) santo|(?:domingo|lunes|vigilia) de (?:ramos|resurrección|pascua|pentecostés)|pascua|d[íi]a de (?:reyes|muertos|los muertos|la hispanidad|todos los santos|la madre|acción de gracias|san [a-z]{3,10}|la independencia)|reyes magos|todos los santos|lunes de carnaval|corpus christi|fiestas patrias|san silvestre|noche de san juan"
    r"|(?:vigilia|giorno|notte|festa) di natale|natale(?=\s(?:19|20)\d\d)|capodanno|(?:domenica|lunedì|vigilia) di pasqua|pasqu(?:a|etta)|lunedì dell['’]angelo|ferragosto|epifania|befana|ognissanti|venerdì santo|giovedì santo|martedì grasso|festa della (?:repubblica|liberazione|mamma|donna)|(?:giorno di )?santo stefano|notte di san [a-z]{3,10}|san silvestro"
    r"|(?:véspera|vespera|dia|noite|ceia) de natal|natal(?= de (?:19|20)\d\d)|(?:véspera|vespera|dia|noite) de ano[ -]novo|ano[ -]novo|(?:domingo|segunda) de p[áa]scoa|p[áa]scoa|sexta[ -]feira santa|(?:terça|terca|segunda|domingo|quarta)(?:[ -]feira)? de (?:carnaval|cinzas)|dia de (?:finados|reis|todos os santos|tiradentes|s[ãa]o [a-zã]{3,10})|noite de s[ãa]o jo[ãa]o",
    # Polish, Czech, Turkish
    r"wigili[aęiąo]|boże narodzenie|bożego narodzenia|wielkano(?:c|cy|cą)|(?:poniedziałek|niedziela|niedzielę) wielkano\w{2,4}|wielki(?:ego)? (?:piątek|piątku|czwartek|czwartku)|sylwest(?:er|ra|rowa|rową)|now(?:y|ego) rok(?:u)?|boż(?:e|ego) ciał[oa]|trzech króli|wszystkich świętych|zielone świątki|tłusty czwartek|święto niepodległości|lany poniedziałek"
    r"|vánoc(?:e|ích)?|štědrý (?:den|večer)|velikono(?:ce|c|cích|ční pondělí)|silvestr(?:a|ovská noc)?|nov(?:ý|ého) rok(?:u)?|velk(?:ý|ého) pátek|dušičk(?:y|ách)"
    r"|(?:kurban|ramazan|şeker) bayram[ıi](?:nda|nın)?|bayramın \d\. günü|y[ıi]lba[şs][ıi](?:nda)?|cumhuriyet bayramı|nevruz|arife günü",
    # Russian, Greek, Arabic, Hebrew
    r"нов(?:ый|ого|ым) год(?:а|ом)?|рождеств(?:о|а|ом)|пасх(?:а|у|и|ой)|троиц(?:а|у|ы)|день победы|день знаний|старый новый год|маслениц(?:а|у|ы)|курбан-байрам|ураза-байрам|сочельник|крещени(?:е|я)"
    r"|π[άα]σχα|χριστο[ύυ]γενν(?:α|ων)|πρωτοχρονι[άα](?:ς)?|παραμονή (?:πρωτοχρονιάς|χριστουγέννων)|δεκαπενταύγουστο[ςυ]?|μεγ[άα]λ(?:η|ης) (?:παρασκευή(?:ς)?|πέμπτη(?:ς)?|εβδομάδα(?:ς)?)|καθαρ[άα] δευτέρα|θεοφάνεια|αγίου πνεύματος"
    r"|عيد (?:الفطر|الأضحى|الاضحى|الميلاد|الفصح|النيروز)|رأس السنة(?: الميلادية| الهجرية)?|المولد النبوي|يوم عرفة|عاشوراء"
    r"|(?:ערב )?(?:פסח|ראש השנה|יום כיפור|יום הכיפורים|חנוכה|סוכות|פורים|שמחת תורה|יום העצמאות|ל\"ג בעומר)",
)  # fmt: skip
_UNSPACED = (
    "春节|春節|除夕|大年初[一二三四五六七八九十]|正月初[一二三四五六七八九十]|元旦|元宵节|元宵節|清明节|清明節|端午节|端午節|中秋节|中秋節|重阳节|重陽節|国庆节|國慶節|国庆|国庆期间|圣诞节|聖誕節|平安夜|劳动节|五一节"
    "|お正月|元日|大晦日|ゴールデンウィーク|お盆休み|お盆|クリスマス(?:イブ)?|成人の日|敬老の日|文化の日|体育の日|節分|ひな祭り|七夕"
    "|설날|추석|한가위|크리스마스(?:이브)?|어린이날|어버이날|신정|구정|석가탄신일|광복절|개천절|สงกรานต์|วันปีใหม่|ปีใหม่|ลอยกระทง"
)

FEAST_DAYS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(rf"(?<![^\W_])(?P<cut>{names})(?![^\W_])", re.IGNORECASE) for names in _NAMES
)
"""Patterns of feasts in scripts with spaces; their group ``cut`` is the name."""

UNSPACED_FEAST_DAYS = f"(?:{_UNSPACED})"
"""Pattern of feasts in Chinese, Japanese, Korean and Thai."""

_WORD = re.compile(f"{WORD}+")
_GAP = re.compile(r"[ '’`´.-]{1,2}")


def find_listed_feasts(text: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open spans of feasts and public holidays that the table lists.

    Parameters
    ----------
    text : str

    Yields
    ------
    tuple of (int, int)
        In no order; spans may overlap.
    """
    words = list(_WORD.finditer(text))
    listed, first = feast_days(), _first_words()
    folded = [fold(word[0]) for word in words]
    for place, word in enumerate(words):
        key = ""
        for here in range(place, min(len(words), place + first.get(folded[place], 0))):
            if here > place and not _GAP.fullmatch(text, words[here - 1].end(), words[here].start()):
                break
            key += f" {folded[here]}" if key else folded[here]
            if key in listed:
                yield word.start(), words[here].end()
    if has_script(text):
        yield from _unspaced(text)


def _unspaced(text: str) -> Iterator[tuple[int, int]]:
    names = _unspaced_names()
    for place, char in enumerate(text):
        yield from (
            (place, place + len(name)) for name in names.get(char, ()) if text.startswith(name, place)
        )


@cache
def _first_words() -> dict[str, int]:
    """Return the most words of a name by its first word: most words of a text begin none."""
    longest: dict[str, int] = {}
    for name in feast_days():
        first, *more = name.split(" ")
        longest[first] = max(longest.get(first, 0), 1 + len(more))
    return longest


@cache
def _unspaced_names() -> dict[str, tuple[str, ...]]:
    """Return the names in scripts without spaces between words, by their first character."""
    names: dict[str, list[str]] = defaultdict(list)
    for name in feast_days():
        if script_of(name[0]) in UNSPACED:
            names[name[0]].append(name)
    return {char: tuple(found) for char, found in names.items()}
