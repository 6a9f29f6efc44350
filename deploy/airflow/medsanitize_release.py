"""A release as an Airflow DAG: an inventory, a mapped task a shard, and one that merges and publishes.

For workers that share the folders of the policy and have medsanitize installed. Airflow holds counts, gates
and timings (XCom) and no key: the policy names one that lies with the workers (``keys.file``,
``keys.command`` or ``keys.env``).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

POLICY = "/srv/medsanitize/policy.yaml"
SHARDS = 16
DONE = (0, 1)  # 1: some objects are in quarantine


def ended(command: list[str]) -> int:
    """Run a command to its end; a task that is stopped stops it and waits, so that it keeps what is done."""
    with subprocess.Popen(command) as process:  # noqa: S603  no shell, and no word from elsewhere
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            raise


@task(retries=5, retry_delay=timedelta(minutes=5), retry_exponential_backoff=True)
def medsanitize(options: list[str]) -> dict[str, Any]:
    """Run one part; what may be repeated (exit codes 5 and 143) is retried, anything else is not."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "return.json"
        code = ended(["medsanitize", "run", POLICY, "--log-json", "--return-file", str(told), *options])
        if not told.exists():  # killed, or the command line is wrong
            raise AirflowException(f"medsanitize ended with {code}")
        facts: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
    if code in DONE:
        return facts
    why = f"{facts['ending']}: {(facts['error'] or {}).get('message', 'see the report in the state folder')}"
    raise AirflowException(why) if facts["may_be_repeated"] else AirflowFailException(why)


@dag(schedule=None, catchup=False, max_active_runs=1, tags=["medsanitize"])
def medsanitize_release() -> None:
    """Inventory, then the shards side by side, then publication."""
    inventory = medsanitize.override(task_id="inventory")(["--inventory-only"])
    shards = [["--shard", f"{number}/{SHARDS}"] for number in range(1, SHARDS + 1)]
    parts = medsanitize.override(task_id="shard").expand(options=shards)
    publish = medsanitize.override(task_id="publish")([])
    inventory >> parts >> publish


medsanitize_release()
