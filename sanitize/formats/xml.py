"""XML that vendors embed: read without entities, written from what is known alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, ParseError, XMLParser

from medsanitize.sanitize.quarantine import Quarantined

_MOST_BYTES = 64 << 20
_DECLARATION = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
NUMBER = re.compile(r"[+-]?\d{1,12}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?")
"""A plain number."""


def parse_xml(data: bytes) -> Element:
    """Parse a document.

    Raises
    ------
    Refused
        ``slide-xml``: malformed, larger than 64 MB, or with a document type (which entities need).
    """
    data = data.rstrip(b"\0 \r\n\t")
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    plain = data.decode("utf-16", "replace").encode() if wide else data
    if len(data) > _MOST_BYTES or _DECLARATION.search(plain):
        raise Quarantined("slide-xml", "description")
    # A declaration of UTF-16 in a text that is not: TIFF writers put ASCII into tag 270 all the same.
    parser = XMLParser(encoding="utf-8")  # noqa: S314  no document type, so no entities
    try:
        parser.feed(plain)
        return parser.close()
    except (ParseError, ValueError):
        raise Quarantined("slide-xml", "description") from None


def local_name(element: Element) -> str:
    """An element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def named_children(element: Element, name: str) -> list[Element]:
    """The children of a name, whatever the namespace."""
    return [child for child in element if local_name(child) == name]


def child_text(element: Element, *path: str) -> str:
    """The text at a path of names, or nothing."""
    for name in path:
        found = named_children(element, name)
        if not found:
            return ""
        element = found[0]
    return (element.text or "").strip()


def numeric_attributes(element: Element, names: tuple[str, ...]) -> dict[str, str]:
    """Those attributes of an element that are plain numbers, in the order of ``names``."""
    given = {name: (element.get(name) or "").strip() for name in names}
    return {name: value for name, value in given.items() if NUMBER.fullmatch(value)}


@dataclass(frozen=True, slots=True)
class AllowedElement:
    """What may stay of an element: attributes by the form of their value, the form of its text, children."""

    attributes: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    text: re.Pattern[str] | None = None
    children: Mapping[str, AllowedElement] = field(default_factory=dict)


def copy_allowed(element: Element, allowed: AllowedElement) -> str:
    """An element as text with what is allowed of it, at every depth, in the order of the source."""
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
    """An element as text; attribute values must need no escaping, which numbers and known words do not."""
    inside = "".join(f' {key}="{value}"' for key, value in (attributes or {}).items())
    return f"<{name}{inside}>{content}</{name}>" if content else f"<{name}{inside}/>"
