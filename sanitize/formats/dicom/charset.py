"""Specific Character Set (0008,0005): conversion of text to str and back (PS3.5 6.1, PS3.3 C.12.1.1.2)."""

from __future__ import annotations

import re
from functools import lru_cache

DEFAULT = ""
_SINGLE = {
    "": "ascii",
    "ISO_IR 6": "ascii",
    "ISO_IR 100": "latin-1",
    "ISO_IR 101": "iso8859-2",
    "ISO_IR 109": "iso8859-3",
    "ISO_IR 110": "iso8859-4",
    "ISO_IR 144": "iso8859-5",
    "ISO_IR 127": "iso8859-6",
    "ISO_IR 126": "iso8859-7",
    "ISO_IR 138": "iso8859-8",
    "ISO_IR 148": "iso8859-9",
    "ISO_IR 203": "iso8859-15",
    "ISO_IR 166": "tis-620",
    "ISO_IR 13": "shift_jis",
    "ISO_IR 192": "utf-8",
    "GB18030": "gb18030",
    "GBK": "gbk",
}
_ISO_2022 = frozenset(
    ["ISO 2022 IR " + n for n in "6 13 58 87 100 101 109 110 126 127 138 144 148 149 159 166 203".split()]
)


# Spellings of other writers: ISO IR 100, ISO-IR 100, ISO_2022 IR 87, ISO 2022-87.
_SPELLED = re.compile(r"ISO[ _-]?(2022)?[ _-]?(?:IR)?[ _-]?(\d{1,3})", re.IGNORECASE)
_STAND_ALONE = frozenset(["utf-8", "gb18030", "gbk"])
"""Codecs without code extensions (PS3.3 C.12.1.1.2)."""
_ESCAPED = re.compile(rb"(?=\x1b)")
_ESCAPE = re.compile(rb"\x1b[\x20-\x2f]*[\x30-\x7e]")
_TWO_BYTES = (b"\x1b$B", b"\x1b$@", b"\x1b$A", b"\x1b$(C", b"\x1b$(D")
"""Escapes after which two bytes of ASCII are one character."""


@lru_cache(maxsize=256)
def charset_terms(charset: bytes) -> tuple[str, ...] | None:
    """Return the terms of a Specific Character Set value, spelled as in PS3.3; None if one is not defined."""
    terms = tuple(map(_term, charset.decode("latin-1").rstrip("\0 ").split("\\")))
    if all(term in _SINGLE or term in _ISO_2022 for term in terms):
        return terms
    return None


def _term(written: str) -> str:
    term = written.strip()
    match = _SPELLED.fullmatch(term)
    if match:
        return f"ISO 2022 IR {match[2]}" if match[1] else f"ISO_IR {match[2]}"
    return "ISO_IR 192" if term.upper() in ("UTF-8", "UTF8", "UTF_8") else term


@lru_cache(maxsize=256)
def _codec(charset: bytes) -> str | None:
    terms = charset_terms(charset)
    return _SINGLE.get(terms[0]) if terms and len(terms) == 1 else None


def decode_text(value: bytes, charset: bytes) -> str:
    """Decode the text of an element.

    Undecodable bytes become U+FFFD, which is in no vocabulary, so the text rules remove such words.

    Parameters
    ----------
    value : bytes
        Value of the element.
    charset : bytes
        Value of Specific Character Set.
    """
    # The common case. An escape (ISO 2022) switches character sets within ASCII bytes.
    if value.isascii() and b"\x1b" not in value:
        return value.decode("ascii")
    codec, terms = _codec(charset), charset_terms(charset)
    if b"\x1b" in value:
        return _decode_escaped(value, codec, terms)
    if codec is not None:
        # Writers that declare no character set often write ISO_IR 100.
        return value.decode("latin-1" if codec == "ascii" else codec, "replace")
    # Latin-1 decodes any byte, so that text of an undefined character set is still searched.
    if terms is None:
        return value.decode("latin-1")
    return _decode_iso_2022(value, terms)


def _decode_escaped(value: bytes, codec: str | None, terms: tuple[str, ...] | None) -> str:
    """Decode a text with escapes, which say by themselves what follows, also where none is declared."""
    found = []
    for part in _ESCAPED.split(value):
        escape = _ESCAPE.match(part)
        if part.startswith(_TWO_BYTES):
            found.append(part.decode("iso2022_jp_2", "replace"))
        elif escape and codec in _STAND_ALONE:
            found.append(part[escape.end() :].decode(codec, "replace"))
        else:
            first = terms[0] if terms else "ISO_IR 100"
            found.append(_decode_iso_2022(part, (first, *sorted(_ISO_2022))))
    return "".join(found)


def _decode_iso_2022(value: bytes, terms: tuple[str, ...]) -> str:
    import warnings

    from pydicom.charset import convert_encodings, decode_bytes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Delimiters reset the character set to the default (PS3.5 6.1.2.5.3).
            return str(decode_bytes(value, convert_encodings(list(terms)), {ord(char) for char in "\\^="}))
        except (UnicodeError, LookupError):
            return value.decode("ascii", "replace")


def encode_text(text: str, charset: bytes) -> bytes:
    """Encode a cleaned text; characters that the character set does not contain are dropped.

    Without a declared character set ISO_IR 100 is used, as in ``decode_text``.
    """
    if text.isascii():
        return text.encode("ascii")
    codec = _codec(charset)
    if codec == "ascii" or charset_terms(charset) is None:
        codec = "latin-1"
    return text.encode(codec or "ascii", "ignore")
