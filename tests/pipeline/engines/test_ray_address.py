"""Valid and invalid addresses of a Ray cluster."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.pipeline.engines.ray_connect import is_listening
from medsanitize.policies.model import Policy

Workplace = Callable[..., Policy]


@pytest.mark.parametrize(
    ("family", "host", "named"),
    [(socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET6, "::1", "[::1]")],
)
def test_a_listening_head_is_reachable(family: socket.AddressFamily, host: str, named: str) -> None:
    with socket.socket(family) as head:
        try:
            head.bind((host, 0))
        except OSError:
            pytest.skip("needs IPv6 on loopback")
        head.listen()
        address = f"{named}:{head.getsockname()[1]}"

        assert is_listening(address)

    assert not is_listening(address)


@pytest.mark.parametrize("address", ["ray://head.cluster.local:10001", "http://127.0.0.1:8265"])
def test_an_invalid_head_address_is_a_usage_error(workplace: Workplace, address: str) -> None:
    file = workplace().output.parent / "policy.yaml"

    done = CliRunner().invoke(cli, ["run", str(file), "--engine", "ray"], env={"RAY_ADDRESS": address})

    assert done.exit_code == 2
    assert "host:port" in done.output
