"""Groups of patients with equal values in all tables (k-anonymity)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.verifiers.leaks.k_anonymity import EquivalenceClasses, QuasiIdentifiers, equivalence_classes

FEW = 5
Row = tuple[str, str | None, str | None]


def table_of(folder: Path, rows: list[Row], name: str = "t") -> Path:
    path = folder / f"{name}.parquet"
    names = ("who", 'a "quoted" name', "b")
    columns = [pa.array([row[n] for row in rows], pa.string()) for n in range(3)]
    pq.write_table(pa.Table.from_arrays(columns, names=names), path)
    return path


def by_hand(rows: list[Row]) -> EquivalenceClasses:
    persons: dict[str, set[tuple[str | None, str | None]]] = {}
    for who, *said in rows:
        persons.setdefault(who, set()).add((said[0], said[1]))
    sizes = Counter(frozenset(one) for one in persons.values()).values()
    few = sum(size for size in sizes if size < FEW)
    return EquivalenceClasses(len(persons), len(sizes), min(sizes, default=0), few)


@settings(deadline=None, max_examples=25)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from("ABCDEFGH"), st.sampled_from(["60", "61", None]), st.sampled_from(["F", None])
        ),
        max_size=25,
    )
)
def test_groups_match_a_manual_count(tmp_path_factory: object, rows: list[Row]) -> None:
    folder = tmp_path_factory.mktemp("t")  # type: ignore[attr-defined]
    path = table_of(folder, rows)
    told = QuasiIdentifiers(path, "who", ('a "quoted" name', "b"))
    assert equivalence_classes([told], FEW) == by_hand(rows)


def test_no_file_is_left_next_to_the_table(tmp_path: Path) -> None:
    path = table_of(tmp_path, [("A", "60", "F")])
    assert equivalence_classes([QuasiIdentifiers(path, "who", ("b",))], FEW) == EquivalenceClasses(1, 1, 1, 1)
    assert list(tmp_path.iterdir()) == [path]


def test_values_of_two_tables_about_a_patient_are_combined(tmp_path: Path) -> None:
    ages = table_of(
        tmp_path, [(who, age, None) for who, age in zip("ABCD", ("60", "60", "61", "61"), strict=True)]
    )
    sexes = table_of(tmp_path, [(who, None, sex) for who, sex in zip("ABCD", "FMFM", strict=True)], "u")
    alone = [
        equivalence_classes([QuasiIdentifiers(path, "who", ('a "quoted" name', "b"))], 2).smallest
        for path in (ages, sexes)
    ]
    together = equivalence_classes(
        [QuasiIdentifiers(path, "who", ('a "quoted" name', "b")) for path in (ages, sexes)], 2
    )
    assert (alone, together) == ([2, 2], EquivalenceClasses(4, 4, 1, 4))


def test_equal_values_of_two_tables_do_not_cancel(tmp_path: Path) -> None:
    rows: list[Row] = [("A", "60", "F"), ("B", "61", "M")]
    paths = [table_of(tmp_path, rows, name) for name in ("t", "u")]
    told = [QuasiIdentifiers(path, "who", ('a "quoted" name', "b")) for path in paths]
    assert equivalence_classes(told, FEW) == EquivalenceClasses(2, 2, 1, 2)


def test_folder_names_are_not_values_of_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "b=M" / "[t]*"
    folder.mkdir(parents=True)
    path = table_of(folder, [("A", None, "F"), ("B", None, "M")])
    assert equivalence_classes([QuasiIdentifiers(path, "who", ("b",))], FEW) == EquivalenceClasses(2, 2, 1, 2)
