"""The Spark example, on Spark with two local workers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from base64 import urlsafe_b64decode
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from medsanitize.errors import UsageError
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.spark import INVENTORY_SCHEMA, SET_BY_FINAL_RUN, inventory_rows, sanitize_partition
from medsanitize.policies.model import Policy
from medsanitize.release.manifest import OBJECT_SCHEMA

from tests.helpers.hospital import CANARIES, KEY, tree

Workplace = Callable[..., Policy]
EXAMPLE = Path(__file__).parents[3] / "examples" / "spark_release.py"
ONE = Options(workers=1)
SETTINGS = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.local.dir={folder}/local"
    " --conf spark.shuffle.compress=false --conf spark.shuffle.spill.compress=false"
    " --conf spark.eventLog.enabled=true --conf spark.eventLog.compress=false"
    " --conf spark.eventLog.dir={folder}/events pyspark-shell"
)
# Spark empties its folder when it stops: search it before.
WATCHED = """
import runpy, shutil, sys
from pyspark.sql import SparkSession
example, folder = sys.argv[1], sys.argv[2]
sys.argv[1:] = sys.argv[3:]
stop = SparkSession.stop
def watched(session):
    shutil.copytree(f"{folder}/local", f"{folder}/kept")
    stop(session)
SparkSession.stop = watched
runpy.run_path(example, run_name="__main__")
"""


def file_of(policy: Policy) -> Path:
    return policy.output.parent / "policy.yaml"


def inventoried(policy: Policy) -> Policy:
    assert run(policy, Options(workers=1, inventory_only=True)).ending == "inventory_done"
    return policy


@pytest.mark.slow
@pytest.mark.system
def test_the_example_publishes_the_same_release_and_spark_returns_its_rows(
    workplace: Workplace, tmp_path: Path
) -> None:
    if shutil.which("java") is None:
        pytest.skip("needs Java 17: tests/install_system.sh")
    local, spread = workplace("local"), workplace("spread")
    run(local, ONE)

    folder = tmp_path / "spark"
    (folder / "events").mkdir(parents=True)
    asked = [file_of(spread), "--shards", "3", "--rows", tmp_path / "rows.parquet"]
    command = [sys.executable, "-c", WATCHED, EXAMPLE, folder, *asked]
    spark = {"PYSPARK_SUBMIT_ARGS": SETTINGS.format(folder=folder)}
    done = subprocess.run(
        command, env={**os.environ, **spark, "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True
    )

    assert done.stdout.split("\n")[1] == "published"
    assert tree(spread.output) == tree(local.output)
    published = settled_early(pq.read_table(spread.output / "manifest" / "objects.parquet"))
    assert settled_early(pq.read_table(tmp_path / "rows.parquet")) == published
    # Plain text is found in both places, so a text that is not found is not there.
    assert kept_by(folder / "kept", "sealed:") == {"sealed:"}
    assert kept_by(folder / "events", "mapInArrow", "MapInArrow")
    assert not kept_by(folder, *CANARIES, KEY.hex(), str(tmp_path / "spread/export"))


def kept_by(folder: Path, *texts: str) -> set[str]:
    """Texts that occur in files written by Spark."""
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert files
    return {one for one in texts if any(one.encode() in file for file in files)}


def settled_early(table: pa.Table) -> dict[str, dict[str, object]]:
    """Rows by object, without the columns that only the final run knows."""
    return {row["object_id"]: row for row in table.drop_columns(list(SET_BY_FINAL_RUN)).to_pylist()}


def test_a_partition_returns_manifest_rows_without_release_checks(workplace: Workplace) -> None:
    policy = inventoried(workplace())
    rows = inventory_rows(policy, 1)

    made = pa.Table.from_batches(sanitize_partition(file_of(policy), 1, rows.to_batches()))

    assert made.schema == OBJECT_SCHEMA
    assert made.num_rows > 10
    assert set(made.column("check_registry").to_pylist()) == {"not_run"}


def test_inventory_rows_contain_no_source_paths(workplace: Workplace) -> None:
    policy = inventoried(workplace())

    rows = inventory_rows(policy, 3)

    assert rows.schema == INVENTORY_SCHEMA
    assert set(rows.column("shard").to_pylist()) <= {1, 2, 3}
    sealed = [urlsafe_b64decode(uri.removeprefix("sealed:")) for uri in rows.column("uri").to_pylist()]
    assert not any(b"export" in one for one in sealed)


def test_a_part_of_a_shard_is_rejected(workplace: Workplace) -> None:
    policy = inventoried(workplace())
    rows = inventory_rows(policy, 1)

    with pytest.raises(RuntimeError, match="incomplete shard"):
        list(sanitize_partition(file_of(policy), 1, rows.slice(1).to_batches()))


def test_without_an_inventory_there_are_no_rows(workplace: Workplace) -> None:
    with pytest.raises(UsageError, match="no inventory"):
        inventory_rows(workplace(), 2)
