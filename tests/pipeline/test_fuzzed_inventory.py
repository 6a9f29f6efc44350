"""Every path of an export with files of every kind in nested containers has exactly one row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.optional_dependencies import is_missing

from tests.helpers.account import account
from tests.helpers.fuzzed_export import FuzzedExport, fuzzed_export
from tests.helpers.hospital import prepare, write_ct


def accounted(base: Path, made: FuzzedExport, **options: bool) -> list[tuple[str, str, str]]:
    for path, content in made.files.items():
        target = base / "export" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    policy = prepare(base, deduplicate="{bytes: ignore}")
    run(policy, Options(workers=1, **options))
    return account(policy)


@pytest.mark.parametrize("seed", range(3))
def test_every_path_has_one_row_and_an_outcome(tmp_path: Path, seed: int) -> None:
    made = fuzzed_export(60, seed, tmp_path / "scratch", extra=False)
    write_ct(tmp_path / "w" / "export" / "released", 77)
    made.paths["released"] += 1
    rows = accounted(tmp_path / "w", made)
    assert Counter(path for path, _, _ in rows) == made.paths
    assert {outcome for _, outcome, _ in rows} == {"released", "dropped", "quarantined"}


@pytest.mark.slow
@pytest.mark.containers
def test_two_thousand_files_of_forty_kinds_are_accounted_for(tmp_path: Path) -> None:
    made = fuzzed_export(2000, 1, tmp_path / "scratch", extra=not is_missing("containers"))
    rows = accounted(tmp_path / "w", made, inventory_only=True)
    assert len(made.kinds) >= 40
    assert len(rows) >= 2000
    assert Counter(path for path, _, _ in rows) == made.paths
