"""Values in OCR text are found by an index of their pieces, as if each of them were searched by itself."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.text.ocr_matching import Skeleton, index_skeletons


@lru_cache(maxsize=100_000)
def edits(one: str, other: str) -> int:
    """Levenshtein distance by its definition."""
    if not one or not other:
        return len(one) + len(other)
    change = edits(one[1:], other[1:]) + (one[0] != other[0])
    return min(change, edits(one[1:], other) + 1, edits(one, other[1:]) + 1)


def skeleton(key: str, errors: int) -> Skeleton:
    cuts = [len(key) * number // (errors + 1) for number in range(errors + 2)]
    pieces = tuple(key[low:high] for low, high in pairwise(cuts))
    return Skeleton(key, errors, pieces, number=False, rule="known-name")


@given(
    st.lists(st.tuples(st.text("ab", min_size=4, max_size=7), st.integers(0, 3)), max_size=3),
    st.text("ab", max_size=9),
)
def test_the_values_that_occur_with_their_errors_are_found_and_no_others(
    values: list[tuple[str, int]], text: str
) -> None:
    known = [skeleton(*value) for value in values]

    found = index_skeletons(known).occurring(text)

    parts = {"", *(text[low:high] for low, high in combinations(range(len(text) + 1), 2))}
    assert found == [one for one in known if any(edits(one.key, part) <= one.errors for part in parts)]


def test_the_repr_of_an_index_shows_no_value() -> None:
    assert "smith" not in repr(index_skeletons([skeleton("smith", 1)]))
