"""Shards of a run as a Spark job: inventory rows in, manifest rows out.

``medsanitize run POLICY --inventory-only`` precedes the job. ``medsanitize run POLICY`` follows: it merges
the shards' results from the state folder, checks the whole set and publishes. Spark processes rows only.
Paths in them are encrypted under the release key, which every executor reads from where the policy says;
sizes are plain.
"""

from __future__ import annotations

import base64
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from medsanitize.errors import MedsanitizeError, UsageError
from medsanitize.pipeline.engines.base import silence_output
from medsanitize.pipeline.resume import open_shared, release_keys
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.sequence import manifests_stage, stages_of
from medsanitize.pipeline.stages.manifests import object_rows
from medsanitize.pipeline.stages.tally import Tally
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.objects import pending_sources
from medsanitize.pipeline.state.shards import Shard, part_of, shard_path, sources_of
from medsanitize.policies.load import load
from medsanitize.policies.model import Engine, Policy
from medsanitize.release.manifest import OBJECT_SCHEMA
from medsanitize.sanitize.result import CheckResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `uri`: the object's encrypted paths; `etag`: keyed digest of sizes and times; `shard`: from 1.
INVENTORY_SCHEMA: Final = pa.schema(
    [
        pa.field("uri", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("etag", pa.string(), nullable=False),
        pa.field("shard", pa.int32(), nullable=False),
    ]
)

# Manifest columns that only the final run fills, because they depend on the whole set.
SET_BY_FINAL_RUN: Final = (
    "pixels_sha256",
    "check_identifiers",
    "check_duplicates",
    "check_registry",
    "check_overlap",
)

_TYPES: Final = {
    pa.string(): "STRING",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
}
# The manifest columns as a Spark DDL schema.
MANIFEST_COLUMNS: Final = ", ".join(
    f"{field.name} {_TYPES[field.type]}{'' if field.nullable else ' NOT NULL'}" for field in OBJECT_SCHEMA
)
_ROWS = 10_000
_GATEWAY_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"
# Without this option, Java writes counters of each process to the system's temporary folder.
_NO_COUNTERS: Final = "-XX:-UsePerfData"
_LOCAL_SETTINGS: Final = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_LOCAL_HOSTNAME": "localhost",
    "SPARK_LAUNCHER_OPTS": _NO_COUNTERS,
}

Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@contextmanager
def session() -> Iterator[SparkSession]:
    """Provide a Spark session: of the cluster under ``spark-submit``, else of this machine.

    A local session uses only loopback, has no user interface, and deletes its folder at the end.

    Raises
    ------
    UsageError
        The extra ``spark`` is not installed.
    """
    check_extra("spark")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("medsanitize")
    with TemporaryDirectory(prefix="spark-") as folder:
        if _GATEWAY_VARIABLE not in os.environ:
            os.environ.update(_LOCAL_SETTINGS)
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            for name, value in _settings(folder).items():
                builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()


def _settings(folder: str) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder,
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} {_NO_COUNTERS}",
    }


def inventory_rows(policy: Policy, shards: int) -> pa.Table:
    """Return the pending objects as ``INVENTORY_SCHEMA``; all objects of a patient are in one shard.

    Parameters
    ----------
    policy : Policy
        The policy of the run.
    shards : int
        Number of shards.

    Raises
    ------
    UsageError
        There is no inventory under this policy and key, or the policy is anonymous.
    """
    Shard.parse(f"1/{shards}")
    with _shared(policy) as state:
        batches = []
        for page in pending_sources(state, _ROWS):
            columns = (
                [_uri(one.source) for one in page],
                [one.size for one in page],
                [one.stamp.hex() for one in page],
                [part_of(one.patient, shards) for one in page],
            )
            batches.append(pa.record_batch(list(columns), schema=INVENTORY_SCHEMA))
    return pa.Table.from_batches(batches, schema=INVENTORY_SCHEMA)


def shard_function(policy: Path, shards: int) -> Function:
    """Create the function for ``DataFrame.mapInArrow`` that sanitizes shards and returns their manifest rows.

    Parameters
    ----------
    policy : Path
        The policy's file. Every executor must see it, with inputs, output and state, at the same path.
    shards : int
        As for ``inventory_rows``. A partition must contain whole shards: ``repartition(shards, "shard")``.
    """

    # Spark pickles this closure, so it contains a path and a number, never the key.
    def sanitized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return sanitize_partition(policy, shards, batches)

    return sanitized


def sanitize_partition(
    policy: Path, shards: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Sanitize the shards whose inventory rows are in a partition; yield ``OBJECT_SCHEMA``.

    Raises
    ------
    RuntimeError
        Any failure, in words without values, names or paths, because Spark logs them.
    """
    uris: dict[int, set[str]] = {}
    for batch in batches:
        for uri, shard in zip(
            batch.column("uri").to_pylist(), batch.column("shard").to_pylist(), strict=True
        ):
            uris.setdefault(shard, set()).add(uri)
    for index in sorted(uris):
        try:
            with _silenced():
                found = _sanitize(_with_local_engine(load(policy)), Shard(index, shards), uris[index])
        except MedsanitizeError as error:
            # Spark logs the text of exceptions.
            raise RuntimeError(f"medsanitize: {error} (exit code {error.exit_code})") from None
        except Exception as error:  # noqa: BLE001  its text could quote a value, and Spark would log it
            raise RuntimeError(f"medsanitize: a defect of the program: {type(error).__name__}") from None
        yield from found


def _with_local_engine(policy: Policy) -> Policy:
    """Return the policy with the local engine: the executor itself does the work."""
    return policy.model_copy(update={"engine": Engine()})


def _sanitize(policy: Policy, shard: Shard, uris: set[str]) -> list[pa.RecordBatch]:
    _require_whole_shard(policy, shard, uris)
    if run(policy, Options(workers=1, shard=shard)).ending != "shard_done":
        raise UsageError("The release is finished", "Give a new one another version and another output")
    subkeys = release_keys(policy)
    state = State(shard_path(workspace_of(policy).database, shard), subkeys)
    try:
        unmade = dict.fromkeys(SET_BY_FINAL_RUN[1:], CheckResult.NOT_RUN)
        made = object_rows(manifests_stage(policy), state, subkeys, Tally())
        rows = (replace(row, **unmade) for row in made)  # type: ignore[arg-type]
        return list(_batches(asdict(row) for row in rows))
    finally:
        state.close()


def _require_whole_shard(policy: Policy, shard: Shard, uris: set[str]) -> None:
    with _shared(policy) as state:
        wanted = set(map(_uri, sources_of(state, shard)))
    # A shard is sanitized as a whole, so two partitions must not share one.
    if wanted != uris:
        raise UsageError(
            "A partition has an incomplete shard, or rows of another inventory",
            'Use the rows of inventory_rows unchanged, with repartition(shards, "shard")',
        )


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    while page := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist(page, schema=OBJECT_SCHEMA)


def _uri(source: bytes) -> str:
    return "sealed:" + base64.urlsafe_b64encode(source).decode()


@contextmanager
def _shared(policy: Policy) -> Iterator[State]:
    state = open_shared(policy, stages_of(policy), release_keys(policy, split=True))
    try:
        yield state
    finally:
        state.close()


@contextmanager
def _silenced() -> Iterator[None]:
    """Discard output and logs of libraries, which would end up in the executor's logs."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # dup2 on the descriptors, because native libraries bypass sys.stdout.
    kept = [os.dup(number) for number in (1, 2)]
    level = logging.root.manager.disable
    try:
        with warnings.catch_warnings():
            silence_output()
            yield
    finally:
        logging.disable(level)
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
