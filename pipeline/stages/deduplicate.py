"""Duplicates: contested UIDs, equal bytes, equal pixels, and what earlier releases hold.

Every verdict is one transaction over the whole set and depends on pseudonyms and digests alone, so it
is the same whoever finished first and however often the run was killed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from medsanitize.errors import EnvironmentFailure, IntegrityError
from medsanitize.pipeline.engines.base import Died, Engine, batches
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.state.database import PAGE, State
from medsanitize.pipeline.state.queries import released_rows
from medsanitize.pipeline.state.records import remove_unreleased
from medsanitize.pipeline.state.staged_objects import Staged, staged_objects
from medsanitize.policies.model import Policy
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.layout import all_paths, contested_path
from medsanitize.release.registry import Registry, RegistryHit

BATCH = 64
_REGISTRY_PAGE = 20_000
TO_DECODE = "outcome = 'released' AND pixels_check = 0 AND native = 0 AND kind <> 'slide'"
_ORDER = "p_patient, p_study, p_series, p_instance, id"


def settle_contests(state: State, policy: Policy, staging: Path | None) -> None:
    """Decide between sources that state one SOP Instance UID, and give the survivors their names."""
    if state.plain("contests") is None:
        with state.transaction() as db:
            db.execute(
                "CREATE INDEX IF NOT EXISTS objects_order"
                " ON objects (p_patient, p_study, p_series, p_instance)"
            )
            for sop in _contested(state):
                _settle_one(state, policy, sop)
            # Different UIDs never share a pseudonym; should they, neither object is released.
            db.execute(
                "UPDATE objects SET outcome = 'quarantined', rule = 'sop-instance-conflict'"
                " WHERE outcome = 'released' AND p_instance IN (SELECT p_instance FROM objects"
                "  WHERE outcome = 'released' GROUP BY p_instance HAVING count(*) > 1)"
            )
            state.put_plain("contests", b"1")
    if staging is not None:
        _name_survivors(state, staging)
        remove_unreleased(state, staging)


def _contested(state: State) -> Iterator[bytes]:
    after = b""
    while True:
        row = state.db.execute(
            "SELECT min(sop) FROM objects WHERE contested = 1 AND sop > ?", (after,)
        ).fetchone()
        if row[0] is None:
            return
        after = bytes(row[0])
        yield after


def _settle_one(state: State, policy: Policy, sop: bytes) -> None:
    rows = state.db.execute(
        f"SELECT id, outcome, sha256 FROM objects WHERE sop = ? ORDER BY {_ORDER}",  # noqa: S608
        (sop,),
    ).fetchall()
    released = [row for row in rows if row[1] == "released"]
    alike = len(released) == len(rows) and len({row[2] for row in rows}) == 1
    if not alike:
        _rule_out(state, released, "quarantined", "sop-instance-conflict")
    elif policy.deduplicate.bytes == "quarantine":
        _rule_out(state, released, "quarantined", "duplicate-bytes")
    else:
        # One UID has room for one file, whatever the policy says of other duplicates.
        _rule_out(state, released[1:], "dropped", "duplicate-bytes")
        if policy.deduplicate.bytes == "fail":
            state.put_plain("refused-bytes", b"1")


def _rule_out(state: State, rows: Sequence[Sequence[object]], outcome: str, rule: str) -> None:
    state.db.executemany(
        "UPDATE objects SET outcome = ?, rule = ? WHERE id = ?", [(outcome, rule, row[0]) for row in rows]
    )


def _name_survivors(state: State, staging: Path) -> None:
    while True:
        rows = state.db.execute(
            "SELECT id, p_parts, p_patient, p_study, p_series, p_instance, p_suffix FROM objects"
            " WHERE staged = 2 AND outcome = 'released' LIMIT ?",
            (PAGE,),
        ).fetchall()
        if not rows:
            break
        for number, parts, *names in rows:
            for path in all_paths(names, parts):
                _name(staging / contested_path(path, number), staging / path, names)
        state.write("UPDATE objects SET staged = 1 WHERE id = ?", [(row[0],) for row in rows])
    state.commit()


def _name(waiting: Path, target: Path, names: Sequence[str]) -> None:
    with storage_errors():
        if not waiting.exists():
            return
        if target.exists():
            raise IntegrityError(
                f"Two objects would have one name: patient {names[0]}, object {names[3]}",
                "Remove the staging folder and run again; if it happens twice, report it as a defect",
            )
        waiting.replace(target)


# -- digests of pixels --------------------------------------------------------------------


def digest_compressed(
    state: State, policy: Policy, engine: Engine, on_objects: Callable[[int], None] = lambda _: None
) -> None:
    """Decode compressed pixels for their digest, in processes apart; resumes where it left off.

    Nothing is decoded where the policy ignores equal pixels.
    """
    if policy.deduplicate.pixels == "ignore" and policy.deduplicate.registry == "ignore":
        return
    for result in engine.map(pixels_batch, batches(staged_objects(state, TO_DECODE), BATCH), isolate=True):
        # A decoder that dies says nothing of the pixels: the check is not made.
        rows = [(-1, None, result.item.id)] if isinstance(result, Died) else result
        state.write("UPDATE objects SET pixels_check = ?, pixels = ? WHERE id = ?", rows)
        state.wrote(len(rows))
        on_objects(len(rows))
    state.commit()


def pixels_batch(worker: Worker, batch: Sequence[Staged]) -> list[tuple[int, bytes | None, int]]:
    """Digest the pixels of staged files: (1 compared or -1 not decodable, digest or None, row)."""
    return [_pixels_of(worker, one) for one in batch]


def _pixels_of(worker: Worker, one: Staged) -> tuple[int, bytes | None, int]:
    from medsanitize.verifiers.leaks.pixel_digest import pixel_digest
    from medsanitize.verifiers.leaks.raster_files import raster_digest

    staging = worker.setup.staging
    if staging is None:
        return -1, None, one.id
    try:
        digest = (raster_digest if one.kind == "raster" else pixel_digest)(staging / one.paths[0])
    except OSError:
        raise EnvironmentFailure("A staged file cannot be read", "Run the same command again") from None
    except Exception:  # noqa: BLE001  what cannot be decoded cannot be compared, and the manifest says so
        digest = None
    return (1, bytes.fromhex(digest), one.id) if digest else (-1, None, one.id)


# -- verdicts -----------------------------------------------------------------------------


def judge_duplicates(state: State, policy: Policy, staging: Path | None) -> None:
    """Apply the policy's verdicts to equal bytes, equal pixels and what the registry holds."""
    if state.plain("duplicates") is None:
        with state.transaction() as db:
            db.execute("CREATE INDEX IF NOT EXISTS objects_sha256 ON objects (sha256)")
            db.execute("CREATE INDEX IF NOT EXISTS objects_pixels ON objects (pixels)")
            db.execute("CREATE INDEX IF NOT EXISTS scans_id ON scans (id)")
            for column, verdict in (
                ("sha256", policy.deduplicate.bytes),
                ("pixels", policy.deduplicate.pixels),
            ):
                name = "bytes" if column == "sha256" else column
                for (digest,) in db.execute(
                    f"SELECT {column} FROM objects WHERE outcome = 'released' AND {column} NOT NULL"  # noqa: S608
                    f" GROUP BY {column} HAVING count(*) > 1 ORDER BY {column}"
                ).fetchall():
                    _judge_group(state, column, digest, name, verdict)
            _judge_scans(state, policy.deduplicate.pixels)
            _judge_registry(state, policy)
            state.put_plain("duplicates", b"1")
    if staging is not None:
        remove_unreleased(state, staging)


def _judge_group(state: State, column: str, digest: bytes, name: str, verdict: str) -> None:
    rows = state.db.execute(
        f"SELECT id FROM objects WHERE {column} = ? AND outcome = 'released' ORDER BY {_ORDER}",  # noqa: S608
        (digest,),
    ).fetchall()
    if len(rows) < 2:
        return
    rule = f"duplicate-{name}"
    if verdict == "drop":
        _rule_out(state, rows[1:], "dropped", rule)
    elif verdict == "quarantine":
        _rule_out(state, rows, "quarantined", rule)
    elif verdict in ("flag", "fail"):
        _flag(state, rows, name)
        if verdict == "fail":
            state.put_plain(f"refused-{name}", b"1")


def _judge_scans(state: State, verdict: str) -> None:
    """Tiles that are all of one object and part of another, or part of both: the same scan in two forms.

    A verdict to drop takes the objects that are held whole by another (an SVS beside an AFI that lists it, or
    beside a DICOM slide); two that only share a part are flagged, since each holds more than that.
    """
    for (digest,) in state.db.execute("SELECT DISTINCT digest FROM scans ORDER BY digest").fetchall():
        whole, part = (
            state.db.execute(
                f"SELECT id FROM objects WHERE outcome = 'released' AND {held} ORDER BY {_ORDER}",  # noqa: S608
                (digest,),
            ).fetchall()
            for held in ("pixels = ?", "id IN (SELECT id FROM scans WHERE digest = ?)")
        )
        if not part or len(whole) + len(part) < 2:
            continue
        if verdict == "drop":
            _rule_out(state, whole, "dropped", "duplicate-pixels")
            _flag(state, part if len(part) > 1 else (), "pixels")
        elif verdict == "quarantine":
            _rule_out(state, [*whole, *part], "quarantined", "duplicate-pixels")
        elif verdict in ("flag", "fail"):
            _flag(state, [*whole, *part], "pixels")
            if verdict == "fail":
                state.put_plain("refused-pixels", b"1")


def _flag(state: State, rows: Sequence[Sequence[object]], name: str) -> None:
    state.db.executemany(
        "UPDATE objects SET flags = flags || ? WHERE id = ?", [(f"{name},", row[0]) for row in rows]
    )


def registry_of(policy: Policy) -> Registry:
    """The registry that the policy names, or the one in its state folder."""
    return Registry(policy.registry.path or policy.state / "registry")


def tiles_of_slides(state: State) -> Iterator[bytes]:
    """Digests of the tiles of released slides, for the registry alone."""
    rows = state.db.execute(
        "SELECT pixels FROM objects WHERE kind = 'slide' AND outcome = 'released' AND pixels NOT NULL"
        " UNION SELECT digest FROM scans JOIN objects USING (id) WHERE outcome = 'released'"
    )
    yield from (bytes(digest) for (digest,) in rows)


def _judge_registry(state: State, policy: Policy) -> None:
    registry, verdict = registry_of(policy), policy.deduplicate.registry
    prior = [entry for entry in registry.list() if entry.name == policy.release.name]
    older = [entry.version for entry in prior if entry.version != policy.release.version]
    notes: dict[str, object] = {"supersedes": older[-1] if older else None}
    if verdict != "ignore":
        notes |= _against_registry(state, policy, registry, verdict)
    state.put("registry", json.dumps(notes))


def _against_registry(state: State, policy: Policy, registry: Registry, verdict: str) -> dict[str, object]:
    found: Counter[tuple[str, str, str]] = Counter()
    outcome = {"drop": "dropped", "quarantine": "quarantined"}.get(verdict)
    others = any(entry.name != policy.release.name for entry in registry.list())
    # Where there is no release of another name, nothing can be found that would count.
    rows = released_rows(state, "id, sha256, pixels") if others else iter(())
    while page := list(islice(rows, _REGISTRY_PAGE)):
        hit_rows: dict[object, tuple[object]] = {}
        seen: set[tuple[object, RegistryHit]] = set()
        wanted = list(_digests_of(state, page))
        for hit in registry.lookup((whole, pixels) for _, whole, pixels in wanted):
            number = wanted[hit.index][0]
            once = (number, replace(hit, index=0))
            if not hit.carried_over(policy.release.name) and once not in seen:
                seen.add(once)
                found[hit.name, hit.version, hit.by] += 1
                hit_rows[number] = (number,)
        if outcome:
            _rule_out(state, list(hit_rows.values()), outcome, "duplicate-registry")
        else:
            _flag(state, list(hit_rows.values()), "registry")
    if found and verdict == "fail":
        state.put_plain("refused-registry", b"1")
    releases = sorted({(name, version) for name, version, _ in found})
    return {
        "public_prior": [f"{name} {version}" for name, version in releases if name in policy.registry.public],
        "links": {f"{name} {version} by {by}": count for (name, version, by), count in sorted(found.items())},
        "relies_on": releases if verdict == "drop" else [],
    }


def _digests_of(state: State, page: Sequence[Sequence[object]]) -> Iterator[tuple[object, str, str | None]]:
    """Row, digest of the bytes, and each digest of pixels or tiles, of a page of released objects."""
    any_scans = state.db.execute("SELECT EXISTS (SELECT 1 FROM scans)").fetchone() == (1,)
    for row in page:
        number, whole = row[4], _hex(row[5]) or ""
        yield number, whole, _hex(row[6])
        if not any_scans:
            continue
        for (digest,) in state.db.execute("SELECT digest FROM scans WHERE id = ? ORDER BY digest", (number,)):
            yield number, whole, _hex(digest)


def _hex(digest: object) -> str | None:
    return digest.hex() if isinstance(digest, bytes) else None
