"""What the audit found, with its surroundings: for the data controller, who must judge whether it is chance.

Excerpts contain PHI. They are encrypted in the worker that made them, and shown on the review page only.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from medsanitize.sanitize.context import KnownValue
from medsanitize.verifiers.leaks.dicom_conformance import Expected, check_elements
from medsanitize.verifiers.leaks.dicom_reader import Parsed
from medsanitize.verifiers.leaks.identifier_search import IdentifierHit, IdentifierSearch
from medsanitize.verifiers.leaks.patient_search import build_patient_search, search_texts
from medsanitize.verifiers.leaks.raster_files import picture_hits
from medsanitize.verifiers.leaks.scan_object import located_hits

MOST: Final = 32
"""Maximum number of excerpts of one object; with more, it cannot be judged hit by hit."""
_AROUND: Final = 48
# Most bytes of a text that the page can show; of an object with a longer one nothing can be judged.
_LONGEST: Final = 20_000


@dataclass(frozen=True, slots=True, repr=False)
class Excerpt:
    """A hit of the audit: location and rule of its finding, its place, the value and what surrounds it.

    ``exact`` is the digest of all its bytes: what is shown leaves out some, and others are shown alike.
    """

    location: str
    rule: str
    place: str
    value: str
    surroundings: str
    exact: str

    def __repr__(self) -> str:
        return f"Excerpt({self.location}, {self.rule})"


def excerpts_of_object(
    parsed: Parsed, own: Collection[KnownValue], search: IdentifierSearch, expected: Expected
) -> tuple[Excerpt, ...]:
    """Return the excerpts of a DICOM object; empty if a person could not judge all of them.

    Parameters
    ----------
    parsed : Parsed
        The object.
    own : collection of KnownValue
        Known values of its patient and study.
    search : IdentifierSearch
        The run-wide search.
    expected : Expected
        What the object is checked against.
    """
    found = dict.fromkeys(
        _of_hit(location, buffer, hit) for location, buffer, hit in located_hits(parsed, search, expected)
    )
    found.update(dict.fromkeys(_in_texts(parsed, own, search, expected)))
    return judgeable(list(found))


def excerpts_of_picture(data: bytes, suffix: str, search: IdentifierSearch) -> tuple[Excerpt, ...]:
    """Return the excerpts of a PNG, JPEG or TIFF file; empty if a person could not judge all of them."""
    return judgeable([_of_hit("pixels", data, hit) for hit in picture_hits(data, suffix, search)])


def judgeable(found: Sequence[Excerpt]) -> tuple[Excerpt, ...]:
    """Return the excerpts of one object; none if there are too many, or one is too long to be shown whole."""
    whole = all(len(one.surroundings) <= _LONGEST for one in found)
    return tuple(found) if whole and len(found) <= MOST else ()


def excerpt_of(location: str, rule: str, place: str, value: bytes, surroundings: bytes) -> Excerpt:
    """Return an excerpt of a value and what surrounds it."""
    exact = sha256(surroundings).hexdigest()
    return Excerpt(location, rule, place, _shown(value), _shown(surroundings), exact)


def _of_hit(location: str, buffer: bytes | mmap.mmap, hit: IdentifierHit) -> Excerpt:
    around = bytes(buffer[max(hit.start - _AROUND, 0) : hit.end + _AROUND])
    place = f"bytes {hit.start:,} to {hit.end:,}"
    return excerpt_of(location, f"audit:{hit.rule}", place, buffer[hit.start : hit.end], around)


def _in_texts(
    parsed: Parsed, own: Collection[KnownValue], search: IdentifierSearch, expected: Expected
) -> Iterator[Excerpt]:
    """Yield the texts in which the patient search found something; they show the value themselves."""
    if not own:
        return
    texts = check_elements(parsed, expected)[1]
    known = build_patient_search(own, search.vocabulary, search.matchers)
    pseudonym = (expected.pseudonym or "").encode("utf-8")
    for index, category in search_texts(parsed, texts, known, pseudonym, expected.allowed_dates):
        _, _, start, end, _ = parsed.elements[index]
        whole = bytes(parsed.buffer[start:end])
        yield excerpt_of(parsed.path(index), f"audit:{category}", "the value of the attribute", whole, whole)


def _shown(data: bytes) -> str:
    """Return bytes as text: printable ASCII and UTF-8 letters as they are, anything else as a dot."""
    text = bytes(data).replace(b"\0", b"").decode("utf-8", "replace")
    return "".join(char if char.isprintable() and char != "\ufffd" else "\u00b7" for char in text)
