"""The stage tables: maps IDs of accompanying tables, shifts dates per patient, and keeps listed columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from medsanitize.errors import UsageError
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.merged_patients import patient_with
from medsanitize.pipeline.state.patients import (
    known_of,
    patient_of,
    patients_with_id,
    released_pseudonym,
    studies_of,
)
from medsanitize.pipeline.state.result_types import TableNotes
from medsanitize.pipeline.state.stage_results import GROUPS, TABLE_NOTES
from medsanitize.policies.model import Dates, Options, TextSection
from medsanitize.policies.tables_section import KAnonymity, TableSection
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.duckdb_session import duckdb_session, sorted_rows
from medsanitize.release.layout import TABLES
from medsanitize.release.summary import GateSummary, TableSummary
from medsanitize.sanitize.dicom.dates import (
    Shift,
    days_carried,
    patient_shift,
    shift_date,
    shift_time,
    year_of_date,
)
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.text.deny_list import deny_list_of

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.k_anonymity import EquivalenceClasses

SMALL_ZIP_PREFIXES = frozenset(
    (
        "036",
        "059",
        "063",
        "102",
        "203",
        "556",
        "692",
        "790",
        "821",
        "823",
        "830",
        "831",
        "878",
        "879",
        "884",
        "890",
        "893",
    )
)
"""Three-digit ZIP areas of 20,000 people or fewer (HHS guidance on 45 CFR 164.514(b), 2000 census)."""
_BATCH_ROWS = 8192
_UNORDERED = ".unordered.parquet"
# 45 CFR 164.514(b)(2)(i)(C): all ages over 89 become one category.
_MAX_AGE = 89
# One or two letters occur in most texts.
_MIN_TOKEN_LENGTH = 3


@dataclass(frozen=True, slots=True, repr=False)
class Person:
    """A released patient: pseudonym, shift of dates and times, and case-folded identifiers to blank."""

    pseudonym: str
    shift: Shift
    tokens: frozenset[str]

    def __repr__(self) -> str:
        return "Person(...)"


@dataclass(frozen=True, slots=True)
class TablesStage(Stage):
    """Write the accompanying tables, pseudonymized as the images are."""

    tables: tuple[TableSection, ...]
    options: Options
    dates: Dates
    uid_root: str | None
    k_anonymity: KAnonymity
    text: TextSection = field(default=TextSection(), repr=False)

    name: ClassVar = "tables"
    phase: ClassVar[Phase] = "documents"
    invalidated_by: ClassVar = frozenset({"sanitize", "synthesize"})

    def check(self) -> None:
        """Refuse tables that cannot be used."""
        check_tables(self.tables)

    def pending(self, state: State) -> int | None:
        """Return 0 without tables, else None, since every run writes them again."""
        return None if self.tables else 0

    def run(self, context: RunContext, advance: Advance) -> None:
        """Write the tables, and measure the k-anonymity of the patients in them."""
        context.tables = write_tables(self, context.state, context.subkeys, context.staged)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide the gate on small groups of patients."""
        return (k_anonymity_gate(judged.state, self.k_anonymity, judged.tally.patients),)


def write_tables(
    rules: TablesStage, state: State, subkeys: SubKeys, staging: Path
) -> tuple[TableSummary, ...]:
    """Write ``tables/NAME.parquet`` for every table of the policy, and store the equivalence classes.

    Rows of patients who are not in the release are dropped. Rows are sorted by content, so the order of the
    source is not released.

    Parameters
    ----------
    rules : TablesStage
        The settings of the stage.
    state : State
        The state of the run; gives the released patients.
    subkeys : SubKeys
        Keys of pseudonyms and date shifts.
    staging : Path
        The staging folder.

    Raises
    ------
    UsageError
        A table cannot be read, or a column is missing.
    """
    import shutil

    folder = staging / TABLES
    with storage_errors():
        if folder.exists():
            shutil.rmtree(folder)
    written = tuple(_write_one(rules, state, subkeys, table, folder) for table in rules.tables)
    if groups := _groups(rules, folder):
        GROUPS.store(state, groups)
    return written


def released_rows(state: State, table: TableSection, column: str) -> Iterator[tuple[str, str]]:
    """Yield pseudonym and value of a column for each row of a released patient; empty for no value.

    Parameters
    ----------
    state : State
        Gives the released patients.
    table : TableSection
        The accompanying table.
    column : str
        A column of its file, which need not be released.
    """
    read = table_with(table, column)
    find = lru_cache(maxsize=4096)(partial(_released, state))
    for row in _rows(read):
        issuer = (row.get(read.issuer) or "").strip() if read.issuer else None
        pseudonym = find((row[read.patient] or "").strip(), issuer)
        if pseudonym is not None:
            yield pseudonym, (row[column] or "").strip()


def table_with(table: TableSection, column: str) -> TableSection:
    """Return the table with its patients and this column only."""
    return TableSection(
        name=table.name, file=table.file, patient=table.patient, issuer=table.issuer, keep=(column,)
    )


def _released(state: State, identifier: str, issuer: str | None) -> str | None:
    name = _patient_named(state, identifier, issuer)
    return None if name is None else released_pseudonym(state, name)


def _patient_named(state: State, identifier: str, issuer: str | None) -> bytes | None:
    """Return the patient with this ID; without an issuer the ID must be unambiguous."""
    if not identifier:
        return None
    if issuer is not None:
        return patient_with(state, issuer, identifier)
    names = patients_with_id(state, identifier)
    return names[0] if len(names) == 1 else None


def check_tables(tables: Sequence[TableSection]) -> None:
    """Check that all tables can be read and have the columns that the policy names.

    Raises
    ------
    UsageError
        A table cannot be read, or a column is missing.
    """
    for table in tables:
        columns = set(_columns(table))
        wanted = set(_named_columns(table))
        if missing := sorted(wanted - columns):
            raise UsageError(
                f"tables: {table.name} has no column {', '.join(missing)}",
                "Correct the column names in the policy",
            )


def _named_columns(table: TableSection) -> list[str]:
    ids = [table.patient, table.issuer, table.study, table.instance, table.accession]
    return list(
        dict.fromkeys(
            [
                *(name for name in ids if name),
                *table.dates,
                *table.times,
                *table.ages,
                *table.zip_codes,
                *table.keep,
            ]
        )
    )


def _columns(table: TableSection) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if table.file.suffix == ".parquet":
            return list(pq.read_schema(table.file).names)
        with table.file.open(encoding="utf-8-sig", newline="") as file:
            import csv

            return next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, pa.ArrowException):
        raise UsageError(
            f"tables: {table.name} cannot be read", "Give a CSV in UTF-8 or a Parquet file"
        ) from None


def _rows(table: TableSection) -> Iterator[dict[str, str | None]]:
    """Yield the rows of a table, every value as text; the table is read in batches."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
    from medsanitize.release.parquet_io import read_record_batches

    wanted = _named_columns(table)
    try:
        if table.file.suffix == ".parquet":
            with pq.ParquetFile(table.file) as file:
                for batch in read_record_batches(file, _BATCH_ROWS, wanted):
                    columns = {name: pc.cast(batch.column(name), pa.string()).to_pylist() for name in wanted}
                    yield from _transposed(columns, batch.num_rows)
        else:
            options = pacsv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=True,
            )
            with pacsv.open_csv(table.file, convert_options=options) as reader:
                for batch in reader:
                    columns = {name: batch.column(name).to_pylist() for name in wanted}
                    yield from _transposed(columns, batch.num_rows)
    except (OSError, pa.ArrowException):
        raise UsageError(
            f"tables: {table.name} cannot be read", "Give a CSV in UTF-8 or a Parquet file"
        ) from None


def _transposed(columns: dict[str, list[str | None]], rows: int) -> Iterator[dict[str, str | None]]:
    for number in range(rows):
        yield {name: values[number] for name, values in columns.items()}


def _write_one(
    rules: TablesStage, state: State, subkeys: SubKeys, table: TableSection, folder: Path
) -> TableSummary:
    mapper = _Mapper(rules, state, subkeys, table)
    rows = (row for row in map(mapper.row, _rows(table)) if row is not None)
    count = write_ordered(folder / f"{table.name}.parquet", mapper.columns, rows)
    notes = TABLE_NOTES.load(state) or {}
    TABLE_NOTES.store(state, {**notes, table.name: TableNotes(mapper.blanked, mapper.dropped)})
    return TableSummary(table.name, f"{TABLES}/{table.name}.parquet", count, tuple(mapper.columns))


def write_ordered(path: Path, columns: Sequence[str], rows: Iterator[Sequence[str | None]]) -> int:
    """Write rows of texts, sorted by content with nulls first.

    Parameters
    ----------
    path : Path
        The Parquet file to write.
    columns : sequence of str
        Names of the columns.
    rows : iterator of sequence of (str or None)
        The rows, in any order.

    Returns
    -------
    int
        The number of rows.
    """
    # Sorted on disk by DuckDB, because a table need not fit into memory.
    waiting = path.with_name(_UNORDERED)
    with storage_errors():
        path.parent.mkdir(parents=True, exist_ok=True)
        count = _write_parquet(waiting, columns, iter(lambda: list(islice(rows, _BATCH_ROWS)), []))
        with duckdb_session(path.parent) as db:
            _write_parquet(path, columns, sorted_rows(db, waiting, columns, _BATCH_ROWS))
        waiting.unlink()
    return count


def _write_parquet(
    path: Path, columns: Sequence[str], parts: Iterable[Sequence[Sequence[str | None]]]
) -> int:
    """Write one row group per part, in the given order; return the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from medsanitize.release.parquet_io import make_array

    schema: pa.Schema = pa.schema([pa.field(name, pa.string()) for name in columns])
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as writer:
        for part in parts:
            arrays = [make_array([row[number] for row in part], pa.string()) for number in range(len(schema))]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            count += len(part)
    return count


def _groups(rules: TablesStage, folder: Path) -> EquivalenceClasses | None:
    """Return the equivalence classes of the patients by their values in all tables, or None."""
    from medsanitize.verifiers.leaks.k_anonymity import QuasiIdentifiers, equivalence_classes

    # Shifted dates and times are not measured: the secret shift of each patient changes them.
    kept = rules.options.retain_longitudinal_full_dates or rules.dates.method == "year"
    times_kept = rules.options.retain_longitudinal_full_dates or rules.dates.times == "keep"
    told = []
    for table in rules.tables:
        dated = (*(table.dates if kept else ()), *(table.times if times_kept else ()))
        said = (*dated, *table.ages, *table.zip_codes, *table.keep)
        if said:
            path = folder / f"{table.name}.parquet"
            told.append(QuasiIdentifiers(path, table.patient, tuple(dict.fromkeys(said))))
    return equivalence_classes(told, rules.k_anonymity.k) if told else None


class _Mapper:
    """Maps the rows of one table to rows that may be released, and counts removed cells and rows."""

    def __init__(self, rules: TablesStage, state: State, subkeys: SubKeys, table: TableSection) -> None:
        self.rules, self.state, self.subkeys, self.table = rules, state, subkeys, table
        self.columns = _named_columns(table)
        if table.issuer:
            self.columns.remove(table.issuer)
        self._times = {date: time for time, date in table.times.items()}
        self.blanked = 0
        self.dropped = 0
        self._person = lru_cache(maxsize=4096)(self._find)
        self._denied = deny_list_of(rules.text) if rules.text.deny_list else None

    def row(self, row: dict[str, str | None]) -> tuple[str | None, ...] | None:
        """Return the mapped row, or None if its patient is not in the release."""
        issuer = (row.get(self.table.issuer) or "").strip() if self.table.issuer else None
        person = self._person((row[self.table.patient] or "").strip(), issuer)
        if person is None:
            self.dropped += 1
            return None
        return tuple(self._cell(person, name, row[name], row) for name in self.columns)

    def _cell(self, person: Person, name: str, value: str | None, row: dict[str, str | None]) -> str | None:
        table = self.table
        text = (value or "").strip()
        if name == table.patient:
            return person.pseudonym
        if not text:
            return None
        if name in (table.study, table.instance):
            return self._uid(text)
        if name == table.accession:
            return _pseudonym(self.subkeys, "accession", text)
        if name in table.dates:
            return self._date(person, text, row.get(self._times.get(name, "")))
        if name in table.times:
            return self._time(person, text)
        if name in table.ages:
            return _age(text)
        if name in table.zip_codes:
            return _zip(text)
        return self._kept(person, text)

    def _uid(self, text: str) -> str | None:
        from medsanitize.sanitize.pseudonyms import remap_uid

        if not re.fullmatch(r"[0-9.]{1,64}", text):
            self.blanked += 1
            return None
        if self.rules.options.retain_uids:
            return text
        return remap_uid(self.subkeys, self.rules.uid_root, text)

    def _date(self, person: Person, text: str, time: str | None) -> str | None:
        """Return the date as YYYYMMDD, shifted or cut to its year as in the images, or None.

        ``time`` is the cell of its time of day, which may also follow the date in its own cell.
        """
        options, dates = self.rules.options, self.rules.dates
        day = text[:10].replace("/", "-")
        if options.retain_longitudinal_full_dates:
            return shift_date(day, 0)
        if dates.method == "year":
            year = year_of_date(day)
            return year[:4] if year else None
        clock = _clock(time or text[10:].lstrip("T "))
        moved = shift_date(day, person.shift.days + days_carried(clock, person.shift.seconds))
        self.blanked += moved is None
        return moved

    def _time(self, person: Person, text: str) -> str | None:
        """Return the time of day as in the images, or None."""
        times = self.rules.dates.times
        full = self.rules.options.retain_longitudinal_full_dates
        if times == "remove":
            return None
        moved = shift_time(_clock(text), person.shift.seconds if times == "shift" and not full else 0)
        self.blanked += moved is None
        return moved

    def _kept(self, person: Person, text: str) -> str | None:
        """Return the text, or None if it contains an identifier of its patient or a never-word."""
        folded = text.casefold()
        denied = self._denied is not None and self._denied.spans(text)
        if denied or any(token in folded for token in person.tokens):
            self.blanked += 1
            return None
        return text

    def _find(self, identifier: str, issuer: str | None) -> Person | None:
        """Return the released patient with this ID."""
        name = _patient_named(self.state, identifier, issuer)
        pseudonym = None if name is None else released_pseudonym(self.state, name)
        if name is None or pseudonym is None:
            return None
        shift = patient_shift(self.subkeys, patient_of(self.state, name).key, self.rules.dates)
        return Person(pseudonym, shift, self._tokens(name))

    def _tokens(self, patient: bytes) -> frozenset[str]:
        """Return the known identifiers of a patient over all studies, case-folded."""
        found: set[str] = set()
        for study in studies_of(self.state, patient):
            for known in known_of(self.state, patient, study):
                found.add(known.value.strip().casefold())
                if known.category == "name":
                    found.update(part.casefold() for part in re.findall(r"[^\W\d_]+", known.value))
        return frozenset(token for token in found if len(token) >= _MIN_TOKEN_LENGTH)


def _pseudonym(subkeys: SubKeys, purpose: str, text: str) -> str:
    from medsanitize.sanitize.pseudonyms import keyed_mac

    return keyed_mac(subkeys.patient, purpose, text)[:12].hex()


def _clock(text: str) -> str:
    """Return a time of day without the offset from UTC that may follow it: every offset moves alike."""
    return re.sub(r"\s*(?:Z|[+-]\d\d:?\d\d)$", "", text.strip())


def _age(text: str) -> str | None:
    match = re.fullmatch(r"0*(\d{1,3})(?:\.\d*)?(?:\s*[yY](?:ears?)?)?", text)
    if match is None:
        return None
    years = int(match[1])
    return str(90 if years > _MAX_AGE else years)


def _zip(text: str) -> str | None:
    match = re.fullmatch(r"(\d{3})\d{2}(?:-?\d{4})?", text)
    if match is None:
        return None
    # 45 CFR 164.514(b)(2)(i)(B): the first three digits become 000 where few people live.
    return "000" if match[1] in SMALL_ZIP_PREFIXES else match[1]


def k_anonymity_gate(state: State, rules: KAnonymity, patients: int = 0) -> GateSummary:
    """Decide the k-anonymity gate of ``patients`` released ones from the stored equivalence classes."""
    found = GROUPS.load(state)
    if found is None or not found.patients:
        detail = "Disclosure risk by rare combinations was not measured."
        return GateSummary("k-anonymity", "not_run", detail, 0, patients, "patients")
    detail = (
        f"{found.patients} patients in {found.groups} groups by the values of the tables, the smallest"
        f" of {found.smallest}; {found.few} patients are in groups of fewer than {rules.k}."
        " Shifted dates in tables, headers and images were not measured."
    )
    scope = (found.patients, max(patients, found.patients), "patients")
    if not found.few:
        return GateSummary("k-anonymity", "passed", detail, *scope)
    if rules.action == "fail":
        return GateSummary("k-anonymity", "failed", f"{detail} The policy allows none.", *scope)
    return GateSummary("k-anonymity", "flagged", detail, *scope)
