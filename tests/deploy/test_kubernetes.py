"""The Kubernetes manifests: against the schema, and their commands against the real command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from medsanitize.pipeline.runtime.result import Exit
from medsanitize.pipeline.state.shards import Shard
from medsanitize.policies.load import loads
from ruamel.yaml import YAML

from tests.helpers.deploy import DEPLOY, parse

KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def read() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in KUBERNETES:
        content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        if content["kind"] == "Job":
            yield path.stem, content


JOBS = list(read())
each_job = pytest.mark.parametrize(("name", "job"), JOBS, ids=[name for name, _ in JOBS])


def words_of(container: dict[str, Any]) -> list[str]:
    """The command of a container, with shell arithmetic evaluated for the last pod of eight."""
    command = container["command"]
    if command[0] != "/bin/sh":
        return list(command)
    return shlex.split(command[2].replace("$((JOB_COMPLETION_INDEX + 1))", "8").removeprefix("exec "))


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.stem)
@pytest.mark.parametrize("version", ["1.31", "1.35"])
def test_kubernetes_manifests_follow_the_schema(path: Path, version: str) -> None:
    content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    kubernetes_validate.validate(content, version, strict=True)


@each_job
def test_kubernetes_commands_exist_and_get_the_key_from_a_secret(name: str, job: dict[str, Any]) -> None:
    container = job["spec"]["template"]["spec"]["containers"][0]
    program, *words = words_of(container)
    parsed = parse(words)
    assert (program, str(parsed["policy"])) == ("medsanitize-job", "/policy/policy.yaml")
    assert parsed["inventory_only"] is (name == "inventory")
    secrets = [one["name"] for one in container["env"] if "secretKeyRef" in one["valueFrom"]]
    assert secrets == ["MEDSANITIZE_KEY"]
    if name == "shards":
        assert Shard.parse(parsed["shard"]) == Shard(job["spec"]["completions"], job["spec"]["completions"])
        assert job["spec"]["completionMode"] == "Indexed"


@each_job
def test_kubernetes_retries_only_retryable_exit_codes(name: str, job: dict[str, Any]) -> None:
    rules = [
        rule["onExitCodes"] for rule in job["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule
    ]
    final = {Exit.USAGE, Exit.GATE_REFUSED, Exit.INTEGRITY, Exit.DEFECT}
    assert [set(rule["values"]) for rule in rules] == [final]
    assert rules[0]["containerName"] == job["spec"]["template"]["spec"]["containers"][0]["name"]
    assert f"medsanitize-{name}" == job["metadata"]["name"]


@each_job
def test_kubernetes_pods_have_no_rights_they_do_not_need(name: str, job: dict[str, Any]) -> None:
    pod = job["spec"]["template"]["spec"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False)
    volumes = {one["name"] for one in pod["volumes"]}
    for container in (*pod["containers"], *pod.get("initContainers", [])):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True, name
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    mounts = {one["mountPath"]: one for one in pod["containers"][0]["volumeMounts"]}
    assert mounts["/export"]["readOnly"] is True


def test_the_policy_of_the_cluster_is_valid(tmp_path: Path) -> None:
    content = YAML(typ="safe").load((DEPLOY / "kubernetes" / "policy.yaml").read_text(encoding="utf-8"))
    policy = loads(content["data"]["policy.yaml"], base=tmp_path)
    assert (str(policy.output), policy.keys.env) == ("/work/release", "MEDSANITIZE_KEY")
    assert str(policy.keys.signing) == "/keys/signing.key"


@each_job
def test_release_pods_have_no_network_and_a_read_only_root(name: str, job: dict[str, Any]) -> None:
    template = job["spec"]["template"]
    network = YAML(typ="safe").load((DEPLOY / "kubernetes" / "network.yaml").read_text(encoding="utf-8"))
    assert network["spec"]["podSelector"]["matchLabels"] == template["metadata"]["labels"], name
    assert network["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & set(network["spec"])
    assert template["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert template["spec"]["automountServiceAccountToken"] is False
