"""A state and a manifest of a million synthetic rows: sizes, times, peak memory.

    python benchmarks/rows.py OUT [--rows 1000000]

Fills the state of a run with rows as the sanitize stage leaves them, then writes both manifests
from it and reads them back, as a run does.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from common import fresh, machine, table
from medsanitize.pipeline.dedup_stage import settle_contests
from medsanitize.pipeline.evidence_stage import write_manifests
from medsanitize.pipeline.sanitize_stage import seal_record
from medsanitize.pipeline.state import State
from medsanitize.pipeline.worker import Setup, Worker
from medsanitize.policies.load import load
from medsanitize.policies.model import Policy
from medsanitize.release import layout
from medsanitize.release.manifest import read_objects
from medsanitize.sanitize.keys import SubKeys, derive
from medsanitize.sanitize.record import Check, Outcome, Record

OBJECTS_OF_A_STUDY = 100
RULES = {"U:uid": 9, "X:private": 31, "Z:basic": 5, "X:basic": 12, "D:basic": 2, "C:cleaned": 3}
INSERT = (
    "INSERT INTO objects (id, size, stamp, kind, patient, study, sop, identified, outcome,"
    " p_patient, p_study, p_series, p_instance,"
    " bytes, sha256, native, audited, source, payload, staged, pixels_check, pixels)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def synthetic(worker: Worker, count: int) -> Iterator[tuple[object, ...]]:
    """Yield rows of released objects, a hundred to a study, ten studies to a patient."""
    for number in range(count):
        study = number // OBJECTS_OF_A_STUDY
        patient = sha256(b"p%d" % (study // 10)).hexdigest()[:16].upper()
        uids = [f"2.25.{int.from_bytes(sha256(name).digest()[:16], 'big')}" for name in _names(study, number)]
        record = Record(
            Outcome.RELEASED,
            "dicom",
            rules=RULES,
            modality="CT",
            sop_class="1.2.840.10008.5.1.4.1.1.2",
            transfer_syntax="1.2.840.10008.1.2.1",
            rows=512,
            columns=512,
            pixels=Check.PASSED,
        )
        digest = sha256(b"%d" % number).digest()
        keyed = (digest[:16], digest[8:24], digest[16:])
        names = (patient, *uids)
        sealed = worker.seal.close(b"/export/%08d.dcm" % number, b"source")
        yield (
            *(number, 527_000, digest[:16], "dicom", *keyed, 1, "released", *names),
            *(527_000, digest, 1, 1, sealed, seal_record(worker, record), 1, 1, digest[::-1]),
        )


def _names(study: int, number: int) -> tuple[bytes, bytes, bytes]:
    return b"study%d" % study, b"series%d" % study, b"instance%d" % number


def timed(work: Callable[[], object]) -> float:
    """Wall seconds of ``work``."""
    before = time.monotonic()
    work()
    return time.monotonic() - before


def fill(state: State, worker: Worker, count: int) -> None:
    """Write the rows in transactions of the size that a run uses."""
    batch = []
    for row in synthetic(worker, count):
        batch.append(row)
        if len(batch) == 512:
            state.write(INSERT, batch)
            state.wrote(len(batch))
            batch = []
    state.write(INSERT, batch)
    state.commit()


def prepared(out: Path) -> tuple[Policy, SubKeys]:
    """A policy and keys to go with the rows."""
    (out / "release.key").write_bytes(bytes((7 * place + 11) % 256 for place in range(64)))
    (out / "release.key").chmod(0o600)
    (out / "policy.yaml").write_text(
        'version: 1\npreset: ps3.15-basic\nrelease: {name: rows, version: "1.0", mode: pseudonymous}\n'
        "inputs: [./export]\noutput: ./release\nstate: ./state\nkeys: {file: ./release.key}\n"
    )
    (out / "export").mkdir()
    return load(out / "policy.yaml"), derive((out / "release.key").read_bytes(), scope="release:rows")


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
    filling = timed(lambda: fill(state, worker, given.rows))
    indexing = timed(lambda: settle_contests(state, policy, None))
    counting = timed(lambda: state.count("outcome = 'released'"))
    writing = timed(lambda: write_manifests(state, subkeys, policy, out))
    reading = timed(lambda: sum(batch.num_rows for batch in read_objects(out)))
    state.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    objects = sum(path.stat().st_size for path in layout.object_manifests(out))
    size = (out / "state.sqlite").stat().st_size
    print(machine() + "\n")
    rows = [
        ("fill the state", f"{filling:.1f} s", f"{size / 2**20:.0f} MB"),
        ("put in order", f"{indexing:.1f} s", ""),
        ("count outcomes", f"{counting:.2f} s", ""),
        ("write both manifests", f"{writing:.1f} s", f"{objects / 2**20:.0f} MB"),
        ("read the manifest", f"{reading:.1f} s", ""),
    ]
    print(table((f"{given.rows:,} rows", "wall time", "size on disk"), rows))
    print(f"\npeak memory: {peak:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
