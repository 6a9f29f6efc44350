"""A Ray cluster of real nodes makes the same release as one process, also when a node is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy

from tests.helpers.hospital import CANARIES, KEY, tree
from tests.helpers.ray_cluster import Cluster, driver_result, free_port

Workplace = Callable[..., Policy]
RAY = "{kind: ray}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for the module."""
    made = Cluster(nodes=2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def accelerated() -> Iterator[Cluster]:
    """A node of three CPUs and one GPU."""
    made = Cluster(nodes=1, cpus=3, gpus=1)
    yield made
    made.close()


def file_of(policy: Policy) -> Path:
    return policy.output.parent / "policy.yaml"


def test_results_are_ordered_and_a_crashing_item_costs_only_itself(
    cluster: Cluster, workplace: Workplace
) -> None:
    answer = driver_result(cluster.driver("calls", file_of(workplace(engine=RAY))))

    assert answer["ordered"] == list(range(12))
    assert (answer["died"], answer["lived"]) == ([7], [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11])
    assert answer["raised"] == "a task raised ValueError"  # the message does not leave the worker


def test_an_item_whose_result_was_lost_is_not_counted_as_crashing(
    cluster: Cluster, workplace: Workplace
) -> None:
    answer = driver_result(cluster.driver("loses_answers", file_of(workplace(engine=RAY))))

    assert answer == {"died": [], "answers": 6}


@pytest.mark.parametrize(("share", "workers"), [(0.5, 2), (1, 1)])
def test_a_gpu_is_shared_by_the_configured_number_of_workers(
    accelerated: Cluster, workplace: Workplace, share: float, workers: int
) -> None:
    policy = workplace(engine=f"{{kind: ray, gpus: {share}}}")
    assert driver_result(accelerated.driver("shares", file_of(policy))) == {"workers": workers, "gpus": ["0"]}


def test_a_lost_node_does_not_change_the_release(cluster: Cluster, workplace: Workplace) -> None:
    local, spread = workplace("local"), workplace("spread", engine=RAY)
    run(local, Options(workers=1))
    noted = spread.output.parent / "at-work"

    driver = cluster.driver("release", file_of(spread))
    while len(set(before := pids(noted))) < 2:
        assert driver.poll() is None
        time.sleep(0.1)
    cluster.kill(cluster.nodes.pop())
    answer = driver_result(driver)

    assert answer["ending"] == "published"
    assert tree(spread.output) == tree(local.output)
    assert len(pids(noted)) > len(before) + 3  # work was left, and one node did it
    assert len(set(pids(noted)[len(before) + 1 :])) == 1
    assert not kept_by(cluster.folder, *CANARIES, KEY.hex(), "spread/export")


def test_a_node_with_another_input_at_the_path_does_no_work(cluster: Cluster, workplace: Workplace) -> None:
    answer = driver_result(cluster.driver("finds_another_input", file_of(workplace(engine=RAY))))

    assert "sees other inputs" in answer["error"]


def pids(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def kept_by(folder: Path, *secrets: str) -> set[str]:
    """Texts that occur in files written by Ray: its logs, and objects spilled to disk."""
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert files
    return {one for one in secrets if any(one.encode() in file for file in files)}


def test_an_unreachable_cluster_is_a_retryable_error(workplace: Workplace) -> None:
    nowhere = {"RAY_ADDRESS": f"127.0.0.1:{free_port()}"}

    done = CliRunner().invoke(cli, ["run", str(file_of(workplace())), "--engine", "ray"], env=nowhere)

    assert done.exit_code == 5
    assert "does not answer" in done.output


@pytest.mark.slow
def test_repeated_worker_crashes_stop_the_run(cluster: Cluster, workplace: Workplace) -> None:
    answer = driver_result(cluster.driver("dies", file_of(workplace(engine=RAY))))

    assert answer["exit_code"] == 5
    assert "keep crashing" in answer["error"]


@pytest.mark.slow
def test_a_lost_cluster_head_is_a_retryable_error(workplace: Workplace) -> None:
    policy = workplace(engine=RAY)
    cluster = Cluster(nodes=1)
    try:
        driver = cluster.driver("lingers", file_of(policy))
        while not (policy.output.parent / "at-work").exists():
            assert driver.poll() is None
            time.sleep(0.1)
        assert cluster.head is not None
        cluster.kill(cluster.head)
        answer = driver_result(driver)
    finally:
        cluster.close()

    assert answer["exit_code"] == 5
    assert "head of the Ray cluster no longer answers" in answer["error"]
