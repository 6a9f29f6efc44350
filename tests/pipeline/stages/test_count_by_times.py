"""Objects that their times of day single out, before and after."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.pipeline.stages.tally import count_by_times

DIGESTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30)


def counted(*pairs: tuple[int, int]) -> dict[str, int]:
    return count_by_times((array("Q", [old for old, _ in pairs]), array("Q", [new for _, new in pairs])))


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], {"stated": 0, "before": 0, "after": 0, "found": 0}),
        ([(1, 1), (2, 2), (3, 3)], {"stated": 3, "before": 3, "after": 3, "found": 3}),
        ([(1, 7), (2, 8), (2, 9)], {"stated": 3, "before": 1, "after": 3, "found": 0}),
        ([(1, 0), (2, 0), (0, 0)], {"stated": 2, "before": 2, "after": 0, "found": 0}),
        ([(1, 1), (1, 1), (2, 2)], {"stated": 3, "before": 1, "after": 1, "found": 1}),
    ],
    ids=["nothing", "kept", "shifted", "removed", "shared"],
)
def test_objects_are_counted_by_their_times(pairs: list[tuple[int, int]], expected: dict[str, int]) -> None:
    assert counted(*pairs) == expected


@given(DIGESTS)
def test_no_more_objects_are_found_than_were_unique(pairs: list[tuple[int, int]]) -> None:
    found = counted(*pairs)

    assert found["found"] <= found["before"] <= found["stated"] <= len(pairs)
