"""Settings that prevent network access by libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest
from medsanitize.offline import DEFAULTS, REMOVED, SWITCHES, keep_offline


@pytest.mark.parametrize("name", ["ORT_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED", "HF_HUB_OFFLINE"])
def test_an_environment_variable_cannot_enable_a_switch_by_accident(name: str) -> None:
    environment = {name: "wrong"}
    keep_offline(environment)
    assert environment[name] == SWITCHES[name]


@pytest.mark.parametrize("name", REMOVED)
def test_a_variable_that_enables_something_is_removed(name: str) -> None:
    environment = {f"{name}EXPORTER": "1"}
    keep_offline(environment)
    assert f"{name}EXPORTER" not in environment


@pytest.mark.parametrize(
    "name", ["AWS_PROFILE", "AWS_ENDPOINT_URL", "HTTPS_PROXY", "GOOGLE_APPLICATION_CREDENTIALS"]
)
def test_credentials_endpoints_and_proxies_of_stores_are_kept(name: str) -> None:
    environment = {name: "given"}
    keep_offline(environment)
    assert environment[name] == "given"


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_machine_role_is_used_only_if_the_environment_requests_it(name: str) -> None:
    silent: dict[str, str] = {}
    asked = {name: "asked for"}
    for environment in (silent, asked):
        keep_offline(environment)
    assert (silent[name], asked[name]) == (DEFAULTS[name], "asked for")


def test_importing_the_package_disables_the_switches_before_any_library() -> None:
    program = "import medsanitize, os, sys; print(os.environ['ORT_DISABLE_TELEMETRY'], len(sys.modules) < 99)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"ORT_DISABLE_TELEMETRY": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "True"]
