"""Columns built from buffers equal those of pyarrow, without importing pandas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.release.parquet_io import make_array


@settings(deadline=None)
@given(st.lists(st.none() | st.text(max_size=8), max_size=30))
def test_texts_match_those_of_pyarrow(values: list[str | None]) -> None:
    made = make_array(values, pa.string())
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.string()))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, 2**31 - 1], pa.int32()),
        ([2**62, -1], pa.int64()),
        ([0.25, None], pa.float64()),
        ([True, None, False] * 7, pa.bool_()),
        ([], pa.int64()),
    ],
)
def test_numbers_and_flags_match_those_of_pyarrow(values: list[Any], kind: Any) -> None:
    made = make_array(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, kind))


def test_an_overflowing_number_is_rejected() -> None:
    with pytest.raises(OverflowError):
        make_array([2**31], pa.int32())


def test_pandas_is_not_imported() -> None:
    code = (
        "import sys, pyarrow as pa\n"
        "from medsanitize.release.parquet_io import make_array\n"
        "make_array(['a', None], pa.string()); make_array([1], pa.int32())\n"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
