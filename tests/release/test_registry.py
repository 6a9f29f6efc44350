"""The registry: what was published before, by bytes and by pixels, and who leans on whom."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.policies.model import Release
from medsanitize.release.registry import DATABASE, Affected, Hit, Registry

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


def test_a_registry_that_is_not_there_is_empty_and_is_not_made(registry: Registry) -> None:
    assert registry.list() == ()
    assert list(registry.lookup([("0" * 64, None)])) == []
    assert not registry.path.exists()


def test_an_added_release_is_listed_with_its_size(registry: Registry, publish_as: Make) -> None:
    entry = registry.add(publish_as("ct", "1.0", [b"a", b"b"]))
    assert (entry.name, entry.version, entry.mode, entry.objects) == ("ct", "1.0", "pseudonymous", 2)
    assert registry.list() == (entry,)


def test_only_the_holder_may_look_into_the_registry(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    assert registry.path.stat().st_mode & 0o777 == 0o700
    assert (registry.path / DATABASE).stat().st_mode & 0o077 == 0


def test_hits_come_in_order_by_bytes_or_by_pixels(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a", b"b"]))
    pixels_of_b = sha(b"pixelsb")
    wanted = [(sha(b"new"), None), (sha(b"b"), pixels_of_b), (sha(b"other"), pixels_of_b), (sha(b"a"), None)]
    assert list(registry.lookup(wanted)) == [
        Hit(1, "bytes", "ct", "1.0"),
        Hit(2, "pixels", "ct", "1.0"),
        Hit(3, "bytes", "ct", "1.0"),
    ]


def test_an_earlier_version_of_the_same_release_is_carried_over_not_duplicated(
    registry: Registry, publish_as: Make
) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    registry.add(publish_as("mr", "1.0", [b"a"]))
    hits = list(registry.lookup([(sha(b"a"), None)]))
    assert [(hit.name, hit.carried_over("ct")) for hit in hits] == [("ct", True), ("mr", False)]


def test_looking_up_streams_over_many_batches(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    wanted = ((sha(b"a") if n % 30_000 == 29_999 else f"{n:064x}", None) for n in range(60_000))
    assert [hit.index for hit in registry.lookup(wanted)] == [29_999, 59_999]


def test_looking_up_writes_nothing(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    before = (registry.path / DATABASE).stat().st_mtime_ns
    list(registry.lookup([(sha(b"a"), None)]))
    assert (registry.path / DATABASE).stat().st_mtime_ns == before
    assert [path.name for path in registry.path.iterdir()] == [DATABASE]


def test_adding_a_release_again_changes_nothing(registry: Registry, publish_as: Make) -> None:
    release = publish_as("ct", "1.0", [b"a"])
    assert registry.add(release) == registry.add(release)
    assert len(registry.list()) == 1


def test_another_release_of_the_same_name_and_version_is_refused(
    registry: Registry, make_release: Make, tmp_path: Path
) -> None:
    registry.add(make_release(tmp_path / "one", contents=[b"a"]))
    with pytest.raises(UsageError, match="name and version"):
        registry.add(make_release(tmp_path / "two", contents=[b"b"]))
    assert list(registry.lookup([(sha(b"b"), None)])) == []


def test_a_release_that_is_not_intact_is_refused(registry: Registry, publish_as: Make) -> None:
    release = publish_as("ct", "1.0", [b"a"])
    next((release / "data").rglob("*.dcm")).write_bytes(b"b")
    with pytest.raises(IntegrityError, match="not intact"):
        registry.add(release)
    assert registry.list() == ()


def test_removing_tells_which_releases_are_affected_and_why(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a", b"b"]))
    newer = registry.add(publish_as("ct", "1.1", [b"a", b"b", b"c"], supersedes="1.0"))
    leaning = registry.add(publish_as("mr", "1.0", [b"d"]), relies_on=[("ct", "1.0")])
    registry.add(publish_as("us", "1.0", [b"e"]))
    assert registry.remove("ct", "1.0") == (
        Affected(newer, shared=2, supersedes=True, dropped_against=False),
        Affected(leaning, shared=0, supersedes=False, dropped_against=True),
    )
    assert [hit.version for hit in registry.lookup([(sha(b"a"), None)])] == ["1.1"]


def test_unknown_releases_are_usage_errors_and_leave_nothing_behind(
    registry: Registry, publish_as: Make
) -> None:
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


def test_a_registry_of_a_later_version_is_not_touched(registry: Registry, publish_as: Make) -> None:
    registry.add(publish_as("ct", "1.0", [b"a"]))
    db = sqlite3.connect(registry.path / DATABASE)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(IntegrityError, match="another version"):
        registry.list()


def test_a_busy_registry_may_be_retried(
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
