"""Replacing by label: images missing in the table are counted, and the gate does not pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.helpers.synthesis import RULE, Make, run_policy, synthetic_gate


def without(people: Path, table: Path, names: Sequence[str]) -> Path:
    """The table without some rows."""
    lines = (people / "labels.csv").read_text().splitlines()
    table.write_text("\n".join(line for line in lines if not line.startswith(tuple(names))))
    return table


def test_unlabeled_images_are_counted_and_the_gate_is_flagged(
    make: Make, people: Path, tmp_path: Path
) -> None:
    table = without(people, tmp_path / "part.csv", ["export/i1.dcm", "export/i2.dcm"])
    table.write_text(table.read_text().replace("export/i0.dcm,p0,,clear", "export/i0.dcm,p0,,"))
    result = run_policy(make(table=table))
    assert result.dropped == {RULE: 3}
    assert synthetic_gate(result).result == "flagged"
    assert "3 images without a label" in synthetic_gate(result).detail


def test_unlabeled_images_are_reported_if_no_synthetic_image_passed(
    make: Make, people: Path, tmp_path: Path
) -> None:
    table = without(people, tmp_path / "part.csv", ["export/i2.dcm"])
    rows = table.read_text().splitlines()
    table.write_text("\n".join(row for row in rows if ",calibration," not in row or "calibration7," in row))
    told = synthetic_gate(run_policy(make(table=table)))
    assert "the verdict is insufficient_data" in told.detail
    assert "1 images without a label" in told.detail


def test_a_table_for_a_copy_of_the_inputs_never_passes(make: Make) -> None:
    result = run_policy(make(export=True))
    assert result.dropped == {}
    assert synthetic_gate(result).result == "flagged"
    assert "No file of the table is an image of this release" in synthetic_gate(result).detail


def test_a_table_with_another_label_for_every_image_passes(make: Make, people: Path) -> None:
    lines = (people / "labels.csv").read_text().splitlines()
    (people / "clear.csv").write_text(
        "\n".join(line.replace("effusion", "clear") if "export/" in line else line for line in lines)
    )
    result = run_policy(make(table=people / "clear.csv"))
    assert (synthetic_gate(result).result, result.dropped) == ("passed", {})
