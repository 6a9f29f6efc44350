"""Static shards for batch schedulers: after one inventory, n jobs each sanitize a part of the patients.

A shard works on a copy of its rows in a state file of its own, so shards never wait for each other. The run
without ``--shard`` merges the finished rows and processes the rest.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import KeyMaterialError, UsageError
from medsanitize.pipeline.state.database import State, immutable_uri, translated_errors
from medsanitize.pipeline.state.stage_results import DECIDED, SETTINGS, WALK
from medsanitize.sanitize.pseudonyms import SubKeys

_SHARED = (SETTINGS.name, WALK.name, DECIDED.name)
_INVENTORY = "inventory"
_META = ("key", _INVENTORY, *_SHARED)
# The pending objects of a shard's patients, in the database with this name.
_SHARE = (
    # CROSS JOIN fixes the join order: scan patients, then find their objects through objects_group.
    "FROM {0}.patients AS theirs CROSS JOIN {0}.objects ON objects.patient = theirs.patient"
    " WHERE objects.outcome IS NULL AND part_of(theirs.patient, ?) = ?"
)


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard ``index`` (1-based) of ``count``."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse ``i/n``.

        Raises
        ------
        UsageError
            The text is not two numbers with 1 <= i <= n <= 100,000.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]) <= 100_000:
            raise UsageError("The shard is not of the form i/n", "Write for example --shard 1/8, up to 8/8")
        return cls(int(match[1]), int(match[2]))

    @property
    def name(self) -> str:
        """The part that identifies the shard in file names."""
        return f"shard-{self.index}-of-{self.count}"


def shard_path(main: Path, shard: Shard) -> Path:
    """Return the path of a shard's state file."""
    return main.with_name(f"{main.stem}.{shard.name}.sqlite")


def shard_files(main: Path) -> list[Path]:
    """List the state files of all shards next to a state file, with their write-ahead logs."""
    return sorted(main.parent.glob(f"{main.stem}.shard-*-of-*.sqlite*"))


def part_of(patient: bytes, count: int) -> int:
    """Return the shard (1-based) of a patient; ``patient`` is the keyed name in the state."""
    # Keyed names are uniformly distributed, so any eight bytes of them make even shards.
    return int.from_bytes(patient[:8], "big") % count + 1


def sources_of(main: State, shard: Shard) -> Iterator[bytes]:
    """Yield the encrypted paths of a shard's pending objects."""
    main.db.create_function("part_of", 2, part_of, deterministic=True)
    sql = f"SELECT objects.source {_SHARE.format('main')}"
    for (source,) in main.db.execute(sql, (shard.count, shard.index)):
        yield bytes(source)


def copy_shard(main: State, shard: Shard, subkeys: SubKeys) -> State:
    """Open a shard's state; a new one receives all rows of its patients.

    Raises
    ------
    UsageError
        The run has no state file, or shards of another count were started and not yet merged.
    """
    if main.path is None:
        raise UsageError("A run without a state file cannot be split", "Run it whole")
    path = shard_path(main.path, shard)
    # Shards of another count would overlap: an object could be sanitized twice.
    if any(not one.stem.endswith(f"-of-{shard.count}") for one in shard_files(main.path)):
        raise UsageError(
            "Shards of another number were begun, and theirs are partly the same objects",
            "Give the same number, or merge what they did: medsanitize run POLICY --inventory-only",
        )
    if path.exists():
        with State(path, subkeys).closed_on_failure() as state:
            if state.plain("copied") is not None and _is_of(state, main):
                return state
            # Without "copied" it is an incomplete copy of a killed job.
            state.close()
        _remove(path)
    with State(path, subkeys).closed_on_failure() as state, _attached(state, immutable_uri(main.path)):
        state.db.create_function("part_of", 2, part_of, deterministic=True)
        with state.transaction() as db:
            share = f"INSERT INTO objects SELECT objects.* {_SHARE.format('other')}"
            db.execute(share, (shard.count, shard.index))
            db.execute("CREATE INDEX objects_group ON objects (patient, study, id)")
            db.execute(
                "INSERT INTO patients SELECT * FROM other.patients"
                " WHERE patient IN (SELECT patient FROM objects)"
            )
            db.execute(
                "INSERT INTO known_identifiers SELECT * FROM other.known_identifiers"
                " WHERE owner IN (SELECT patient FROM objects UNION SELECT study FROM objects)"
            )
            db.execute(
                "INSERT INTO decisions SELECT * FROM other.decisions WHERE id IN (SELECT id FROM objects)"
            )
            db.execute(
                "INSERT INTO specimens SELECT * FROM other.specimens WHERE id IN (SELECT id FROM objects)"
            )
            db.execute(
                "INSERT INTO slices SELECT * FROM other.slices WHERE frame IN"
                " (SELECT frame FROM other.slices WHERE id IN (SELECT id FROM objects))"
            )
            # A series shares the cuts of its frame of reference, including those of finished series.
            db.execute(
                "INSERT INTO faces SELECT * FROM other.faces WHERE series IN (SELECT series FROM slices)"
            )
            for name in _META:
                db.execute("INSERT INTO meta SELECT * FROM other.meta WHERE name = ?", (name,))
            # Within the transaction: without this mark the copy counts as incomplete.
            state.put_plain("copied", b"1")
    return state


def _is_of(shard: State, main: State) -> bool:
    """Report whether a shard was copied from this inventory, with the same decisions."""
    same = shard.plain(_INVENTORY) == main.plain(_INVENTORY)
    return same and all(shard.get(name) == main.get(name) for name in _SHARED)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def name_inventory(main: State) -> None:
    """Store a random ID of the inventory, which distinguishes its shards from those of others."""
    main.put_plain(_INVENTORY, secrets.token_bytes(16))


def merge_shards(main: State) -> int:
    """Take over the finished rows of the shards of this inventory; return the number of objects.

    State files of shards of another inventory are deleted, because their files are not in this staging
    folder.

    Raises
    ------
    KeyMaterialError
        A shard was made under another key.
    UsageError
        A shard was made under another policy, or before later decisions.
    """
    if main.path is None:
        return 0
    merged = 0
    for path in shard_files(main.path):
        if path.suffix == ".sqlite":
            merged += _merge_one(main, path)
            _remove(path)
    return merged


def _merge_one(main: State, path: Path) -> int:
    with _attached(main, str(path)):
        complete = main.db.execute("SELECT 1 FROM other.meta WHERE name = 'copied'").fetchone()
        if complete is None:
            return 0
        theirs = main.db.execute("SELECT value FROM other.meta WHERE name = ?", (_INVENTORY,)).fetchone()
        if theirs is None or theirs[0] != main.plain(_INVENTORY):
            return 0
        if main.db.execute("SELECT value FROM other.meta WHERE name = 'key'").fetchone()[0] != main.plain(
            "key"
        ):
            raise KeyMaterialError("A shard was made under another key", "Give every shard the same key")
        for name in _SHARED:
            row = main.db.execute("SELECT value FROM other.meta WHERE name = ?", (name,)).fetchone()
            # Compared decrypted: every encryption of the same value has another nonce.
            value = None if row is None else main.seal.open(row[0], b"meta:" + name.encode()).decode()
            if value != main.get(name):
                raise UsageError(
                    "A shard was made under another policy or inventory",
                    "Remove the shard files and run them again",
                )
        with main.transaction() as db:
            count = db.execute(
                "INSERT OR REPLACE INTO objects SELECT theirs.* FROM other.objects AS theirs"
                # Only pending rows: a shard that finished late must not replace a later result.
                " JOIN objects AS ours USING (id) WHERE theirs.outcome NOT NULL AND ours.outcome IS NULL"
            ).rowcount
            db.execute("INSERT OR IGNORE INTO links SELECT * FROM other.links")
            db.execute("INSERT OR IGNORE INTO review_items SELECT * FROM other.review_items")
            db.execute("INSERT OR IGNORE INTO review_item_objects SELECT * FROM other.review_item_objects")
            db.execute(
                "INSERT OR IGNORE INTO review_items_left_out SELECT * FROM other.review_items_left_out"
            )
    return int(count)


@contextmanager
def _attached(state: State, name: str) -> Iterator[None]:
    # ATTACH is not allowed within a transaction.
    state.commit()
    with translated_errors():
        state.db.execute("ATTACH ? AS other", (name,))
    try:
        yield
    finally:
        state.db.execute("DETACH other")
