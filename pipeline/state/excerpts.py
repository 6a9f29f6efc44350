"""Excerpts of findings, encrypted for the review, and those that a person judged to be chance."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.keys import open_paths
from medsanitize.release.layout import staged_path

_PURPOSE = b"excerpt"
_REASON = b"reason of chance"
IN_PIXELS = "identifier-in-pixels"
"""Rule of an object that is quarantined because its pixel data contain a known value."""
_SHOWN = f"(outcome = 'released' OR objects.rule = '{IN_PIXELS}')"


@dataclass(frozen=True, slots=True)
class SealedExcerpt:
    """An encrypted excerpt with the location and rule of its finding; ``name`` is a keyed digest of all."""

    location: str
    rule: str
    name: bytes
    value: bytes


@dataclass(frozen=True, slots=True, repr=False)
class OpenExcerpt:
    """An excerpt for the review page, with the path of the first object that has it."""

    name: bytes
    location: str
    rule: str
    place: str
    value: str
    surroundings: str
    path: bytes
    objects: int

    def __repr__(self) -> str:
        return f"OpenExcerpt({self.location}, {self.rule})"


def seal_excerpt(
    seal: Seal, location: str, rule: str, place: str, value: str, surroundings: str, *, exact: str = ""
) -> SealedExcerpt:
    """Encrypt an excerpt. Its name covers all its bytes: a judgment holds for no other ones shown alike."""
    facts = json.dumps([place, value, surroundings])
    name = seal.name("excerpt", location, rule, facts, exact)
    return SealedExcerpt(location, rule, name, seal.close(facts.encode(), _PURPOSE))


def store_excerpts(state: State, found: Iterable[tuple[int, SealedExcerpt]]) -> None:
    """Store excerpts of objects within the open batch."""
    rows = [(number, one.location, one.rule, one.name, one.value) for number, one in found]
    state.write("INSERT OR REPLACE INTO excerpts VALUES (?, ?, ?, ?, ?)", rows)


def undecided_excerpts(state: State) -> list[OpenExcerpt]:
    """Decrypt the excerpts on which no person has decided, each once."""
    rows = state.db.execute(
        "SELECT name, location, excerpts.rule, value, min(id), count(*) FROM excerpts"  # noqa: S608
        f" JOIN objects USING (id) WHERE {_SHOWN} AND name NOT IN (SELECT name FROM chance)"
        " GROUP BY name ORDER BY count(*) DESC, location, excerpts.rule, name"
    ).fetchall()
    found = []
    for name, location, rule, value, number, count in rows:
        place, text, around = json.loads(state.seal.open(value, _PURPOSE))
        (source,) = state.db.execute("SELECT source FROM objects WHERE id = ?", (number,)).fetchone()
        path = open_paths(state.seal, source)[0]
        found.append(OpenExcerpt(bytes(name), location, rule, place, text, around, path, int(count)))
    return found


def targets_of_excerpt(state: State, name: bytes) -> list[tuple[int, str]]:
    """Return the objects with an excerpt; the location is empty, for the whole object."""
    return state.db.execute(
        f"SELECT DISTINCT id, '' FROM excerpts JOIN objects USING (id) WHERE name = ? AND {_SHOWN}",  # noqa: S608
        (name,),
    ).fetchall()


def store_chance(state: State, name: bytes, reason: str) -> None:
    """Store the judgment that an excerpt is chance, within the open transaction."""
    sealed = state.seal.close(reason.encode(), _REASON)
    state.db.execute("INSERT OR REPLACE INTO chance VALUES (?, ?)", (name, sealed))


def judged_chance(state: State) -> dict[bytes, str]:
    """Return the excerpts that a person judged to be chance, and the reasons."""
    rows = state.db.execute("SELECT name, reason FROM chance ORDER BY name")
    return {bytes(name): state.seal.open(reason, _REASON).decode() for name, reason in rows}


def count_in_pixels(state: State) -> int:
    """Count the objects that are quarantined because their pixel data contain a known value."""
    return state.count(f"outcome = 'quarantined' AND rule = '{IN_PIXELS}'")


def chance_findings(state: State) -> frozenset[tuple[str, str, str]]:
    """Return path, location and rule of findings in released objects that a person judged to be chance."""
    rows = state.db.execute(
        "SELECT p_patient, p_study, p_series, p_instance, p_suffix, location, chance_findings.rule"
        " FROM chance_findings JOIN objects USING (id) WHERE outcome = 'released'"
    )
    return frozenset((staged_path(*row[:5]), row[5], row[6]) for row in rows)


def count_chance_findings(state: State) -> int:
    """Count the findings in objects to be released that a person judged to be chance."""
    row = state.db.execute(
        "SELECT count(*) FROM chance_findings JOIN objects USING (id) WHERE outcome = 'released'"
    ).fetchone()
    return int(row[0])
