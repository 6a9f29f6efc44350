"""Judgments of persons on sampled objects, and who decided what; both stay with the data controller."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from medsanitize.pipeline.state.database import State

_LOG = b"decision log"


@dataclass(frozen=True, slots=True, repr=False)
class LoggedDecision:
    """An entry of the log: who decided what, for how many objects.

    Attributes
    ----------
    reviewer : str
        Name under which the person decides.
    item : str
        Name of the item, as in a file of decisions; ``release`` for an approval.
    verdict : str
        The decision; ``approve`` for an approval.
    scope : str
        Empty, or what the decision holds for beyond its item.
    objects : int
        Number of objects that it holds for.
    digest : str
        Digest of the staged release that the person saw.
    """

    reviewer: str
    item: str
    verdict: str
    scope: str
    objects: int
    digest: str

    def __repr__(self) -> str:
        return f"LoggedDecision({self.verdict})"


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """A sample: objects drawn, those that enough persons judged, and those that one of them found wrong."""

    drawn: int
    judged: int
    errors: int


def log_decisions(state: State, entries: Sequence[LoggedDecision]) -> None:
    """Append to the log, within the open transaction."""
    state.db.executemany(
        "INSERT INTO decision_log (value) VALUES (?)",
        [(state.seal.close(json.dumps(asdict(one)).encode(), _LOG),) for one in entries],
    )


def logged_decisions(state: State) -> Iterator[LoggedDecision]:
    """Yield the log, in the order of the decisions."""
    for (value,) in state.db.execute("SELECT value FROM decision_log ORDER BY number"):
        yield LoggedDecision(**json.loads(state.seal.open(value, _LOG)))


def store_judgment(state: State, number: int, reviewer: str, *, correct: bool) -> None:
    """Store what a person says of the released bytes of an object, within the open transaction."""
    state.db.execute(
        "INSERT OR REPLACE INTO judgments SELECT id, coalesce(sha256, x''), ?, ? FROM objects WHERE id = ?",
        (_name(state, reviewer), "correct" if correct else "error", number),
    )


def remove_judgment(state: State, number: int, reviewer: str) -> None:
    """Remove what a person said of an object, within the open transaction."""
    state.db.execute("DELETE FROM judgments WHERE id = ? AND reviewer = ?", (number, _name(state, reviewer)))


def has_judged(state: State, number: int, reviewer: str) -> bool:
    """Report whether a person has judged these bytes of an object, or whether it is not to be released."""
    row = state.db.execute(
        "SELECT outcome <> 'released' OR EXISTS (SELECT 1 FROM judgments WHERE judgments.id = objects.id"
        "  AND judgments.sha256 = objects.sha256 AND reviewer = ?) FROM objects WHERE id = ?",
        (_name(state, reviewer), number),
    ).fetchone()
    return bool(row[0])


def sample_population(state: State) -> Iterator[int]:
    """Yield the objects from which a sample is drawn: those to be released, and errors that were found."""
    rows = state.db.execute(
        "SELECT id FROM objects WHERE outcome = 'released'"
        " OR id IN (SELECT id FROM judgments WHERE verdict = 'error') ORDER BY id"
    )
    yield from (int(number) for (number,) in rows)


def count_judged(state: State, numbers: Sequence[int], reviewers: int) -> SampleCounts:
    """Count the objects of a sample that enough persons judged, and the errors among them."""
    judged = errors = 0
    for number in numbers:
        wrong, right = state.db.execute(
            "SELECT EXISTS (SELECT 1 FROM judgments WHERE id = ? AND verdict = 'error'),"
            " (SELECT count(*) FROM judgments JOIN objects USING (id, sha256)"
            "  WHERE id = ? AND verdict = 'correct')",
            (number, number),
        ).fetchone()
        errors += int(wrong)
        judged += int(wrong or right >= reviewers)
    return SampleCounts(len(numbers), judged, errors)


def _name(state: State, reviewer: str) -> bytes:
    return state.seal.name("reviewer", reviewer)
