"""The table that maps images to patients, read by training, evaluation and comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.kinds import kind_named, kind_of_view

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_FILE: Final = "no file named"
NO_PATIENT: Final = "no patient"
OUTSIDE: Final = "outside the image folder"
MISSING: Final = "image not found"
TWICE: Final = "listed twice"
TWO_PATIENTS: Final = "listed for two patients"


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """Column names of a table.

    Attributes
    ----------
    file
        Path of the image relative to the image folder, with forward slashes.
    patient_id
        Patient of the image: any text; equal texts are one patient.
    split
        Split of the row (``train``, ``test``, ...).
    view
        ViewPosition; the column is optional.
    offset_days
        Days since a fixed day, which may differ between patients; the column and its values are optional.
    kind
        Kind of the image, as `medsanitize.verifiers.reid.images.image.Modality`; the column is optional.
    series
        Series of a slice, such as of CT; the column is optional.
    """

    file: str = "file"
    patient_id: str = "patient_id"
    split: str = "split"
    view: str = "view"
    offset_days: str = "offset_days"
    kind: str = "kind"
    series: str = "series"


@dataclass(frozen=True, slots=True)
class Labels:
    """Rows of one split whose images exist, in the order of the table.

    Attributes
    ----------
    paths, patients, views
        One entry per image; an unknown view is empty.
    offset_days
        float64, shape (images,), NaN where unknown.
    extra
        The other columns of the table (``finding``, ...), one text per image.
    excluded
        Number of rows of the split that are left out, by reason.
    kinds, series
        What the table states of each image: None and empty where it does not.
    """

    paths: tuple[Path, ...]
    patients: tuple[str, ...]
    views: tuple[str, ...]
    offset_days: NDArray[np.float64]
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    excluded: Mapping[str, int] = field(default_factory=dict)
    kinds: tuple[Modality | None, ...] = ()
    series: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A table without these columns states nothing.
        if not self.kinds:
            object.__setattr__(self, "kinds", (None,) * len(self.paths))
        if not self.series:
            object.__setattr__(self, "series", ("",) * len(self.paths))

    def __len__(self) -> int:
        return len(self.paths)

    def of_kind(self, kind: Modality | None) -> Labels:
        """Return the rows with the kind that a command states, where the table states none."""
        return replace(self, kinds=tuple(one or kind for one in self.kinds))

    def keep(self, places: NDArray[np.intp], excluded: Mapping[str, int] | None = None) -> Labels:
        """Select rows, and add ``excluded`` to the counts of those left out.

        Parameters
        ----------
        places : array of int
            Indices of the rows to keep.
        excluded : mapping of str to int, optional
            Number of removed rows by reason.
        """
        chosen = [int(place) for place in places]
        return Labels(
            paths=tuple(self.paths[place] for place in chosen),
            patients=tuple(self.patients[place] for place in chosen),
            views=tuple(self.views[place] for place in chosen),
            offset_days=self.offset_days[places],
            extra={name: tuple(values[place] for place in chosen) for name, values in self.extra.items()},
            excluded=dict(sorted((Counter(self.excluded) + Counter(excluded or {})).items())),
            kinds=tuple(self.kinds[place] for place in chosen),
            series=tuple(self.series[place] for place in chosen),
        )


def read_labels(
    table: Path, root: Path, columns: LabelColumns | None = None, split: str | None = None
) -> Labels:
    """Read the rows of one split.

    Parameters
    ----------
    table : Path
        CSV with a header line (UTF-8), or Parquet.
    root : Path
        Image folder. Paths and links that lead outside it are never opened.
    columns : LabelColumns, optional
        Column names of the table.
    split : str, optional
        Value of the split column; all rows if omitted.

    Raises
    ------
    UsageError
        If the table cannot be read, lacks a column, has no row of the split, or has a day that is not a
        number.
    """
    columns = columns or LabelColumns()
    texts = read_table(table)
    _require(texts, columns, split)
    if not root.is_dir():
        raise UsageError("The image folder does not exist", "Pass the folder of the files in the table")
    chosen = _of_split(texts, columns, split)
    excluded: Counter[str] = Counter()
    found: dict[Path, int] = {}
    home = root.resolve()
    for row in chosen:
        path, reason = _image(home, texts[columns.file][row], texts[columns.patient_id][row])
        # Resolved paths: two spellings of one file are one image.
        if path is not None and path in found:
            same = texts[columns.patient_id][found[path]] == texts[columns.patient_id][row]
            path, reason = None, TWICE if same else TWO_PATIENTS
        if path is None:
            excluded[reason] += 1
        else:
            found[path] = row
    if not found:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(excluded.items()))
        raise UsageError(f"None of the images in the table was found ({reasons})", "Check the folder")
    return _labels(texts, columns, found, excluded)


def split_names(table: Path, columns: LabelColumns | None = None) -> tuple[str, ...]:
    """Return the sorted names of the splits of a table; raises like `read_labels`."""
    columns = columns or LabelColumns()
    texts = read_table(table)
    _require(texts, columns, "")
    return tuple(sorted(set(texts[columns.split]) - {""}))


def _image(home: Path, name: str, patient: str) -> tuple[Path | None, str]:
    """The image of a row, or the reason why there is none."""
    if not name:
        return None, NO_FILE
    if not patient:
        return None, NO_PATIENT
    relative = PurePosixPath(name)
    if relative.is_absolute() or "\0" in name:
        return None, OUTSIDE
    # Resolved before the check: a link inside the folder may point outside it.
    path = (home / relative).resolve()
    if not path.is_relative_to(home):
        return None, OUTSIDE
    # A slide may be a folder of files, such as DICOM.
    return (path, "") if path.exists() and path != home else (None, MISSING)


def _labels(
    texts: Mapping[str, list[str]], columns: LabelColumns, found: Mapping[Path, int], excluded: Counter[str]
) -> Labels:
    import numpy as np

    rows = list(found.values())
    known = {getattr(columns, one.name) for one in fields(columns)}
    absent = [""] * len(next(iter(texts.values())))
    days = texts.get(columns.offset_days, absent)
    views = texts.get(columns.view, absent)
    kinds, series = (texts.get(name, absent) for name in (columns.kind, columns.series))
    return Labels(
        paths=tuple(found),
        patients=tuple(texts[columns.patient_id][row] for row in rows),
        # Tables spell views in any case, DICOM in capitals.
        views=tuple(views[row].upper() for row in rows),
        offset_days=np.array([_day(days[row], row) for row in rows], dtype=np.float64),
        extra={
            name: tuple(values[row] for row in rows) for name, values in texts.items() if name not in known
        },
        excluded=dict(sorted(excluded.items())),
        kinds=tuple(kind_named(kinds[row]) or kind_of_view(views[row]) for row in rows),
        series=tuple(series[row] for row in rows),
    )


def _day(text: str, row: int) -> float:
    if not text:
        return math.nan
    try:
        return float(text)
    except ValueError:
        remedy = "Write days as numbers; leave the cell empty where they are unknown"
        raise UsageError(
            f"The days since the first image are not a number in row {row + 1}", remedy
        ) from None


def _of_split(texts: Mapping[str, list[str]], columns: LabelColumns, split: str | None) -> list[int]:
    rows = range(len(texts[columns.file]))
    chosen = [row for row in rows if split is None or texts[columns.split][row] == split]
    if not chosen:
        what = "The table has no rows" if split is None else "The table has no row of the requested split"
        raise UsageError(what, "Check the table and the name of the split")
    return chosen


def _require(texts: Mapping[str, list[str]], columns: LabelColumns, split: str | None) -> None:
    """Check for the required columns, and for every column whose name the caller changed."""
    needed = {"file": "the image", "patient_id": "the patient"}
    if split is not None:
        needed["split"] = "the split"
    for one in fields(columns):
        name = getattr(columns, one.name)
        # A renamed column must exist even where it is optional: a missing one is a typo.
        if name not in texts and (one.name in needed or name != one.default):
            meaning = needed.get(one.name, one.name)
            raise UsageError(
                f"The table has no column {name!r} for {meaning}",
                f"Add it, or pass the name of the column for {meaning}",
            )


def read_table(table: Path) -> dict[str, list[str]]:
    """Read all columns of a CSV or Parquet file as stripped texts; missing values are empty.

    Raises
    ------
    UsageError
        If the table cannot be read, or two of its columns have the same name.
    """
    import pyarrow as pa

    try:
        with table.open("rb") as file:
            parquet = file.read(4) == b"PAR1"
        found = _parquet(table) if parquet else _csv(table)
        if len(set(found.column_names)) < found.num_columns:
            raise UsageError("The table has two columns of the same name", "Rename one of them")
        return dict(_texts(found))
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError):
        remedy = "Use a CSV file with a header line, in UTF-8, or a Parquet file"
        raise UsageError("The table cannot be read", remedy) from None


def _csv(table: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    # The names first: pyarrow takes types by column name only.
    with pacsv.open_csv(table, read_options=pacsv.ReadOptions(block_size=2**24)) as reader:
        names = reader.schema.names
    # Without types pyarrow would read patient 007 as 7.
    options = pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    # Free text such as findings may contain line breaks.
    parse = pacsv.ParseOptions(newlines_in_values=True)
    return pacsv.read_csv(table, parse_options=parse, convert_options=options)


def _parquet(table: Path) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(table, page_checksum_verification=True) as file:
        return file.read()


def _texts(found: Any) -> Iterator[tuple[str, list[str]]]:
    import pyarrow as pa

    for name, column in zip(found.column_names, found.columns, strict=True):
        # A list or struct has no text form that two tables would agree on.
        if pa.types.is_nested(column.type):
            continue
        values = column.to_pylist()
        # value != value: NaN marks missing values in tables that pandas wrote.
        yield name, ["" if value is None or value != value else str(value).strip() for value in values]
