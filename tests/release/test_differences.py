"""What changed between two releases."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.release.differences import ChangedObject, release_differences
from medsanitize.release.manifest import ObjectRow, write_objects

Rows = Callable[..., ObjectRow]
DIGEST = {"policy_digest": "5a" * 32}


def manifests(folder: Path, before: list[ObjectRow], after: list[ObjectRow]) -> tuple[Path, Path]:
    for name, rows in (("before", before), ("after", after)):
        write_objects(rows, folder / name, metadata=DIGEST)
    return folder / "before", folder / "after"


def test_equal_releases_have_no_differences(tmp_path: Path, make_row: Rows) -> None:
    rows = [make_row(n, b"x") for n in range(9)]

    found = release_differences(*manifests(tmp_path, rows, rows))

    assert (found.is_empty, found.objects["same"], found.patients["same"]) == (True, 9, 3)


def test_every_object_has_one_change(tmp_path: Path, make_row: Rows) -> None:
    rows = [make_row(n, b"x") for n in range(12)]
    header = replace(rows[1], sha256="ab" * 32)
    pixels = replace(rows[2], sha256="ab" * 32, pixels_sha256="cd" * 32)

    found = release_differences(
        *manifests(tmp_path, rows[:8], [rows[0], header, pixels, *rows[3:4], *rows[8:]])
    )

    assert found.objects == {"added": 4, "removed": 4, "header": 1, "pixels": 1, "same": 2}
    assert found.patients == {"added": 1, "removed": 1, "changed": 1, "same": 0}
    assert found.changed[0] == ChangedObject("header", "P000000", rows[1].path)


def test_without_digests_of_pixels_another_file_may_have_other_pixels(tmp_path: Path, make_row: Rows) -> None:
    row = replace(make_row(0, b"x"), pixels_sha256=None)

    found = release_differences(*manifests(tmp_path, [row], [replace(row, sha256="ab" * 32)]))

    assert found.objects["pixels"] == 1


def test_the_same_bytes_are_the_same_object(tmp_path: Path, make_row: Rows) -> None:
    row = make_row(0, b"x")

    found = release_differences(*manifests(tmp_path, [replace(row, pixels_sha256=None)], [row]))

    assert (found.is_empty, found.objects["same"]) == (True, 1)


def test_rows_of_numbered_parts_are_compared(tmp_path: Path, make_row: Rows) -> None:
    rows = [make_row(n, b"x") for n in range(9)]
    before, after = manifests(tmp_path, rows, rows)
    write_objects(rows, before, metadata=DIGEST, rows_per_file=2)

    assert release_differences(before, after).is_empty


def test_another_policy_is_said(tmp_path: Path, make_row: Rows) -> None:
    before, after = manifests(tmp_path, [make_row(0, b"x")], [make_row(0, b"x")])
    write_objects([make_row(0, b"x")], after, metadata={"policy_digest": "6b" * 32})

    assert not release_differences(before, after).same_policy


def test_the_command_counts_and_lists(make_release: Callable[..., Path], tmp_path: Path) -> None:
    make_release(tmp_path / "a", contents=[b"x", b"y"])
    make_release(tmp_path / "b", contents=[b"x", b"z", b"w"])
    words = ["diff", str(tmp_path / "a"), str(tmp_path / "b")]

    shown, as_json = CliRunner().invoke(cli, words), CliRunner().invoke(cli, [*words, "--json"])

    assert "Objects: 1 added, 0 removed, 0 with another header, 1 with other pixels, 1 same." in shown.output
    assert [one["change"] for one in json.loads(as_json.output)["changed"]] == ["pixels", "added"]
