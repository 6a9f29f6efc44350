"""The registry: earlier releases by bytes and by pixels, and dependencies between releases."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import EnvironmentFailure, IntegrityError, KeyMaterialError, UsageError
from medsanitize.policies.model import Release
from medsanitize.release.embeddings import Embeddings, Vault
from medsanitize.release.registry import DATABASE, AffectedRelease, Registry, RegistryHit

Make = Callable[..., Any]


def named(name: str, version: str) -> Release:
    return Release(name=name, version=version, mode="pseudonymous")


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry")


@pytest.fixture
def publish_as(make_release: Make, tmp_path: Path) -> Make:
    def make(name: str, version: str, contents: list[bytes], **changes: Any) -> Path:
        folder = tmp_path / f"{name}-{version}"
        made: Path = make_release(folder, contents=contents, release=named(name, version), **changes)
        return made

    return make


def test_a_missing_registry_is_empty_and_not_created(registry: Registry) -> None:
    assert registry.list() == ()
    assert list(registry.lookup([("0" * 64, None)])) == []
    assert not registry.path.exists()


def test_an_added_release_is_listed_with_its_size(registry: Registry, publish_as: Make) -> None:
    entry = registry.add(publish_as("ct", "1.0", [b"a", b"b"]))
    assert (entry.name, entry.version, entry.mode, entry.objects) == ("ct", "1.0", "pseudonymous", 2)
    assert registry.list() == (entry,)


def test_only_the_owner_may_read_the_registry(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    assert registry.path.stat().st_mode & 0o777 == 0o700
    assert (registry.path / DATABASE).stat().st_mode & 0o077 == 0


def test_hits_are_in_order_and_found_by_bytes_or_by_pixels(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a", b"b"]))
    pixels_of_b = sha(b"pixelsb")
    wanted = [(sha(b"new"), None), (sha(b"b"), pixels_of_b), (sha(b"other"), pixels_of_b), (sha(b"a"), None)]
    assert list(registry.lookup(wanted)) == [
        RegistryHit(1, "bytes", "ct", "1.0"),
        RegistryHit(2, "pixels", "ct", "1.0"),
        RegistryHit(3, "bytes", "ct", "1.0"),
    ]


def test_an_earlier_version_of_the_same_release_is_carried_over_not_duplicated(
    registry: Registry, publish_as: Make
) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    registry.add(publish_as("mr", "1.0", [b"a"]))
    hits = list(registry.lookup([(sha(b"a"), None)]))
    assert [(hit.name, hit.carried_over("ct")) for hit in hits] == [("ct", True), ("mr", False)]


def test_lookups_stream_over_many_batches(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    wanted = ((sha(b"a") if n % 30_000 == 29_999 else f"{n:064x}", None) for n in range(60_000))
    assert [hit.index for hit in registry.lookup(wanted)] == [29_999, 59_999]


def test_lookups_write_nothing(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    before = (registry.path / DATABASE).stat().st_mtime_ns
    list(registry.lookup([(sha(b"a"), None)]))
    assert (registry.path / DATABASE).stat().st_mtime_ns == before
    assert [path.name for path in registry.path.iterdir()] == [DATABASE]


def test_adding_a_release_again_changes_nothing(registry: Registry, publish_as: Make) -> None:
    release = publish_as("ct", "1.0", [b"a"])
    assert registry.add(release) == registry.add(release)
    assert len(registry.list()) == 1


def test_another_release_of_the_same_name_and_version_is_rejected(
    registry: Registry, make_release: Make, tmp_path: Path
) -> None:
    registry.add(make_release(tmp_path / "one", contents=[b"a"]))
    with pytest.raises(UsageError, match="name and version"):
        registry.add(make_release(tmp_path / "two", contents=[b"b"]))
    assert list(registry.lookup([(sha(b"b"), None)])) == []


def test_a_release_that_is_not_intact_is_rejected(registry: Registry, publish_as: Make) -> None:
    release = publish_as("ct", "1.0", [b"a"])
    next((release / "data").rglob("*.dcm")).write_bytes(b"b")
    with pytest.raises(IntegrityError, match="not intact"):
        registry.add(release)
    assert registry.list() == ()


def test_removal_reports_which_releases_are_affected_and_why(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a", b"b"]))
    newer = registry.add(publish_as("ct", "1.1", [b"a", b"b", b"c"], supersedes="1.0"))
    leaning = registry.add(publish_as("mr", "1.0", [b"d"]), relies_on=[("ct", "1.0")])
    registry.add(publish_as("us", "1.0", [b"e"]))
    assert registry.remove("ct", "1.0") == (
        AffectedRelease(newer, shared=2, supersedes=True, dropped_against=False),
        AffectedRelease(leaning, shared=0, supersedes=False, dropped_against=True),
    )
    assert [hit.version for hit in registry.lookup([(sha(b"a"), None)])] == ["1.1"]


def test_unknown_releases_are_usage_errors_and_leave_no_files(registry: Registry, publish_as: Make) -> None:
    with pytest.raises(UsageError, match="No such release"):
        registry.remove("ct", "9")
    with pytest.raises(UsageError, match="No such release"):
        registry.add(publish_as("ct", "1.0", [b"a"]), relies_on=[("mr", "1.0")])
    assert registry.list() == ()


def test_a_damaged_registry_is_an_integrity_error(registry: Registry) -> None:
    registry.path.mkdir()
    (registry.path / DATABASE).write_bytes(b"not a database at all" * 100)
    with pytest.raises(IntegrityError, match="damaged"):
        registry.list()


def test_a_registry_of_a_later_version_is_not_modified(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    db = sqlite3.connect(registry.path / DATABASE)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(IntegrityError, match="another format version"):
        registry.list()


def test_a_busy_registry_is_retryable(
    registry: Registry, publish_as: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = publish_as("ct", "1.0", [b"a"])
    registry.add(release)
    holder = sqlite3.connect(registry.path / DATABASE, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    real = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **kwargs: real(*args, **{**kwargs, "timeout": 0.05})
    )
    with pytest.raises(EnvironmentFailure, match="Another process"):
        registry.add(release)
    holder.close()


# -- embeddings -----------------------------------------------------------------------------

KEY = bytes(range(40))


def seen_in(modality: str, count: int, first: int = 0, second: int | None = None) -> Embeddings:
    random = np.random.default_rng(first)
    return Embeddings(
        modality=modality,
        patients=tuple(f"SECRETP{first + n}" for n in range(count)),
        instances=tuple(f"2.25.{first + n}" for n in range(count)),
        prints=tuple(bytes([n]) * 32 for n in range(count)),
        first=random.random((count, 6), np.float32),
        second=None if second is None else random.random((count, second), np.float32),
    )


def test_embeddings_round_trip_and_are_encrypted(registry: Registry, publish_as: Make) -> None:
    entry = registry.add(publish_as("ct", "1.0", [b"a"]))
    given = [seen_in("radiograph", 3), seen_in("radiograph", 2, 3), seen_in("slide", 1, 9, second=4)]
    registry.add_embeddings(entry, "m", given, Vault(KEY), missing=7)
    found = list(registry.embeddings(entry, "m", Vault(KEY)))
    assert [one.patients for one in found] == [one.patients for one in given]
    assert all((a.first == b.first).all() for a, b in zip(found, given, strict=True))
    assert found[2].second is not None
    assert registry.missing("ct", "1.0", "m") == 7
    raw = (registry.path / DATABASE).read_bytes()
    assert b"SECRETP" not in raw
    assert given[0].first.tobytes()[:16] not in raw


def test_embeddings_of_other_models_are_not_returned(registry: Registry, publish_as: Make) -> None:
    entry = registry.add(publish_as("ct", "1.0", [b"a"]))
    registry.add_embeddings(entry, "m", [seen_in("radiograph", 3)], Vault(KEY), missing=0)
    assert registry.missing("ct", "1.0", "other") is None
    assert list(registry.embeddings(entry, "other", Vault(KEY))) == []


def test_adding_embeddings_again_replaces_those_of_the_same_models(
    registry: Registry, publish_as: Make
) -> None:
    entry = registry.add(publish_as("ct", "1.0", [b"a"]))
    for model, count in (("m", 3), ("n", 2), ("m", 1)):
        registry.add_embeddings(entry, model, [seen_in("slide", count)], Vault(KEY), missing=0)
    assert [len(one.patients) for one in registry.embeddings(entry, "m", Vault(KEY))] == [1]
    assert [len(one.patients) for one in registry.embeddings(entry, "n", Vault(KEY))] == [2]


def test_another_key_can_neither_read_nor_add(registry: Registry, publish_as: Make) -> None:
    entry = registry.add(publish_as("ct", "1.0", [b"a"]))
    registry.add_embeddings(entry, "m", [seen_in("slide", 1)], Vault(KEY), missing=0)
    with pytest.raises(KeyMaterialError, match="another key"):
        list(registry.embeddings(entry, "m", Vault(KEY[::-1])))
    with pytest.raises(KeyMaterialError, match="another key"):
        registry.add_embeddings(entry, "n", [seen_in("slide", 1)], Vault(KEY[::-1]), missing=0)


def test_parts_cannot_be_moved_between_releases(registry: Registry, publish_as: Make) -> None:
    entries = [registry.add(publish_as("ct", version, [version.encode()])) for version in ("1.0", "2.0")]
    for number, entry in enumerate(entries):
        registry.add_embeddings(entry, "m", [seen_in("slide", 1, number)], Vault(KEY), missing=0)
    with closing(sqlite3.connect(registry.path / DATABASE)) as db, db:
        db.execute("UPDATE embedding SET sealed = (SELECT sealed FROM embedding WHERE release = 2)")
    with pytest.raises(KeyMaterialError, match="or modified"):
        list(registry.embeddings(entries[0], "m", Vault(KEY)))


def test_a_removed_release_loses_its_embeddings(registry: Registry, publish_as: Make) -> None:
    entry = registry.add(publish_as("ct", "1.0", [b"a"]))
    registry.add_embeddings(entry, "m", [seen_in("slide", 1)], Vault(KEY), missing=0)
    registry.remove("ct", "1.0")
    with closing(sqlite3.connect(registry.path / DATABASE)) as db:
        assert db.execute("SELECT count(*) FROM embedding").fetchone() == (0,)


def test_a_registry_without_embeddings_is_read_and_upgraded_when_written(
    registry: Registry, publish_as: Make
) -> None:
    entry = registry.add(publish_as("ct", "1.0", [b"a"]))
    with closing(sqlite3.connect(registry.path / DATABASE)) as db:
        db.executescript(
            "DROP TABLE embedding; DROP TABLE embedded; DROP TABLE not_embedded; PRAGMA user_version = 1;"
        )
    assert registry.list() == (entry,)
    assert registry.missing("ct", "1.0", "m") is None
    assert list(registry.embeddings(entry, "m", Vault(KEY))) == []
    registry.add_embeddings(entry, "m", [seen_in("slide", 1)], Vault(KEY), missing=0)
    assert registry.missing("ct", "1.0", "m") == 0


def test_tiles_are_added_to_an_existing_release(registry: Registry, publish_as: Make) -> None:
    release = publish_as("slides", "1.0", [b"a"])
    registry.add(release)
    registry.add(release, tiles=[b"t" * 32])
    hits = list(registry.lookup([("0" * 64, (b"t" * 32).hex())]))
    assert [hit.by for hit in hits] == ["pixels"]


def test_digests_of_pixels_are_listed_once_without_those_of_left_out_releases(
    registry: Registry, publish_as: Make
) -> None:
    registry.add(publish_as("ct", "1.0", [b"a", b"b"]))
    registry.add(publish_as("mr", "1.0", [b"b", b"c"]))
    digests = {one: bytes.fromhex(sha(b"pixels" + one)) for one in (b"a", b"b", b"c")}
    assert list(registry.pixels()) == sorted(digests.values())
    # What another release has as well stays.
    assert list(registry.pixels(leave_out=["ct"])) == sorted((digests[b"b"], digests[b"c"]))
