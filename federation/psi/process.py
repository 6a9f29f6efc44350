"""Calls of OpenMined PSI in its own process (ECDH private set intersection over P-256).

The asking party blinds its items, the answering party blinds its own and those once more; only the asking
party can compare, and in cardinality mode it learns a number: the doubly blinded items come back in another
order. Semi-honest security under the decisional Diffie-Hellman assumption.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import UsageError
from medsanitize.federation.libraries.process import LibraryFailed, LibraryProcess, open_library

LIBRARY: Final = "private_set_intersection"
_STEPS: Final = Path(__file__).with_name("steps.py")
# Measured: 12 s for 100,000 items on a busy core. A hang ends here, a large honest set does not.
_SECONDS_PER_ITEM: Final = 0.004
_MOST_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, repr=False)
class Blinded:
    """Blinded items of the asking party, and the secret key that blinded them."""

    request: bytes
    key: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """Blinded items of the answering party, and the doubly blinded ones of the asking party."""

    setup: bytes
    response: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Psi:
    """An open process of the library."""

    process: LibraryProcess

    def blind(self, items: Sequence[str], *, reveal: bool) -> Blinded:
        """Blind items with a new key; ``reveal`` asks for the common items instead of their number."""
        _, (request, key) = self._call("request", {"reveal": reveal}, [_joined(items)], len(items), 2)
        return Blinded(request, key)

    def answer(self, items: Sequence[str], request: bytes, *, asked: int, reveal: bool) -> Answer:
        """Blind own items, and the ``asked`` blinded ones of the other party.

        Raises
        ------
        LibraryFailed
            The request is malformed, of another size or of another mode than was agreed.
        """
        facts = {"reveal": reveal, "asked": asked}
        _, (setup, response) = self._call("answer", facts, [_joined(items), request], len(items) + asked, 2)
        return Answer(setup, response)

    def compare(
        self, key: bytes, answer: Answer, *, asked: int, answered: int, reveal: bool
    ) -> tuple[int, tuple[int, ...]]:
        """Return the number of common items, and their places among the asking party's if revealed.

        Raises
        ------
        LibraryFailed
            The answer is malformed, of another size or of another mode than was agreed.
        """
        facts = {"reveal": reveal, "asked": asked, "answered": answered}
        told, _ = self._call("count", facts, [key, answer.setup, answer.response], asked + answered, 0)
        count, places = told.get("count"), told.get("places", [])
        if not isinstance(count, int) or not 0 <= count <= min(asked, answered):
            raise LibraryFailed
        return count, tuple(places)

    def _call(
        self, step: str, facts: dict[str, Any], parts: Sequence[bytes], items: int, returned: int
    ) -> tuple[dict[str, Any], list[bytes]]:
        seconds = _MOST_SECONDS + _SECONDS_PER_ITEM * items
        return self.process.call(step, facts, parts, seconds=seconds, returned=returned)


@contextmanager
def open_psi(library: Path) -> Iterator[Psi]:
    """Start the process of the library, and end it.

    Parameters
    ----------
    library : Path
        The folder that ``party install`` has filled.

    Raises
    ------
    UsageError
        The library is not installed there, or does not fit this Python.
    """
    missing = UsageError(
        "The library for private comparisons is not installed in the party's folder, or not for this Python",
        "Install it with Python 3.11 to 3.13: medsanitize party install FOLDER",
    )
    with open_library(library, LIBRARY, _STEPS, missing=missing) as process:
        yield Psi(process)


def _joined(items: Sequence[str]) -> bytes:
    return "\n".join(items).encode("ascii")
