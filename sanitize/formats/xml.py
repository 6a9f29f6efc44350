"""XML in slides, parsed without entities and written from known elements only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, ParseError, XMLParser

from medsanitize.sanitize.quarantine import Quarantined

_MOST_BYTES = 64 << 20
_DECLARATION = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
# Without a byte order mark, XML in UTF-16 is recognized by its first character.
_UTF_16 = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
NUMBER = re.compile(r"[+-]?\d{1,12}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?")
"""A decimal number."""


def parse_xml(data: bytes) -> Element:
    """Parse an XML document.

    Raises
    ------
    Quarantined
        ``slide-xml`` if it is malformed, larger than 64 MiB, or has a document type declaration.
    """
    # Searched as UTF-8: UTF-16 would hide a declaration from the pattern. TIFF text ends with a NUL, which
    # XML does not allow, and which is half a character of UTF-16 before decoding.
    plain = decode_utf16(data).rstrip(b"\0 \r\n\t")
    # Without a document type there are no entities: no expansion bombs and no external files.
    if len(data) > _MOST_BYTES or _DECLARATION.search(plain):
        raise Quarantined("slide-xml", "description")
    # The declared encoding is overridden: TIFF writers store ASCII in tag 270 but declare UTF-16.
    parser = XMLParser(encoding="utf-8")  # noqa: S314  no document type, so no entities
    try:
        parser.feed(plain)
        return parser.close()
    except (ParseError, ValueError):
        raise Quarantined("slide-xml", "description") from None


def decode_utf16(data: bytes) -> bytes:
    """Return a text in UTF-16, with or without a byte order mark, as UTF-8; others are returned unchanged."""
    encoding = _UTF_16.get(data[:2])
    return data.decode(encoding, "replace").encode() if encoding else data


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def named_children(element: Element, name: str) -> list[Element]:
    """Return the children called ``name`` in any namespace."""
    return [child for child in element if local_name(child) == name]


def child_text(element: Element, *path: str) -> str:
    """Return the text of the element at a path of names; empty if there is none."""
    for name in path:
        found = named_children(element, name)
        if not found:
            return ""
        element = found[0]
    return (element.text or "").strip()


def numeric_attributes(element: Element, names: tuple[str, ...]) -> dict[str, str]:
    """Return the attributes that are decimal numbers, in the order of ``names``."""
    given = {name: (element.get(name) or "").strip() for name in names}
    return {name: value for name, value in given.items() if NUMBER.fullmatch(value)}


@dataclass(frozen=True, slots=True)
class AllowedElement:
    """What is kept of an element: attributes and text by pattern, and children by name."""

    attributes: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    text: re.Pattern[str] | None = None
    children: Mapping[str, AllowedElement] = field(default_factory=dict)


def copy_allowed(element: Element, allowed: AllowedElement) -> str:
    """Write an element with its allowed attributes, text and children, in the order of the source."""
    attributes = {
        name: value
        for name, form in allowed.attributes.items()
        if (value := (element.get(name) or "").strip()) and form.fullmatch(value)
    }
    given = (element.text or "").strip()
    content = given if allowed.text and allowed.text.fullmatch(given) else ""
    for child in element:
        inner = allowed.children.get(local_name(child))
        if inner is not None:
            content += copy_allowed(child, inner)
    return write_element(local_name(element), attributes, content)


def write_element(name: str, attributes: Mapping[str, object] | None = None, content: str = "") -> str:
    """Write an element.

    Values and content are not escaped: they must be numbers, known words or elements written here.
    """
    inside = "".join(f' {key}="{value}"' for key, value in (attributes or {}).items())
    return f"<{name}{inside}>{content}</{name}>" if content else f"<{name}{inside}/>"
