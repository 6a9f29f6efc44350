"""Server and sites of a federated training connect to each other only."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from medsanitize.pipeline.demo.federation import prepare_federation

from tests.system.strace import network_calls, run_traced

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.federated, pytest.mark.verify]


def test_a_federated_training_connects_to_nobody_else(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace: tests/install_system.sh")
    federation = prepare_federation(tmp_path / "demo", patients=12, size=128)
    sites = [part for path in federation.sites.values() for part in ("--site", str(path))]
    command = [
        sys.executable,
        "-m",
        "medsanitize",
        "federation",
        "run",
        str(federation.job),
        *sites,
        "--json",
    ]
    # `CI` disables the telemetry of onnxruntime, which would then not be noticed.
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("ORT_")}
    trace = tmp_path / "trace"
    done = run_traced(command, trace, environment=kept, folder=tmp_path)
    assert json.loads(done.stdout.splitlines()[-1])["confirmed"] == list(federation.sites)
    text = trace.read_text(errors="replace")
    # What travels is seen: messages of TLS on loopback.
    assert "sin_port" in text
    assert "127.0.0.1" in text
    assert list(network_calls(trace)) == []
