"""Queries for objects that share bytes, pixels or tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from medsanitize.pipeline.state.database import State

# By pseudonym, not by row: which copy is kept must not depend on the order of the inputs.
_ORDER = "p_patient, p_study, p_series, p_instance, id"
Column = Literal["sha256", "pixels"]


@dataclass(frozen=True, slots=True)
class PixelDigest:
    """Digest of an object's pixels; ``check`` is 1 if they were compared, -1 if they cannot be."""

    id: int
    check: int
    digest: bytes | None


# -- equal bytes and pixels -----------------------------------------------------------------


def store_pixel_digests(state: State, digests: Sequence[PixelDigest]) -> None:
    """Store digests of pixels within the open batch."""
    state.write(
        "UPDATE objects SET pixels_check = ?, pixels = ? WHERE id = ?",
        [(one.check, one.digest, one.id) for one in digests],
    )


def count_not_compared(state: State) -> int:
    """Count the released objects whose pixels could not be compared."""
    return state.count("outcome = 'released' AND pixels_check < 1")


def index_digests(state: State) -> None:
    """Create the indexes used to find equal objects."""
    state.db.execute("CREATE INDEX IF NOT EXISTS objects_sha256 ON objects (sha256)")
    state.db.execute("CREATE INDEX IF NOT EXISTS objects_pixels ON objects (pixels)")
    state.db.execute("CREATE INDEX IF NOT EXISTS scans_id ON scans (id)")


def shared_digests(state: State, column: Column) -> list[bytes]:
    """List the digests that several released objects share, in order."""
    rows = state.db.execute(
        f"SELECT {column} FROM objects WHERE outcome = 'released' AND {column} NOT NULL"  # noqa: S608
        f" GROUP BY {column} HAVING count(*) > 1 ORDER BY {column}"
    )
    return [bytes(digest) for (digest,) in rows.fetchall()]


def released_with(state: State, column: Column, digest: bytes) -> list[int]:
    """List the released objects with a digest, in the order of their pseudonyms."""
    rows = state.db.execute(
        f"SELECT id FROM objects WHERE {column} = ? AND outcome = 'released' ORDER BY {_ORDER}",  # noqa: S608
        (digest,),
    )
    return [int(number) for (number,) in rows.fetchall()]


# -- tiles of slides ------------------------------------------------------------------------


def scan_digests(state: State) -> list[bytes]:
    """List the digests of tile sets that are part of an object, in order."""
    rows = state.db.execute("SELECT DISTINCT digest FROM scans ORDER BY digest")
    return [bytes(digest) for (digest,) in rows.fetchall()]


def released_with_part(state: State, digest: bytes) -> list[int]:
    """List the released objects that contain a tile set, in the order of their pseudonyms."""
    rows = state.db.execute(
        "SELECT id FROM objects WHERE outcome = 'released'"  # noqa: S608
        f" AND id IN (SELECT id FROM scans WHERE digest = ?) ORDER BY {_ORDER}",
        (digest,),
    )
    return [int(number) for (number,) in rows.fetchall()]


def any_scan(state: State) -> bool:
    """Report whether any object contains further tile sets."""
    return bool(state.db.execute("SELECT EXISTS (SELECT 1 FROM scans)").fetchone() == (1,))


def scans_of(state: State, number: int) -> Iterator[bytes]:
    """Yield the digests of the tile sets that an object contains, in order."""
    rows = state.db.execute("SELECT digest FROM scans WHERE id = ? ORDER BY digest", (number,))
    yield from (bytes(digest) for (digest,) in rows)


def tiles_of_slides(state: State) -> Iterator[bytes]:
    """Yield the digests of the tiles of released slides; only the registry may store them."""
    rows = state.db.execute(
        "SELECT pixels FROM objects WHERE kind = 'slide' AND outcome = 'released' AND pixels NOT NULL"
        " UNION SELECT digest FROM scans JOIN objects USING (id) WHERE outcome = 'released'"
    )
    yield from (bytes(digest) for (digest,) in rows)


# -- pairs for the report -------------------------------------------------------------------


def equal_pixels(state: State, limit: int) -> list[tuple[str, str]]:
    """List released objects with the first one that has the same pixels, by pseudonym; at most ``limit``."""
    return state.db.execute(
        "SELECT p_instance, first FROM objects JOIN ("
        "  SELECT pixels, min(p_instance) AS first FROM objects"
        "  WHERE outcome = 'released' AND pixels NOT NULL GROUP BY pixels HAVING count(*) > 1"
        " ) USING (pixels) WHERE outcome = 'released' AND p_instance <> first ORDER BY 2, 1 LIMIT ?",
        (limit,),
    ).fetchall()


def equal_tiles(state: State, limit: int) -> list[tuple[str, str]]:
    """List the same for one scan in two forms: DICOM and vendor file, or one channel by itself."""
    return state.db.execute(
        "WITH held AS ("
        " SELECT digest, p_instance FROM scans JOIN objects USING (id) WHERE outcome = 'released'"
        " UNION SELECT pixels, p_instance FROM objects"
        "  WHERE outcome = 'released' AND pixels IN (SELECT digest FROM scans))"
        " SELECT DISTINCT p_instance, first FROM held JOIN"
        " (SELECT digest, min(p_instance) AS first FROM held GROUP BY digest) USING (digest)"
        " WHERE p_instance <> first ORDER BY 2, 1 LIMIT ?",
        (limit,),
    ).fetchall()
