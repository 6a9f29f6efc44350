"""Groups of patients who share all that a table says of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.verifiers.groups import FEW, Groups, groups_of

Row = tuple[str, str | None, str | None]


def table_of(folder: Path, rows: list[Row]) -> Path:
    path = folder / "t.parquet"
    names = ("who", 'a "quoted" name', "b")
    columns = [pa.array([row[n] for row in rows], pa.string()) for n in range(3)]
    pq.write_table(pa.Table.from_arrays(columns, names=names), path)
    return path


def by_hand(rows: list[Row]) -> Groups:
    persons: dict[str, set[tuple[str | None, str | None]]] = {}
    for who, *said in rows:
        persons.setdefault(who, set()).add((said[0], said[1]))
    sizes = Counter(frozenset(one) for one in persons.values()).values()
    few = sum(size for size in sizes if size < FEW)
    return Groups(len(persons), len(sizes), min(sizes, default=0), few)


@settings(deadline=None, max_examples=25)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from("ABCDEFGH"), st.sampled_from(["60", "61", None]), st.sampled_from(["F", None])
        ),
        max_size=25,
    )
)
def test_groups_are_those_counted_by_hand(tmp_path_factory: object, rows: list[Row]) -> None:
    folder = tmp_path_factory.mktemp("t")  # type: ignore[attr-defined]
    path = table_of(folder, rows)
    assert groups_of(path, "who", ['a "quoted" name', "b"]) == by_hand(rows)


def test_nothing_is_left_beside_the_table(tmp_path: Path) -> None:
    path = table_of(tmp_path, [("A", "60", "F")])
    assert groups_of(path, "who", ["b"]) == Groups(1, 1, 1, 1)
    assert list(tmp_path.iterdir()) == [path]
