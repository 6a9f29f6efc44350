"""State, manifests, registry and tables with many objects: rows only, no images.

    python benchmarks/rows.py OUT [--rows 1000000]

Fills the state of a run with rows as after the sanitize stage (every hundredth has the pixels of another
object), and runs the set operations of a run: conflict checks, duplicates, both manifests, the registry and a
look-up of every row in it, a sorted table of equally many rows, and its k-anonymity groups. Exits 1 above 4
GB of memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from common import fresh, machine, table
from medsanitize.pipeline.engines.worker import Setup, Worker
from medsanitize.pipeline.sequence import earlier_releases, manifests_stage
from medsanitize.pipeline.stages.conflicts import finish_contests, settle_contests
from medsanitize.pipeline.stages.deduplicate import judge_duplicates
from medsanitize.pipeline.stages.manifests import write_manifests
from medsanitize.pipeline.stages.tables import write_ordered
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.records import seal_record
from medsanitize.policies.load import load
from medsanitize.policies.model import Policy
from medsanitize.release import layout
from medsanitize.release.manifest import read_objects
from medsanitize.release.registry import DATABASE, Registry
from medsanitize.sanitize.pseudonyms import SubKeys, derive_sub_keys
from medsanitize.sanitize.result import CheckResult, ObjectRecord, Outcome
from medsanitize.verifiers.leaks.k_anonymity import QuasiIdentifiers, equivalence_classes

OBJECTS_OF_A_STUDY = 100
MOST = 4096
RULES = {"U:uid": 9, "X:private": 31, "Z:basic": 5, "X:basic": 12, "D:basic": 2, "C:cleaned": 3}
INSERT = (
    "INSERT INTO objects (id, size, stamp, kind, patient, study, sop, identified, outcome,"
    " p_patient, p_study, p_series, p_instance,"
    " bytes, sha256, native, audited, source, payload, staged, pixels_check, pixels)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def synthetic(worker: Worker, count: int) -> Iterator[tuple[object, ...]]:
    """Yield rows of released objects, a hundred per study, ten studies per patient."""
    for number in range(count):
        study = number // OBJECTS_OF_A_STUDY
        patient = sha256(b"p%d" % (study // 10)).hexdigest()[:16].upper()
        uids = [f"2.25.{int.from_bytes(sha256(name).digest()[:16], 'big')}" for name in _names(study, number)]
        record = ObjectRecord(
            Outcome.RELEASED,
            "dicom",
            rules=RULES,
            modality="CT",
            sop_class="1.2.840.10008.5.1.4.1.1.2",
            transfer_syntax="1.2.840.10008.1.2.1",
            rows=512,
            columns=512,
            pixels=CheckResult.PASSED,
        )
        digest = sha256(b"%d" % number).digest()
        keyed = (digest[:16], digest[8:24], digest[16:])
        names = (patient, *uids)
        sealed = worker.seal.close(b"/export/%08d.dcm" % number, b"source")
        yield (
            *(number, 527_000, digest[:16], "dicom", *keyed, 1, "released", *names),
            *(527_000, digest, 1, 1, sealed, seal_record(worker.seal, record), 1, 1, _pixels(number)),
        )


def _pixels(number: int) -> bytes:
    """Every hundredth object has the pixels of the one before."""
    # One percent of duplicates, so that the deduplicate stage has groups to decide.
    return sha256(b"%d" % (number - (number % 100 == 99))).digest()[::-1]


def table_rows(count: int) -> Iterator[tuple[str | None, ...]]:
    """Rows of a table, ten per patient: patient, age, area, finding."""
    for number in range(count):
        chance = sha256(b"row%d" % number).digest()
        patient = sha256(b"p%d" % (number // 10)).hexdigest()[:16].upper()
        age, area = f"{20 + number // 10 * 7919 % 70}", f"{number // 10 * 104729 % 1000:03d}"
        yield patient, age, area, f"finding {chance[1] % 20}" if chance[0] > 24 else None


def _names(study: int, number: int) -> tuple[bytes, bytes, bytes]:
    return b"study%d" % study, b"series%d" % study, b"instance%d" % number


def timed(work: Callable[[], object]) -> float:
    """Wall time of ``work`` in seconds."""
    before = time.monotonic()
    work()
    return time.monotonic() - before


def fill(state: State, worker: Worker, count: int) -> None:
    """Write the rows in transactions of the size that a run uses."""
    batch = []
    for row in synthetic(worker, count):
        batch.append(row)
        # About as many as a run commits at a time; larger transactions would be faster.
        if len(batch) == 512:
            state.write(INSERT, batch)
            state.count_written(len(batch))
            batch = []
    state.write(INSERT, batch)
    state.commit()


def prepared(out: Path) -> tuple[Policy, SubKeys]:
    """Make a policy and keys for the rows."""
    (out / "release.key").write_bytes(bytes((7 * place + 11) % 256 for place in range(64)))
    (out / "release.key").chmod(0o600)
    (out / "policy.yaml").write_text(
        'version: 1\npreset: ps3.15-basic\nrelease: {name: rows, version: "1.0", mode: pseudonymous}\n'
        "inputs: [./export]\noutput: ./release\nstate: ./state\nkeys: {file: ./release.key}\n"
    )
    (out / "export").mkdir()
    return load(out / "policy.yaml"), derive_sub_keys(
        (out / "release.key").read_bytes(), scope="release:rows"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill, write, read, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    out = fresh(given.out)
    policy, subkeys = prepared(out)
    worker = Worker(Setup(policy, subkeys, None, False))
    state = State(out / "state.sqlite", subkeys)
    done: dict[str, tuple[float, float]] = {}

    def do(what: str, work: Callable[[], object]) -> None:
        done[what] = timed(work), peak()

    do("fill the state", lambda: fill(state, worker, given.rows))
    do("settle contests, put in order", lambda: settle_contests(state, policy.deduplicate))
    finish_contests(state)
    do(
        "judge duplicates",
        lambda: judge_duplicates(state, policy.deduplicate, earlier_releases(policy), None),
    )
    do("count outcomes", lambda: state.count("outcome = 'released'"))
    do("write both manifests", lambda: write_manifests(manifests_stage(policy), state, subkeys, out))
    do("read the manifest", lambda: sum(batch.num_rows for batch in read_objects(out)))
    state.close()
    root = {"name": "rows", "version": "1.0", "mode": "pseudonymous", "supersedes": None}
    (out / layout.ROOT).write_text(json.dumps(root))
    registry = Registry(out / "registry")
    do("add to the registry", lambda: registry.add(out, verified=True))
    do("look every row up in it", lambda: sum(1 for _ in registry.lookup(digests(out))))
    columns, ordered = ("patient", "age", "zip", "finding"), out / "tables" / "t.parquet"
    do("put a table in order", lambda: write_ordered(ordered, columns, table_rows(given.rows)))
    do(
        "group its patients",
        lambda: equivalence_classes([QuasiIdentifiers(ordered, columns[0], columns[1:])], 5),
    )
    sizes = {
        "fill the state": size_of(out / "state.sqlite"),
        "write both manifests": sum(map(size_of, layout.object_manifests(out))),
        "add to the registry": size_of(out / "registry" / DATABASE),
        "put a table in order": size_of(ordered),
    }
    print(machine() + "\n")
    rows = [
        (what, f"{wall:.1f} s", f"{memory:.0f} MB", f"{sizes[what] / 2**20:.0f} MB" if what in sizes else "")
        for what, (wall, memory) in done.items()
    ]
    print(table((f"{given.rows:,} rows", "wall time", "peak memory until then", "on disk"), rows))
    # ru_maxrss is a maximum over the life of the process, so later steps include earlier peaks.
    return int(peak() > MOST)


def digests(out: Path) -> Iterator[tuple[str, str | None]]:
    """Digests of bytes and pixels in the manifest, row by row."""
    for batch in read_objects(out, ["sha256", "pixels_sha256"]):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def size_of(path: Path) -> int:
    """Size of a file in bytes."""
    return path.stat().st_size


def peak() -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
