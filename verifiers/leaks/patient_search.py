"""The patient search: identifiers of an object's own patient and study, in the text of the object.

Short names and IDs cannot be searched in raw bytes, but in the text of objects of their own patient each of
them counts: name tokens of 3 letters (2 in scripts whose letters are words), IDs and their parts of 4
characters, phrases of 6, and dates in several notations; as separate words, ignoring case and accents. To
avoid false alarms, which would prevent publication, these are not counted:

* particles, titles and placeholders for a missing name (van, Mrs, UNKNOWN), and values that say nothing
  (`XXXXXXXX`);
* a name token that is DICOM
vocabulary (a patient called Head) in attributes whose values the standard defines: CS
  values, code meanings, coding scheme names, the manufacturer and the de-identification attributes. In all
  other attributes it counts, since it may mean the patient;
* digits of an ID in numbers, times, ages and dates (IS, DS, TM, AS, DA, DT), unless they contain other text;
* keyed dummies (``ANON-`` and 8 base32 characters) and the pseudonym itself;
* dates that the date shift may produce (``Expected.allowed_dates``), and placeholders for unknown dates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from ahocorasick_rs import AhoCorasick, Implementation
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.stop_words import NOT_NAMES, PARTICLES
from medsanitize.verifiers.leaks.chance import says_nothing
from medsanitize.verifiers.leaks.dicom_reader import Parsed
from medsanitize.verifiers.leaks.identifier_encodings import fold, is_date, words

MIN_TOKEN: Final = 3
MIN_ID_TOKEN: Final = 4
MIN_PHRASE: Final = 6
_NO_NAMES: Final = PARTICLES | NOT_NAMES
VALUE_SEPARATOR: Final = b"\x1e"
"""Record separator between values, so that no word extends from one value into the next."""

_DATED: Final = frozenset([b"DA", b"DT"])
_NUMERIC: Final = frozenset([b"IS", b"DS", b"TM", b"AS", b"DA", b"DT"])
_NUMERALS: Final = b"0123456789 \0-+.:\\eEDWMY"
# Manufacturer, coding schemes and code meanings, De-identification Method (0012,0063).
_SPOKEN_BY_STANDARD: Final = frozenset(
    [0x00080070, 0x00080102, 0x00080103, 0x00080104, 0x00080115, 0x00120063, 0x0008010C]
)
_DUMMY: Final = re.compile(rb"(?:ANON[-_]|urn:x-anon:)[A-Z2-7]{8}[ \0]?")
# Defaults of systems for unknown dates: epochs of Unix, VMS and Excel, and both ends of the calendar.
_PLACEHOLDERS: Final = frozenset(["19000101", "00010101", "19700101", "18581117", "99991231"])
# Objects of one patient are mostly adjacent, so few matchers are reused often.
_MATCHERS_KEPT: Final = 32
_CODECS: Final = {
    b"ISO_IR 101": "iso8859_2",
    b"ISO_IR 109": "iso8859_3",
    b"ISO_IR 110": "iso8859_4",
    b"ISO_IR 126": "iso8859_7",
    b"ISO_IR 127": "iso8859_6",
    b"ISO_IR 138": "iso8859_8",
    b"ISO_IR 144": "iso8859_5",
    b"ISO_IR 148": "iso8859_9",
    b"ISO_IR 166": "tis_620",
    b"ISO_IR 13": "shift_jis",
    b"GB18030": "gb18030",
    b"GBK": "gbk",
    b"ISO 2022 IR 13": "shift_jis",
    b"ISO 2022 IR 58": "iso2022_jp_2",
    b"ISO 2022 IR 87": "iso2022_jp_2",
    b"ISO 2022 IR 149": "euc_kr",
    b"ISO 2022 IR 159": "iso2022_jp_2",
}


@dataclass(frozen=True, slots=True, repr=False)
class PatientSearch:
    """The tokens of one patient and study, their categories, and whether they are vocabulary."""

    automaton: AhoCorasick
    categories: tuple[str, ...]
    common: tuple[bool, ...]
    canonical: tuple[str, ...]


def build_patient_search(
    own: Collection[KnownValue], vocabulary: frozenset[str], cache: dict[frozenset[KnownValue], PatientSearch]
) -> PatientSearch:
    """Build the matcher of a patient, or return it from a cache.

    Parameters
    ----------
    own : collection of KnownValue
        Known values of the patient and study.
    vocabulary : frozenset of str
        Words, folded, that are common in DICOM.
    cache : dict
        Matchers by frozenset of known values; emptied when it has 32 entries.
    """
    key = own if isinstance(own, frozenset) else frozenset(own)
    found = cache.get(key)
    if found is None:
        tokens: dict[str, tuple[str, str]] = {}
        # Sorted: a token of two values gets the same category in every run.
        for known in sorted(key, key=lambda known: (known.category, known.value)):
            if says_nothing(known.value):
                continue
            for token in _tokens(known, vocabulary):
                tokens.setdefault(token, (known.category, known.value.strip()[:8]))
        found = PatientSearch(
            AhoCorasick(list(tokens), implementation=Implementation.ContiguousNFA),
            tuple(category for category, _ in tokens.values()),
            tuple(token in vocabulary for token in tokens),
            tuple(value for _, value in tokens.values()),
        )
        if len(cache) >= _MATCHERS_KEPT:
            cache.clear()
        cache[key] = found
    return found


def _tokens(known: KnownValue, vocabulary: frozenset[str]) -> Iterator[str]:
    category, value = known.category, known.value
    if category == "name":
        for token in re.findall(r"[^\W\d_]+", fold(value)):
            if len(token) >= (MIN_TOKEN if token.isascii() else 2) and token not in _NO_NAMES:
                yield token
    elif category == "id":
        whole = fold(value.strip())
        for token in {whole, *words(value)}:
            if len(token) >= MIN_ID_TOKEN and (any(map(str.isdigit, token)) or token not in vocabulary):
                yield token
    elif category == "date":
        day = value.strip()[:8]
        if is_date(day) and day not in _PLACEHOLDERS:
            year, month, monthday = day[:4], day[4:6], day[6:]
            yield day
            # Written ISO, European and American; eight digits are the DICOM form.
            yield from (mark.join((year, month, monthday)) for mark in "-./")
            yield from (mark.join((monthday, month, year)) for mark in "-./")
            yield f"{month}/{monthday}/{year}"
    elif category == "phone":
        digits = re.sub(r"[^0-9]", "", value)
        if len(digits) >= MIN_PHRASE:
            yield from {digits, fold(value.strip())}
    elif category != "uid":
        for part in {value, *re.split(r"[\\^,\r\n]+", value)}:
            phrase = fold(part.strip())
            if len(phrase) >= MIN_PHRASE and not all(
                word in vocabulary or len(word) < 3 for word in words(part)
            ):
                yield phrase


def search_texts(
    parsed: Parsed, places: list[int], found: PatientSearch, pseudonym: bytes, allowed_dates: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Yield element index and category of every identifier of the patient in ``parsed``.

    Parameters
    ----------
    parsed : Parsed
        The object.
    places : list of int
        Indexes of its text elements.
    found : PatientSearch
        The tokens of its patient and study.
    pseudonym : bytes
        Pseudonym of the patient, which is not counted.
    allowed_dates : frozenset of str
        Dates (YYYYMMDD) that are not counted.
    """
    buffer, elements = parsed.buffer, parsed.elements
    blob = VALUE_SEPARATOR.join([buffer[elements[place][2] : elements[place][3]] for place in places])
    for text in _readings(parsed, blob):
        for number, start, end in found.automaton.find_matches_as_indexes(text, overlapping=True):
            if not _is_word(text, start, end, found.categories[number]):
                continue
            # The number of separators before a match is the number of the value.
            place = places[text.count("\x1e", 0, start)]
            if _counts(parsed, place, number, found, pseudonym, allowed_dates):
                yield place, found.categories[number]


def _readings(parsed: Parsed, blob: bytes) -> Iterator[str]:
    """Yield the folded text in every encoding its bytes may have."""
    if b"\0" in blob:
        # UTF-16 in a text element, or NUL padding.
        yield fold(blob.replace(b"\0", b"").decode("latin-1"))
    if blob.isascii() and b"\x1b" not in blob:
        yield blob.decode("ascii").lower()
        return
    # Not only the declared character set: objects often declare a wrong one.
    codecs = {"utf-8", "latin-1"}
    for term in (parsed.value(0x00080005) or b"").split(b"\\"):
        codecs.add(_CODECS.get(term.strip(), "utf-8"))
    for codec in sorted(codecs):
        yield "\x1e".join(fold(value.decode(codec, "replace")) for value in blob.split(VALUE_SEPARATOR))


def _is_word(text: str, start: int, end: int, category: str) -> bool:
    """Whether ``text[start:end]`` is a separate word; a name may have adjacent digits."""
    # CJK and other scripts above U+2E80 do not separate words by spaces.
    if text[start] >= "\u2e80":
        return True
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    if category == "name":
        return not before.isalpha() and not after.isalpha()
    if category == "date":
        return not before.isdigit() and (not after.isdigit() or end - start == 8)
    return not before.isalnum() and not after.isalnum()


def _counts(
    parsed: Parsed,
    place: int,
    number: int,
    found: PatientSearch,
    pseudonym: bytes,
    allowed_dates: frozenset[str],
) -> bool:
    tag, vr, start, end, _ = parsed.elements[place]
    category = found.categories[number]
    value = parsed.buffer[start:end]
    # An exact match of the whole value; a pseudonym inside other text is still examined.
    if value.rstrip(b" \0") == pseudonym or _DUMMY.fullmatch(value):
        return False
    if category == "date":
        return (vr in _DATED or vr not in _NUMERIC) and found.canonical[number] not in allowed_dates
    if vr in _NUMERIC and not value.strip(_NUMERALS):
        return False
    if found.common[number]:
        return vr != b"CS" and tag not in _SPOKEN_BY_STANDARD
    return True
