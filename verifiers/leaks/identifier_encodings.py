"""Byte patterns of identifiers: possible encodings, and which of them are distinctive enough to search.

Patterns and searched bytes are normalized alike: ASCII letters in lower case, NUL and separators removed. One
pattern then matches ``Doe^John``, ``DOE, JOHN``, ``doe_john`` and ``DoeJohn``, in single-byte encodings as
well as in UTF-16 of either byte order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from typing import Final

from medsanitize.sanitize.context import KnownValue

SEPARATORS: Final = b" ^,_-='\"/\\;:()\t\r\n"
# NUL is removed so that UTF-16 of ASCII text equals the text itself.
DELETED: Final = b"\0" + SEPARATORS
LOWER: Final = bytes(range(256)).lower()

# Minimum lengths: shorter patterns match by chance somewhere in terabytes of pixels.
MIN_ID: Final = 6
MIN_NAME: Final = 5
MIN_SINGLE_NAME: Final = 8
MIN_DISTINCT: Final = 3
"""Values with fewer distinct letters or digits occur in uniform pixels."""
MIN_PHONE: Final = 7
MIN_PHRASE: Final = 8

_ENCODINGS: Final = ("utf-8", "latin-1", "utf-16-le", "utf-16-be")
_OTHER_ENCODINGS: Final = (
    *("iso8859_2", "iso8859_5", "iso8859_6", "iso8859_7", "iso8859_8", "iso8859_9", "tis_620"),
    *("gb18030", "euc_kr", "shift_jis", "euc_jp", "iso2022_jp"),
)
"""Character sets of PS3.3 C.12.1.1.2 other than Latin-1, for values that Latin-1 cannot encode."""

_WORDS: Final = re.compile(r"[^\W_]+")


def normalize(data: bytes) -> bytes:
    """Convert ASCII letters to lower case, and remove NUL and separators."""
    return data.translate(LOWER, DELETED)


def fold(text: str) -> str:
    """Return ``text`` in lower case without accents."""
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in spread if not unicodedata.combining(char))


def words(text: str) -> list[str]:
    """Return runs of letters and digits of ``text``, folded."""
    return _WORDS.findall(fold(text))


def is_date(text: str) -> bool:
    """Whether eight digits are a calendar date in DICOM format (YYYYMMDD)."""
    if len(text) != 8 or not text.isascii() or not text.isdigit() or not "1850" <= text[:4] <= "2150":
        return False
    try:
        date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return False
    return True


def spellings(known: KnownValue, vocabulary: frozenset[str]) -> frozenset[bytes]:
    """Return the normalized byte patterns of a value.

    Parameters
    ----------
    known : KnownValue
        The value and its category.
    vocabulary : frozenset of str
        Words that are not identifiers by themselves.

    Returns
    -------
    frozenset of bytes
        Empty if the value is too short or too common. Dates and UIDs have no patterns: dates are searched
        only in objects of their patient, UIDs are looked up as a whole.
    """
    texts = {"name": _names, "id": _ids, "phone": _phones}.get(known.category, _phrases)(
        known.value, vocabulary
    )
    return frozenset(pattern for text in texts for pattern in _encoded(text))


def _encoded(text: str) -> Iterator[bytes]:
    if text.isascii():
        yield normalize(text.encode("ascii"))
        return
    for form in {text, text.lower(), text.upper(), text.title(), fold(text)}:
        latin = form.isascii() or all(ord(char) < 256 for char in form)
        for encoding in _ENCODINGS if latin else (*_ENCODINGS, *_OTHER_ENCODINGS):
            try:
                # Joined by line feeds, which separate components in stateful encodings such as ISO 2022.
                raw = "\n".join(form.split("\n")).encode(encoding)
            except UnicodeEncodeError:
                continue
            if len(pattern := normalize(raw)) >= MIN_NAME:
                yield pattern


def _names(value: str, vocabulary: frozenset[str]) -> Iterator[str]:
    """Yield full names in either order, components joined by line feed or dot."""
    for group in value.split("="):
        tokens = words(group)
        # A name made of ordinary words would match DICOM terms in every object.
        if all(token in vocabulary for token in tokens) or "".join(tokens) in vocabulary:
            continue
        family, given, middle = ([part.strip() for part in group.split("^")] + ["", ""])[:3]
        parts = [part for part in (family, given, middle) if part]
        if len(parts) == 1:
            orders = _unmarked(parts[0])
        else:
            orders = {(family, given), (given, family), (given, middle, family)}
        for order in sorted(orders):
            there = [part for part in order if part]
            if _letters(there) >= _least(there) and len(set(fold("".join(there)))) >= MIN_DISTINCT:
                yield "\n".join(there)
                if len(there) > 1:
                    yield ".".join(there)


def _letters(parts: list[str]) -> int:
    return sum(char.isalpha() for part in parts for char in part)


def _least(parts: list[str]) -> int:
    """Return how many letters make a name distinctive; fewer in scripts of syllables or words."""
    if not "".join(parts).isascii():
        return 3
    return MIN_NAME if len(parts) > 1 else MIN_SINGLE_NAME


def _unmarked(name: str) -> set[tuple[str, ...]]:
    """Return orders of a name without component separators: unchanged, and first and last word swapped."""
    parts = [part for part in re.split(r"[ ,]+", name) if part] or [""]
    return {tuple(parts), (parts[-1], *parts[:-1]), (*parts[1:], parts[0])}


def _ids(value: str, vocabulary: frozenset[str]) -> Iterator[str]:
    plain = normalize(value.encode("utf-8", "replace")).decode("utf-8", "replace")
    # Dates and repeated digits are too common in other attributes.
    common = len(set(plain)) < 3 or is_date(plain) or plain in vocabulary
    if len(plain) >= MIN_ID and any(char.isdigit() for char in plain) and not common:
        yield value


def _phones(value: str, vocabulary: frozenset[str]) -> Iterator[str]:
    del vocabulary
    digits = re.sub(r"[^0-9]", "", value)
    if len(digits) >= MIN_PHONE and len(set(digits)) > 2:
        yield digits
        # The international prefix 00 may be written as +.
        if digits.startswith("00"):
            yield digits[2:]


def _phrases(value: str, vocabulary: frozenset[str]) -> Iterator[str]:
    tokens = words(value)
    if all(token in vocabulary or len(token) < 3 for token in tokens):
        return
    common = len(set("".join(tokens))) < (MIN_DISTINCT if value.isascii() else 2)
    if len(normalize(value.encode("utf-8", "replace"))) >= MIN_PHRASE and not common:
        yield value
