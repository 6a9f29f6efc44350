"""What the object function hands back: the sanitised object as pieces, and its record."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.sanitize.record import Record


@dataclass(frozen=True, slots=True)
class Span:
    """A run of source bytes to copy unchanged: how large pixel data is released without being held."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Sanitized:
    """One object after sanitisation.

    ``pieces``, in order, are the released bytes; empty unless ``record.outcome`` is released.
    ``links`` are the (old, new) identifiers replaced at any depth: every UID and the PatientID.
    They are for the holder's ledger alone.
    """

    record: Record
    pieces: tuple[bytes | Span, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
