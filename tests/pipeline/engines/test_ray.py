"""A Ray cluster of real nodes makes the release of one process, also when a node is lost on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy

from tests.pipeline.conftest import tree
from tests.pipeline.engines.cluster import Cluster, told

Workplace = Callable[..., Policy]
RAY = "{kind: ray}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for the module."""
    made = Cluster(nodes=2)
    yield made
    made.close()


def file_of(policy: Policy) -> Path:
    return policy.output.parent / "policy.yaml"


def test_results_come_in_order_and_a_deadly_item_costs_itself_alone(
    cluster: Cluster, workplace: Workplace
) -> None:
    answer = told(cluster.driver("calls", file_of(workplace(engine=RAY))))

    assert answer["ordered"] == list(range(12))
    assert (answer["died"], answer["lived"]) == ([7], [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11])


def test_what_a_task_prints_or_raises_reaches_neither_ray_nor_the_terminal(
    cluster: Cluster, workplace: Workplace
) -> None:
    answer = told(cluster.driver("raises", file_of(workplace(engine=RAY))))

    logs = [path.read_bytes() for path in cluster.folder.rglob("*") if path.is_file()]
    assert answer == {"raised": "a task raised ValueError"}
    assert logs
    assert not any(b"QUIXLEYVANE" in log for log in logs)


def test_a_node_lost_on_the_way_changes_no_byte_of_the_release(
    cluster: Cluster, workplace: Workplace
) -> None:
    local, spread = workplace("local"), workplace("spread", engine=RAY)
    run(local, Options(workers=1))
    noted = spread.output.parent / "at-work"

    driver = cluster.driver("release", file_of(spread))
    while len(before := pids(noted)) < 2:
        assert driver.poll() is None
        time.sleep(0.1)
    cluster.kill(cluster.nodes.pop())
    answer = told(driver)

    assert answer["ending"] == "published"
    assert tree(spread.output) == tree(local.output)
    assert pids(noted) > before  # somebody took the place of the dead


def pids(path: Path) -> set[str]:
    return set(path.read_text().split()) if path.exists() else set()
