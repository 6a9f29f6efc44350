"""Single stages: engine, state, tables, audit gate, streaming, resolution."""

from __future__ import annotations

import contextlib
import csv
import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from types import ModuleType
from weakref import ReferenceType, ref

import pyarrow.parquet as pq
import pydicom
import pytest
from medsanitize.errors import EnvironmentFailure, KeyMaterialError, UsageError
from medsanitize.pipeline import run as run_module
from medsanitize.pipeline.engines.base import LocalEngine, WorkerCrashed
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.stages import audit
from medsanitize.pipeline.stages.tables import SMALL_ZIP_PREFIXES, write_ordered
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.shards import Shard
from medsanitize.pipeline.storage.sources import SourceProblem, open_source, stamp, walk
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation, Cancelled
from medsanitize.release.manifest import read_rows
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.pieces import OutFile
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.sanitize.result import Sanitized
from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

from tests.helpers.hospital import CANARIES, KEY, write_ct

ONE = Options(workers=1)
Workplace = Callable[..., Policy]
KEYS = derive_sub_keys(KEY, scope="project")


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "helpers")
    return import_module("engine_tasks")


@pytest.fixture
def setup(workplace: Workplace) -> Setup:
    return Setup(workplace(), KEYS, None, keep_links=False)


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_the_order_of_the_batches(setup: Setup, tasks: ModuleType, workers: int) -> None:
    with LocalEngine(setup, workers, Cancellation()) as engine:
        found = list(engine.map(tasks.double, ([number] for number in range(20))))
    assert found == [[2 * number] for number in range(20)]


def test_unordered_results_are_all_yielded_though_one_batch_is_slow(setup: Setup, tasks: ModuleType) -> None:
    batches = [[0.5], *([0.0] for _ in range(20))]
    with LocalEngine(setup, 2, Cancellation()) as engine:
        found = list(engine.map(tasks.take, batches, ordered=False))
    assert sorted(found) == [[0.0]] * 20 + [[0.5]]
    assert found[-1] == [0.5]  # nobody waited for it


def test_a_worker_crash_costs_only_its_item_in_any_order(setup: Setup, tasks: ModuleType) -> None:
    batches = ([number, number + 1] for number in range(0, 12, 2))
    with LocalEngine(setup, 2, Cancellation()) as engine:
        found = list(engine.map(tasks.die_of_seven, batches, ordered=False))
    died = [one.item for one in found if isinstance(one, WorkerCrashed)]
    lived = sorted(number for one in found if not isinstance(one, WorkerCrashed) for number in one)
    assert (died, lived) == ([7], [number for number in range(12) if number != 7])


@pytest.mark.parametrize(("asked", "told"), [({}, "1 None"), ({"OMP_NUM_THREADS": "3"}, "3 3")])
def test_workers_use_one_linear_algebra_thread_by_default(asked: dict[str, str], told: str) -> None:
    program = (
        "import os\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "from medsanitize.pipeline.engines.forkserver import fork_context\n"
        "name = 'OMP_NUM_THREADS'\n"
        "with ProcessPoolExecutor(1, fork_context()) as pool:\n"
        "    print(pool.submit(os.getenv, name).result(), os.getenv(name))\n"
    )
    plain = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", program], env=plain | asked, capture_output=True, text=True)
    assert done.stdout.strip() == told


def test_a_worker_crash_costs_only_its_item(setup: Setup, tasks: ModuleType) -> None:
    with LocalEngine(setup, 2, Cancellation()) as engine:
        found = list(engine.map(tasks.die_of_seven, ([number, number + 1] for number in range(0, 12, 2))))
    died = [one.item for one in found if isinstance(one, WorkerCrashed)]
    lived = sorted(number for one in found if not isinstance(one, WorkerCrashed) for number in one)
    assert (died, lived) == ([7], [number for number in range(12) if number != 7])


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_killed_idle_workers_block_nothing(setup: Setup, tasks: ModuleType, tmp_path: Path) -> None:
    with LocalEngine(setup, 3, Cancellation()) as engine:
        list(engine.map(tasks.write_slowly, ([tmp_path / str(number)] for number in range(6))))
        found = list(engine.map(tasks.kill_the_others, [[1]]))
    assert found == [[1]]


def test_a_worker_killed_while_sending_its_result_costs_only_its_item(
    setup: Setup, tasks: ModuleType
) -> None:
    batches = [[number, number + 1] for number in range(0, 12, 2)]
    with LocalEngine(setup, 2, Cancellation()) as engine:
        found = list(engine.map(tasks.die_in_the_middle_of_an_answer, batches))
    died = [one.item for one in found if isinstance(one, WorkerCrashed)]
    lived = sorted(number for one in found if not isinstance(one, WorkerCrashed) for number in one)
    assert (died, lived) == ([7], [number for number in range(12) if number != 7])


def test_the_queue_of_a_broken_pool_is_closed_once(
    setup: Setup, tasks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Connection._close

    def slowly(connection: Connection) -> None:
        if connection.writable:
            time.sleep(0.2)  # gives a second close the time to begin
        close(connection)

    monkeypatch.setattr(Connection, "_close", slowly)
    with LocalEngine(setup, 2, Cancellation()) as engine:
        found = list(engine.map(tasks.die_of_seven, [[6], [7], [8]]))
    assert [one.item if isinstance(one, WorkerCrashed) else one for one in found] == [[6], 7, [8]]


def test_repeated_worker_crashes_stop_the_run(setup: Setup, tasks: ModuleType) -> None:
    with (
        LocalEngine(setup, 1, Cancellation()) as engine,
        pytest.raises(EnvironmentFailure, match="keep crashing"),
    ):
        list(engine.map(tasks.die, ([number] for number in range(99)), isolate=True))


def test_cancellation_takes_effect_between_batches(setup: Setup, tasks: ModuleType) -> None:
    stop = Cancellation()
    seen = []
    with LocalEngine(setup, 1, stop) as engine:
        results = engine.map(tasks.double, ([number] for number in range(9)))
        seen.append(next(results))
        stop.number = 15
        with pytest.raises(Cancelled):
            next(results)
    assert seen == [[0]]


@pytest.mark.parametrize("workers", [1, 2])
def test_cancellation_takes_effect_between_items_of_a_batch(
    setup: Setup, tasks: ModuleType, tmp_path: Path, workers: int
) -> None:
    stop, items = Cancellation(), [tmp_path / f"item{number}" for number in range(100)]

    def ask_when_begun() -> None:
        while not items[1].exists():
            time.sleep(0.01)
        stop.number = 15

    asking = Thread(target=ask_when_begun, daemon=True)
    asking.start()
    with pytest.raises(Cancelled), LocalEngine(setup, workers, stop) as engine:
        list(engine.map(tasks.write_slowly, [items[place : place + 10] for place in range(0, 100, 10)]))
    asking.join()

    assert len([one for one in items if one.exists()]) <= 8 * workers


@pytest.mark.parametrize(("number", "expected"), [(15, Cancelled), (0, EnvironmentFailure)])
@pytest.mark.parametrize("step", ["__init__", "submit"])
def test_a_worker_that_cannot_be_started_stops_the_run(
    setup: Setup,
    tasks: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    number: int,
    expected: type[Exception],
) -> None:
    # A signal may end the process that workers are forked from before the run notices.
    stop = Cancellation()

    def fails(*_: object, **__: object) -> None:
        stop.number = number
        raise BrokenPipeError

    monkeypatch.setattr(f"medsanitize.pipeline.engines.base.ProcessPoolExecutor.{step}", fails)
    with LocalEngine(setup, 2, stop) as engine, pytest.raises(expected):
        next(engine.map(tasks.double, iter([[1]])))


def test_exhausted_resources_at_worker_start_are_reported(
    setup: Setup, tasks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "")

    monkeypatch.setattr("medsanitize.pipeline.engines.base.ProcessPoolExecutor.__init__", fails)
    with LocalEngine(setup, 2, Cancellation()) as engine, pytest.raises(EnvironmentFailure, match="ulimit"):
        next(engine.map(tasks.double, iter([[1]])))


def test_encrypted_values_open_only_with_their_key_and_purpose() -> None:
    seal = Seal(KEYS)
    sealed = seal.close(b"QUIXLEYVANE", b"path")
    assert b"QUIXLEYVANE" not in sealed
    assert seal.open(sealed, b"path") == b"QUIXLEYVANE"
    for other, purpose in ((Seal(derive_sub_keys(KEY, scope="release:x")), b"path"), (seal, b"known")):
        with pytest.raises(KeyMaterialError):
            other.open(sealed, purpose)


def test_secrets_have_no_repr(setup: Setup) -> None:
    with contextlib.closing(State(None, KEYS)) as state:
        assert repr(KEYS.state) not in repr(setup) + repr(Seal(KEYS)) + repr(state)


def test_a_transaction_is_atomic(tmp_path: Path) -> None:
    with contextlib.closing(State(tmp_path / "s.sqlite", KEYS)) as state:
        with contextlib.suppress(ZeroDivisionError), state.transaction():
            state.put("one", "1")
            raise ZeroDivisionError
        assert state.get("one") is None


def test_the_walk_is_sorted_by_bytes_and_follows_no_links(tmp_path: Path) -> None:
    for name in (b"b", b"a/z", b"a/\xff"):
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/in/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    (tmp_path / "in" / "c").symlink_to(tmp_path)
    found = [(one.path.rpartition(b"/in/")[2], one.sort) for one in walk((tmp_path / "in",))]
    assert found == [(b"a/z", "file"), (b"a/\xff", "file"), (b"b", "file"), (b"c", "link")]


def test_a_source_replaced_by_a_pipe_does_not_block(tmp_path: Path) -> None:
    seal = Seal(KEYS)
    os.mkfifo(tmp_path / "pipe")
    path = os.fsencode(tmp_path / "pipe")
    with pytest.raises(SourceProblem), open_source(path, seal, stamp(seal, 0, (0, 0, 0))):
        pass


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/1000000"])
def test_a_malformed_shard_is_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        Shard.parse(text)


# -- whole runs ---------------------------------------------------------------------------


def test_a_leak_fails_the_whole_release(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    original = DicomSanitizer.__call__

    def leaking(self: DicomSanitizer, data: bytes, context: object) -> Sanitized:
        done = original(self, data, context)  # type: ignore[arg-type]
        if done.record.modality != "CT":
            return done
        old = done.record.patient.encode().ljust(16)
        pieces = [piece for piece in done.files[0].pieces if isinstance(piece, bytes)]
        leak = CANARIES[0].encode().ljust(len(old))
        joined = b"".join(pieces)
        place = joined.rindex(b"\x10\x00\x20\x00")
        file = OutFile(".dcm", (joined[:place] + joined[place:].replace(old, leak),))
        return Sanitized(done.record, (file,), done.links)

    monkeypatch.setattr(DicomSanitizer, "__call__", leaking)
    policy = workplace()
    result = run(policy, ONE)
    told = (policy.state / "audit.json").read_text() + (policy.state / "report.html").read_text()
    assert (result.ending, result.exit_code, result.release) == ("refused", 3, None)
    assert [gate.result for gate in result.gates if gate.name == "residual identifiers"] == ["failed"]
    assert not (policy.output / "RELEASE.json").exists()
    assert json.loads((policy.state / "audit.json").read_text())["findings"]
    assert CANARIES[0] not in told


def test_the_identifier_search_is_deleted_before_publication(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    nets: list[ReferenceType[IdentifierSearch]] = []
    build, publish = audit.build_search, run_module.publish

    def noted(*given: object) -> IdentifierSearch:
        net = build(*given)
        nets.append(ref(net))
        return net

    def publish_without(*given: object) -> None:
        assert [net() for net in nets] == [None]
        publish(*given)

    monkeypatch.setattr(audit, "build_search", noted)
    monkeypatch.setattr(run_module, "publish", publish_without)
    assert run(workplace(), ONE).ending == "published"


def test_a_defect_in_the_object_function_quarantines_the_object(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = DicomSanitizer.__call__

    def failing(self: DicomSanitizer, data: bytes, context: object) -> Sanitized:
        if len(data) % 2 == 0 and b"RTPLAN" in data:
            raise ValueError(CANARIES[0])
        return original(self, data, context)  # type: ignore[arg-type]

    monkeypatch.setattr(DicomSanitizer, "__call__", failing)
    assert run(workplace(), ONE).quarantined["internal-error"] == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_large_pixels_are_streamed_unchanged(workplace: Workplace, workers: int) -> None:
    policy = workplace()
    shutil.rmtree(policy.inputs[0])
    pixels = bytes(range(256)) * (1024 * 48)
    changes = {"NumberOfFrames": 48, "Rows": 512, "Columns": 256, "PixelData": pixels}
    write_ct(policy.inputs[0] / "large", 1, **changes)
    assert run(policy, Options(workers=workers)).outcomes["released"] == 1
    (released,) = (policy.output / "data").rglob("*.dcm")
    assert pydicom.dcmread(released).PixelData == pixels


def test_objects_without_uids_do_not_depend_on_their_location(workplace: Workplace) -> None:
    digests = []
    for name in ("first", "second"):
        policy = workplace(name)
        shutil.rmtree(policy.inputs[0])
        path = write_ct(policy.inputs[0] / name / "x", 1)
        data = pydicom.dcmread(path)
        for keyword in ("SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID", "PatientID"):
            setattr(data, keyword, "")
        data.save_as(path, enforce_file_format=False)
        assert run(policy, ONE).outcomes["released"] == 1
        digests.append([row.sha256 for row in read_rows(policy.output)])
    assert digests[0] == digests[1]


# -- tables -------------------------------------------------------------------------------


def write_table(path: Path) -> None:
    rows = [
        ("pid", "study", "when", "age", "zip", "finding", "note", "ssn"),
        (f"{CANARIES[1]}0", "1.2.3", "2004-01-19", "93", "90210", "nodule", "seen", "123-45-6789"),
        (f" {CANARIES[1]}1", "1.2.3", "20040120", "41", "03601", "none", f"call {CANARIES[0].lower()}", "1"),
        (f"{CANARIES[1]}1", "", "soon", "old", "9021", "", "", "2"),
        ("SOMEBODY-ELSE", "1.2.3", "2004-01-19", "50", "90210", "nodule", "", "3"),
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


TABLE = (
    "[{name: labels, file: ./labels.csv, patient: pid, study: study, dates: [when], ages: [age],"
    " zip_codes: [zip], keep: [finding, note]}]"
)


def released_table(workplace: Workplace, **sections: str) -> tuple[list[dict[str, str | None]], Policy]:
    policy = workplace(tables=TABLE, **sections)
    write_table(policy.output.parent / "labels.csv")
    run(policy, ONE)
    return pq.read_table(policy.output / "tables" / "labels.parquet").to_pylist(), policy


def test_tables_keep_only_named_columns_and_released_patients(workplace: Workplace) -> None:
    rows, policy = released_table(workplace)
    assert list(rows[0]) == ["pid", "study", "when", "age", "zip", "finding", "note"]
    assert {row["pid"] for row in rows} <= {path.name for path in (policy.output / "data").iterdir()}
    assert len(rows) == 3


def test_tables_reduce_ages_zip_codes_and_cells_that_name_the_patient(workplace: Workplace) -> None:
    rows, policy = released_table(workplace)
    by_age = {row["age"]: row for row in rows}
    assert set(by_age) == {"90", "41", None}
    assert (by_age["90"]["zip"], by_age["41"]["zip"], by_age[None]["zip"]) == ("902", "000", None)
    assert (by_age["90"]["note"], by_age["41"]["note"]) == ("seen", None)
    notes = json.loads((policy.state / "audit.json").read_text())["tables"]["labels"]
    assert notes == {"cells": 2, "rows_dropped": 1}


def test_k_anonymity_of_a_table_is_a_gate(workplace: Workplace) -> None:
    _, policy = released_table(workplace)
    gates = json.loads((policy.state / "audit.json").read_text())["gates"]
    gate = next(gate for gate in gates if gate["name"] == "k-anonymity")
    assert gate["result"] == "flagged"
    assert "patients are in groups of fewer than 5" in gate["detail"]
    assert not [path for path in (policy.output / "tables").iterdir() if path.name != "labels.parquet"]


def k_anonymity(policy: Policy) -> str:
    gates = json.loads((policy.state / "audit.json").read_text())["gates"]
    return str(next(gate["result"] for gate in gates if gate["name"] == "k-anonymity"))


def test_a_policy_can_refuse_small_groups(workplace: Workplace) -> None:
    policy = workplace(tables=TABLE, k_anonymity="{k: 2, action: fail}")
    write_table(policy.output.parent / "labels.csv")
    assert run(policy, ONE).ending == "refused"
    assert k_anonymity(policy) == "failed"
    assert not (policy.output / "RELEASE.json").exists()


def test_a_table_without_released_patients_has_no_groups(workplace: Workplace) -> None:
    policy = workplace(tables=TABLE)
    (policy.output.parent / "labels.csv").write_text(
        "pid,study,when,age,zip,finding,note\nSOMEBODY-ELSE,1.2.3,2004-01-19,50,90210,nodule,\n"
    )
    run(policy, ONE)
    assert k_anonymity(policy) == "not_run"


def test_a_table_is_sorted_by_its_content(workplace: Workplace) -> None:
    rows, _ = released_table(workplace)
    order = [tuple((value is not None, value or "") for value in row.values()) for row in rows]
    assert order == sorted(order)


def test_folder_names_are_not_values_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "sex=M" / "[a]*" / "t.parquet"
    write_ordered(path, ["who", "sex"], iter([("B", "F"), ("A", "F")]))
    assert pq.ParquetFile(path).read().to_pylist() == [{"who": "A", "sex": "F"}, {"who": "B", "sex": "F"}]


def test_tables_shift_dates_like_the_images(workplace: Workplace) -> None:
    rows, policy = released_table(workplace, preset="research", pixels="{at_risk: release}")
    dates = {row["pid"]: row["when"] for row in rows if row["when"]}
    for path in (policy.output / "data").rglob("*.dcm"):
        data = pydicom.dcmread(path, stop_before_pixels=True)
        if data.PatientID in dates and data.Modality == "CT":
            moved = pydicom.valuerep.DA(data.StudyDate)
            stated = pydicom.valuerep.DA(dates[data.PatientID])
            assert abs((moved - stated).days) <= 1  # the study date is 2004-01-19


def test_tables_move_dates_and_times_like_the_images(workplace: Workplace) -> None:
    table = "[{name: events, file: ./events.csv, patient: pid, dates: [day], times: {at: day}}]"
    policy = workplace(
        preset="research", pixels="{at_risk: release}", dicom="{dates: {times: shift}}", tables=table
    )
    stated = [("20040119", "00:00:01"), ("2004-01-19 23:59:59", ""), ("2004-01-19", "23:59:59.25")]
    with (policy.output.parent / "events.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("pid", "day", "at"), *((f"{CANARIES[1]}0", *row) for row in stated)])

    run(policy, ONE)

    rows = pq.read_table(policy.output / "tables" / "events.parquet").to_pylist()
    early, late = sorted((row["day"] + row["at"] for row in rows if row["at"]), key=len)
    apart = datetime.strptime(late, "%Y%m%d%H%M%S.%f") - datetime.strptime(early, "%Y%m%d%H%M%S")
    assert apart.total_seconds() == 86_398.25
    assert [row["day"] for row in rows if not row["at"]] == [late[:8]]
    assert early[8:] != "000001"


@pytest.mark.parametrize(("times", "found"), [("keep", True), ("shift", False), ("remove", False)])
def test_the_report_counts_objects_whose_times_lead_to_the_source(
    times: str, found: bool, workplace: Workplace
) -> None:
    policy = workplace(preset="research", pixels="{at_risk: release}", dicom=f"{{dates: {{times: {times}}}}}")

    run(policy, ONE)

    page = (policy.output / "report.html").read_text()
    assert "Times of day: of" in page
    assert ("The times of 0 still lead" in page) is not found


def test_tables_map_uids_like_the_images(workplace: Workplace) -> None:
    rows, _ = released_table(workplace)
    assert {str(row["study"]).startswith("2.25.") for row in rows if row["study"]} == {True}


def test_a_table_without_its_columns_is_rejected_before_reading(workplace: Workplace) -> None:
    policy = workplace(tables="[{name: labels, file: ./labels.csv, patient: nobody}]")
    write_table(policy.output.parent / "labels.csv")
    with pytest.raises(UsageError, match="no column nobody"):
        run(policy, ONE)
    assert not list(policy.state.glob("*.sqlite"))


def test_the_small_zip_areas_are_the_seventeen_of_the_guidance() -> None:
    assert len(SMALL_ZIP_PREFIXES) == 17
