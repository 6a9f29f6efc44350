"""The table of images and patients: required content, counts, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.labels import (
    MISSING,
    NO_PATIENT,
    OUTSIDE,
    TWICE,
    TWO_PATIENTS,
    LabelColumns,
    read_labels,
)

TABLE = """\
file,patient_id,split,view,offset_days,finding
a/1.png,007,train,PA,0,none
a/2.png,007,test,ap,,effusion
b/3.png,8,test,PA,12.5,none
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    images = tmp_path / "images"
    for name in ("a/1.png", "a/2.png", "b/3.png"):
        (images / name).parent.mkdir(parents=True, exist_ok=True)
        (images / name).write_bytes(b"x")
    return images


def table(root: Path, text: str) -> Path:
    path = root.parent / "labels.csv"
    path.write_text(text)
    return path


def test_the_rows_of_a_split_are_read_in_order(root: Path) -> None:
    labels = read_labels(table(root, TABLE), root, split="test")
    assert [path.name for path in labels.paths] == ["2.png", "3.png"]
    assert labels.patients == ("007", "8")
    assert labels.views == ("AP", "PA")
    assert np.isnan(labels.offset_days[0])
    assert labels.offset_days[1] == 12.5
    assert labels.extra == {"finding": ("effusion", "none")}
    assert labels.excluded == {}


def test_without_a_split_all_rows_are_read(root: Path) -> None:
    assert len(read_labels(table(root, TABLE), root)) == 3


def test_parquet_gives_the_same_rows(root: Path) -> None:
    path = root.parent / "labels.parquet"
    columns = {"file": ["a/1.png", "b/3.png"], "patient_id": [7, 8], "offset_days": [0.0, float("nan")]}
    pq.write_table(pa.table(columns), path)
    labels = read_labels(path, root)
    assert labels.patients == ("7", "8")
    assert labels.offset_days[0] == 0
    assert np.isnan(labels.offset_days[1])


def test_columns_may_have_other_names(root: Path) -> None:
    path = table(root, "image,who,part\na/1.png,x,one\n")
    labels = read_labels(path, root, LabelColumns(file="image", patient_id="who", split="part"), "one")
    assert labels.patients == ("x",)


def test_rows_without_a_usable_image_are_counted(root: Path) -> None:
    (root / "out.png").symlink_to(root.parent / "labels.csv")
    rows = ["a/1.png,7", "a/1.png,7", "./a/1.png,8", "../labels.csv,7", "/etc/hostname,7", "out.png,7"]
    rows += ["gone.png,7", "a/2.png,", ".,7"]
    labels = read_labels(table(root, "file,patient_id\n" + "\n".join(rows) + "\n"), root)
    assert len(labels) == 1
    assert labels.excluded == {TWICE: 1, TWO_PATIENTS: 1, OUTSIDE: 3, MISSING: 2, NO_PATIENT: 1}


def test_kept_and_excluded_rows_add_up(root: Path) -> None:
    labels = read_labels(table(root, TABLE), root).keep(np.array([2, 0]), {"unreadable": 1})
    assert labels.patients == ("8", "007")
    assert labels.extra["finding"] == ("none", "none")
    assert labels.excluded == {"unreadable": 1}


@pytest.mark.parametrize(
    ("text", "split", "said"),
    [
        ("file,person\na/1.png,7\n", None, "no column 'patient_id' for the patient"),
        ("patient_id\n7\n", None, "no column 'file' for the image"),
        ("file,patient_id\na/1.png,7\n", "test", "no column 'split'"),
        (TABLE, "holdout", "no row of the requested split"),
        ("file,patient_id\n", None, "has no rows"),
        ("", None, "cannot be read"),
        ("PAR1 and nothing else", None, "cannot be read"),
        ("file,patient_id,file\na/1.png,7,b\n", None, "two columns of the same name"),
        ("file,patient_id\na/1.png,7,8,9\n", None, "cannot be read"),
        ("file,patient_id,offset_days\na/1.png,7,2020-01-01\n", None, "not a number in row 1"),
        ("file,patient_id\nsecret.png,7\n", None, "image not found: 1"),
    ],
)
def test_an_unusable_table_is_a_clear_error(root: Path, text: str, split: str | None, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_labels(table(root, text), root, split=split)
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "2020" not in str(raised.value)


def test_a_renamed_column_must_exist(root: Path) -> None:
    with pytest.raises(UsageError, match="no column 'position'"):
        read_labels(table(root, TABLE), root, LabelColumns(view="position"))


def test_a_missing_table_or_folder_is_a_clear_error(root: Path) -> None:
    with pytest.raises(UsageError, match="table cannot be read"):
        read_labels(root / "none.csv", root)
    with pytest.raises(UsageError, match="image folder does not exist"):
        read_labels(table(root, TABLE), root / "none")
