"""What the object function hands back: the sanitised object as pieces, and its record."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.sanitize.record import Record


@dataclass(frozen=True, slots=True)
class Span:
    """A run of source bytes to copy unchanged: how large pixel data is released without being held."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True, repr=False)
class Doubt:
    """Something a person should look at; for the holder's eyes alone, since it shows values.

    ``place`` and ``rule`` as in a finding; ``text`` what was read or cut there; ``before`` and ``after``
    PNG pictures of the place (empty for headers).
    """

    place: str
    rule: str
    text: str = ""
    before: bytes = b""
    after: bytes = b""

    def __repr__(self) -> str:
        return f"Doubt({self.place}, {self.rule})"


@dataclass(frozen=True, slots=True)
class Sanitized:
    """One object after sanitisation.

    ``pieces``, in order, are the released bytes; empty unless ``record.outcome`` is released.
    ``links`` are the (old, new) identifiers replaced at any depth: every UID and the PatientID.
    They are for the holder's ledger alone. ``doubts`` are for the holder's review alone. ``suffix`` is
    what the name of the released file ends in.
    """

    record: Record
    pieces: tuple[bytes | Span, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    doubts: tuple[Doubt, ...] = ()
    suffix: str = "dcm"
