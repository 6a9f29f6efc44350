"""Suspected double patients: identities of different patients that may be one person.

The thresholds follow the reasons that make two records one person in record linkage (Fellegi and Sunter,
1969): agreement counts the more, the rarer it is by chance. Birth date, sex and name together are rare enough
to ask a person; none of them alone is. A suspicion never merges anything. Figures: docs/policy.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.demographics import (
    born_on_one_day,
    demographics_of,
    sharing_a_study,
    sharing_pixels,
    with_other_ids,
)
from medsanitize.pipeline.state.identities import Identities, Identity
from medsanitize.pipeline.state.merged_patients import patients_as_stated
from medsanitize.pipeline.state.patients import patient_of
from medsanitize.sanitize.context import Demographics
from medsanitize.sanitize.text.edit_distance import SHORTEST, edit_distance
from medsanitize.sanitize.text.folding import fold_letters
from medsanitize.sanitize.text.stop_words import NOT_NAMES, PARTICLES

# Family name, given name, middle name; prefix and suffix are titles (PS3.5 6.2.1.1).
_NAME_COMPONENTS: Final = 3
# Systems write these where a birth date is unknown: they say nothing.
_UNKNOWN_BIRTHS: Final = frozenset(["19000101", "00010101", "19700101", "18581117", "99991231"])
# More patients of one birth date than an archive has: a placeholder that is not in the list.
_MOST_OF_ONE_DAY: Final = 2000
REASONS: Final = {
    "name": "same birth date, no contradiction in sex, similar name",
    "other-ids": "one lists the other's ID among Other Patient IDs",
    "study": "both are stated in one study",
    "issuer-missing": "same ID, once without an issuer",
    "pixels": "an image of each has the same pixels, and of nobody else",
}
"""Reason of a suspicion -> its meaning."""


@dataclass(frozen=True, slots=True, repr=False)
class Suspicion:
    """Two identities that may be one person, and why; ``pair`` names them without stating them. PHI."""

    pair: str
    reason: str
    first: Identity
    second: Identity
    stated: tuple[Demographics, Demographics]

    def __repr__(self) -> str:
        return f"Suspicion({self.pair})"


def suspicions(state: State, identities: Identities) -> list[Suspicion]:
    """Find the pairs of patients that may be one person and were not decided on.

    Parameters
    ----------
    state : State
        After the inventory. Patients without a PatientID are not compared.
    identities : Identities
        What was decided.

    Returns
    -------
    list of Suspicion
        One per pair of identities, ordered by reason and pair.
    """
    known = {
        name: (patient.issuer, patient.identifier)
        for name in patients_as_stated(state)
        if (patient := patient_of(state, name)).identifier
    }
    found: dict[tuple[Identity, Identity], str] = {}
    for reason, one, other in _candidates(state, known):
        first, second = sorted((known[one], known[other]))
        if not identities.is_decided(first, second):
            found.setdefault((first, second), reason)
    names = {identity: name for name, identity in known.items()}
    return sorted(
        (
            Suspicion(
                _pair(state, first, second),
                reason,
                first,
                second,
                (_stated(state, names[first]), _stated(state, names[second])),
            )
            for (first, second), reason in found.items()
        ),
        key=lambda one: (list(REASONS).index(one.reason), one.pair),
    )


def _pair(state: State, first: Identity, second: Identity) -> str:
    # A letter in front: spreadsheets read some hexadecimal texts as numbers.
    return "p" + state.seal.name("pair", *first, *second)[:8].hex()


def _stated(state: State, patient: bytes) -> Demographics:
    return next(iter(demographics_of(state, patient)), Demographics())


def _candidates(state: State, known: dict[bytes, Identity]) -> Iterator[tuple[str, bytes, bytes]]:
    for people in born_on_one_day(state):
        people = [(patient, stated) for patient, stated in people if patient in known]
        if people and people[0][1].birth_date not in _UNKNOWN_BIRTHS and len(people) <= _MOST_OF_ONE_DAY:
            yield from (("name", one, other) for one, other in _similar(people))
    by_id: dict[str, list[bytes]] = {}
    for name, (_, identifier) in known.items():
        by_id.setdefault(identifier, []).append(name)
    for patient, stated in with_other_ids(state):
        for other in (name for identifier in stated.other_ids for name in by_id.get(identifier, ())):
            if patient in known and other != patient and _may_be_one(state, patient, other):
                yield "other-ids", patient, other
    for one, other in sharing_a_study(state):
        if one in known and other in known:
            yield "study", bytes(one), bytes(other)
    for names in by_id.values():
        bare = [name for name in names if not known[name][0]]
        for one, other in ((one, other) for one in bare for other in names if other != one):
            if _may_be_one(state, one, other):
                yield "issuer-missing", one, other
    # Pixels are compared late in a run: before, there are none.
    for one, other in sharing_pixels(state):
        if one in known and other in known and _may_be_one(state, bytes(one), bytes(other)):
            yield "pixels", bytes(one), bytes(other)


def _may_be_one(state: State, one: bytes, other: bytes) -> bool:
    """Whether birth dates do not contradict each other."""
    births = [
        {stated.birth_date for stated in demographics_of(state, name)} - {"", *_UNKNOWN_BIRTHS}
        for name in (one, other)
    ]
    return not births[0] or not births[1] or bool(births[0] & births[1])


def _similar(people: Iterable[tuple[bytes, Demographics]]) -> Iterator[tuple[bytes, bytes]]:
    for (one, first), (other, second) in combinations(people, 2):
        sexes = {first.sex, second.sex} & {"M", "F"}
        if one != other and len(sexes) < 2 and similar_names(first.name, second.name):
            yield one, other


@lru_cache(maxsize=8192)
def _words(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of each component group of a PN value that has some."""
    groups = []
    for group in name.split("="):
        parts = re.split(r"[\s^,-]+", "^".join(group.split("^")[:_NAME_COMPONENTS]))
        words = tuple(filter(None, map(fold_letters, parts)))
        groups.append(tuple(word for word in words if word not in PARTICLES | NOT_NAMES and word.isalpha()))
    return tuple(group for group in groups if group)


def similar_names(one: str, other: str) -> bool:
    """Return whether two PN values may be spellings of one name.

    Every word of the shorter name must have a word of the longer one: the same, one with a typo (from five
    letters), or one that begins with it where it is an initial. At least one is a whole word; with one word
    alone, the names must be equal. Order, case, accents, particles and titles do not count.
    """
    return any(_match(first, second) for first in _words(one) for second in _words(other))


def _match(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    short, rest = sorted((one, other), key=len)
    if len(short) < 2 or len(rest) < 2:
        return short == rest
    left, whole = list(rest), 0
    # Long words first, so that an initial does not take the partner of a whole word.
    for word in sorted(short, key=len, reverse=True):
        longest_first = sorted(left, key=len, reverse=True)
        partner = next((there for there in longest_first if _is_word(word, there)), None)
        if partner is None:
            return False
        left.remove(partner)
        whole += len(word) > 1 < len(partner)
    return whole > 0


def _is_word(word: str, other: str) -> bool:
    if word == other:
        return True
    if len(word) == 1 or len(other) == 1:
        return word[0] == other[0]
    return (
        min(len(word), len(other)) >= SHORTEST - 1
        and max(len(word), len(other)) >= SHORTEST
        and (edit_distance(word, other, 1) <= 1)
    )
