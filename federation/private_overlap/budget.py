"""The budget of comparisons with each partner, kept in a file across restarts.

Every comparison tells a little; many tell much: a set and the same set with one image more differ by that
image. Both parties therefore count, in both directions, and write before anything is revealed.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from medsanitize.errors import IntegrityError
from medsanitize.federation.private_overlap.terms import What
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.canonical_json import canonical_json

QUERIES: Final = "queries.jsonl"
_DAY: Final = 86_400
Role = Literal["asked", "answered"]


@dataclass(frozen=True, slots=True)
class Query:
    """One comparison that was paid for.

    Attributes
    ----------
    partner
        Fingerprint of the partner.
    session
        Its session; a session is paid for once, and is one comparison.
    role
        Whether this party asked or answered.
    own, other
        Numbers of items by what was compared.
    answers
        Number of single images that are answered; 0 for a comparison of sets, which has a budget of its own.
    """

    partner: str
    session: str
    role: Role
    own: Mapping[What, int] | Mapping[str, int]
    other: Mapping[What, int] | Mapping[str, int]
    answers: int = 0


def pay(
    folder: Path, query: Query, *, runs: int, days: int, now: float | None = None, once: bool = False
) -> bool:
    """Record a comparison, unless the budget of the period is used up; wait until it is durable.

    Parameters
    ----------
    folder : Path
        Folder of the party.
    query : Query
        The comparison; the same session again costs nothing.
    runs, days : int
        Comparisons with the partner per period; of questions about single images, answers per period.
    now : float, optional
        Seconds since 1970; by default the clock.
    once : bool
        Refuse a session that was paid for: it cannot be resumed.

    Returns
    -------
    bool
        Whether the comparison may go on.

    Raises
    ------
    IntegrityError
        The file is damaged; nothing is compared until a person has looked at it.
    EnvironmentFailure
        The disk is full or fails.
    """
    moment = time.time() if now is None else now
    with _locked(folder) as file:
        paid = list(_rows(file))
        # Partners know the names of sessions: another comparison under one of them would be free, and its
        # transcript would replace the first one's.
        if known := [one for one in paid if one.session == query.session]:
            return not once and all(one.is_of(query) for one in known)
        # A clock that was set back must not make room: entries of the future count as well.
        used = _used(paid, query.partner, moment - days * _DAY, of_images=query.answers > 0)
        if used + (query.answers or 1) > runs:
            return False
        row = {
            "time": round(moment),
            "partner": query.partner,
            "session": query.session,
            "role": query.role,
            "own": dict(query.own),
            "other": dict(query.other),
            **({"answers": query.answers} if query.answers else {}),
        }
        os.write(file, canonical_json(row).encode("ascii") + b"\n")
        os.fsync(file)
        return True


def spent(folder: Path, partner: str, *, days: int, now: float | None = None, of_images: bool = False) -> int:
    """Return the number of comparisons with a partner in the period, or of answers about single images."""
    moment = time.time() if now is None else now
    if not (folder / QUERIES).is_file():
        return 0
    with _locked(folder) as file:
        rows = list(_rows(file))
    return _used(rows, partner, moment - days * _DAY, of_images=of_images)


def is_paid(folder: Path, session: str) -> bool:
    """Whether a session was ever paid for; its name is not used again."""
    if not (folder / QUERIES).is_file():
        return False
    with _locked(folder) as file:
        return any(one.session == session for one in _rows(file))


def _used(paid: Sequence[_Paid], partner: str, since: float, *, of_images: bool) -> int:
    """Count what was paid for since a time: comparisons, or answers about single images."""
    rows = [one for one in paid if one.partner == partner and one.time > since]
    answers = sum(one.answers for one in rows)
    return answers if of_images else sum(not one.answers for one in rows)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    with storage_errors():
        file = os.open(folder / QUERIES, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        with storage_errors():
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class _Paid:
    """What counts of a recorded comparison."""

    partner: str
    session: str
    time: float
    role: str
    compared: frozenset[str]
    answers: int

    def is_of(self, query: Query) -> bool:
        """Whether it paid for this comparison."""
        asked = query.partner, query.session, query.role, frozenset[str](query.own)
        return (self.partner, self.session, self.role, self.compared) == asked


def _rows(file: int) -> Iterator[_Paid]:
    for line in os.pread(file, os.fstat(file).st_size, 0).splitlines():
        try:
            row = json.loads(line)
            yield _Paid(
                str(row["partner"]),
                str(row["session"]),
                float(row["time"]),
                str(row["role"]),
                frozenset(map(str, row["own"])),
                int(row.get("answers", 0)),
            )
        except (ValueError, KeyError, TypeError):
            raise IntegrityError(
                f"The record of comparisons with partners ({QUERIES}) is damaged",
                "Restore it from a backup: without it, nobody knows how much the partners have learned",
            ) from None
