"""What changed between two versions of a release."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

from click.testing import CliRunner
from medsanitize import version_changes
from medsanitize.cli import cli
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy

from tests.helpers.hospital import make_export, prepare, write_ct


def released(base: Path, change: Callable[[Path], object], **sections: str) -> Policy:
    make_export(base / "export", 6)
    change(base / "export")
    policy = prepare(base, **sections)
    run(policy, Options(workers=1))
    return policy


def test_added_removed_and_changed_objects_and_patients_are_counted(tmp_path: Path) -> None:
    first = released(tmp_path / "first", lambda _: None)

    def change(export: Path) -> None:
        shutil.rmtree(export / "p1")
        write_ct(export / "new", 500, "ANOTHER", 88)
        write_ct(export / "p2" / "i0002", 2, "MRN77341902", 2, PixelSpacing=[9, 9])

    second = released(
        tmp_path / "second", change, release='{name: chest-ct, version: "1.1", mode: pseudonymous}'
    )
    found = version_changes(str(first.output), str(second.output))
    assert astuple(found)[:4] == (1, 2, 1, 6)
    assert (found.patients_added, found.patients_removed, found.patients_kept) == (1, 1, 5)

    done = CliRunner().invoke(cli, ["release", "changes", str(first.output), str(second.output), "--json"])
    assert json.loads(done.output)["removed"] == 2
    same = version_changes(str(first.output), str(first.output))
    assert (same.added, same.removed, same.changed, same.same_policy) == (0, 0, 0, True)
