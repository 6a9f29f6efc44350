"""What a reviewer looks at, a page at a time: series, objects, decisions."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.records import open_record
from medsanitize.pipeline.state.reset import REQUEUED
from medsanitize.sanitize.result import CheckResult

_IN_RELEASE = "(outcome = 'released' OR objects.rule = ?)"


@dataclass(frozen=True, slots=True)
class ListedSeries:
    """A series of the staged release, named by its first object, with pseudonyms."""

    first: int
    patient: str
    series: str
    objects: int


@dataclass(frozen=True, slots=True)
class ListedDecision:
    """A decision on a location, and the number and first of its objects."""

    location: str
    verdict: str
    objects: int
    first: int


@dataclass(frozen=True, slots=True)
class StagedImage:
    """An object of the staged release: its image as the header states it, and whether pixels were read."""

    rows: int
    columns: int
    frames: int
    reads_pixels: bool


def series_page(state: State, first: int, limit: int) -> list[ListedSeries]:
    """Return the series of the staged release, by pseudonym."""
    rows = state.db.execute(
        "SELECT min(id), p_patient, coalesce(p_series, ''), count(*) FROM objects"  # noqa: S608
        f" WHERE {_IN_RELEASE} AND p_instance NOT NULL GROUP BY p_patient, p_study, p_series"
        " ORDER BY p_patient, p_study, p_series LIMIT ? OFFSET ?",
        (REQUEUED, limit, first),
    )
    return [
        ListedSeries(int(number), str(patient), str(series), int(count))
        for number, patient, series, count in rows
    ]


def count_series(state: State) -> int:
    """Count the series of the staged release."""
    row = state.db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM objects"  # noqa: S608
        f" WHERE {_IN_RELEASE} AND p_instance NOT NULL GROUP BY p_patient, p_study, p_series)",
        (REQUEUED,),
    ).fetchone()
    return int(row[0])


def objects_of_series(state: State, number: int, first: int, limit: int) -> list[int]:
    """Return the objects of the series of one of them, by row."""
    rows = state.db.execute(
        "SELECT id FROM objects WHERE (p_patient, p_study, p_series) IS"  # noqa: S608
        f" (SELECT p_patient, p_study, p_series FROM objects WHERE id = ?) AND {_IN_RELEASE}"
        " AND p_instance NOT NULL ORDER BY id LIMIT ? OFFSET ?",
        (number, REQUEUED, limit, first),
    )
    return [int(one) for (one,) in rows]


def decisions_page(state: State, first: int, limit: int) -> list[ListedDecision]:
    """Return the decisions, by location."""
    rows = state.db.execute(
        "SELECT location, verdict, count(*), min(id) FROM decisions GROUP BY location, verdict,"
        " CASE location WHEN '' THEN id ELSE 0 END ORDER BY location, min(id) LIMIT ? OFFSET ?",
        (limit, first),
    )
    return [
        ListedDecision(str(place), str(verdict), int(count), int(number))
        for place, verdict, count, number in rows
    ]


def staged_image(state: State, number: int) -> StagedImage | None:
    """Return what is known of the image of an object that is to be released; None if it is not."""
    row = state.db.execute(
        "SELECT image_rows, image_columns, image_frames, p_patient, p_study, p_series, p_instance, payload"  # noqa: S608
        f" FROM objects WHERE id = ? AND {_IN_RELEASE} AND payload NOT NULL",
        (number, REQUEUED),
    ).fetchone()
    if row is None:
        return None
    rows, columns, frames, *names, payload = row
    record = open_record(state.seal, "released", names, payload)
    # The header of a picture states nothing to the inventory: the record has its size.
    return StagedImage(
        int(rows or record.rows or 0),
        int(columns or record.columns or 0),
        int(frames or record.frames or 1),
        record.pixels is CheckResult.PASSED,
    )
