"""A release by Spark: inventory here, objects on the executors, audit and publication here.

    python examples/spark_release.py policy.yaml --shards 8

By itself it starts Spark on this machine; ``spark-submit`` gives it a cluster, whose machines have
medsanitize, the release key, and inputs, output and state at the same paths. Run again after a failure, it
goes on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pyarrow.parquet as pq
from medsanitize.offline import use_temporary_folder
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.spark import MANIFEST_COLUMNS, inventory_rows, session, shard_function
from medsanitize.policies.load import load


def main() -> int:
    """Take the inventory, sanitize its shards, publish; returns the exit code of the run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("policy", type=Path)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--rows", type=Path, help="where the rows that Spark returned are kept, as Parquet")
    asked = parser.parse_args()
    asked.policy = asked.policy.absolute()

    policy = load(asked.policy)
    taken = run(policy, Options(inventory_only=True))
    if taken.ending == "inventory_done":
        with session() as spark:
            inventory = spark.createDataFrame(inventory_rows(policy, asked.shards))
            manifest = inventory.repartition(asked.shards, "shard").mapInArrow(
                shard_function(asked.policy, asked.shards), MANIFEST_COLUMNS
            )
            rows = manifest.toArrow()
        if asked.rows:
            pq.write_table(rows, asked.rows)
        print(f"{rows.num_rows} objects sanitized")
    result = run(policy)
    print(result.ending)
    return int(result.exit_code)


if __name__ == "__main__":
    use_temporary_folder()
    sys.exit(main())
