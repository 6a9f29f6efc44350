"""A Ray cluster of several nodes on loopback; each is a process group that can be killed."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

RAY = Path(sys.executable).with_name("ray")
STORE = 80 * 2**20


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Cluster:
    """A head without CPUs, and nodes with one or more CPUs, and GPUs that they only declare."""

    def __init__(self, nodes: int, cpus: int = 1, gpus: int = 0) -> None:
        self.size = (f"--num-cpus={cpus}", f"--num-gpus={gpus}")
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.head: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="msr-"))
        self.address = f"127.0.0.1:{free_port()}"
        self.environment = {
            **os.environ,
            "RAY_ADDRESS": self.address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(__file__).parent),
        }
        port, client = self.address.rpartition(":")[2], free_port()
        head = ("--head", f"--port={port}", f"--temp-dir={self.folder}", "--include-dashboard=false")
        self.head = self._started(*head, f"--ray-client-server-port={client}", "--num-cpus=0", "--num-gpus=0")
        for _ in range(nodes):
            self.add_node()

    def add_node(self) -> None:
        """Start a node."""
        self.nodes.append(self._started(f"--address={self.address}", *self.size))

    def _started(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a node in the process group of its starter; Ray's own timeout is 30 s."""
        common = ("--node-ip-address=127.0.0.1", "--disable-usage-stats")
        for _ in range(3):
            starting = subprocess.Popen(
                [RAY, "start", *arguments, *common, f"--object-store-memory={STORE}"],
                env={name: value for name, value in self.environment.items() if name != "RAY_ADDRESS"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            if starting.wait() == 0:
                return starting
            self.kill(starting)
        self.close()
        raise RuntimeError("a Ray node did not start, three times")

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """Kill all processes of a node at once, like a power failure: workers have their own groups."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(ProcessLookupError, FileNotFoundError):
                if os.getsid(int(process.name)) == node.pid:
                    os.kill(int(process.name), signal.SIGKILL)
        node.wait()

    def close(self) -> None:
        for node in (*self.nodes, *([self.head] if self.head else [])):
            self.kill(node)
        shutil.rmtree(self.folder, ignore_errors=True)

    def driver(self, name: str, policy: Path) -> subprocess.Popen[str]:
        """Start one of the functions of ray_tasks.py in its own process."""
        return subprocess.Popen(
            [sys.executable, Path(__file__).with_name("ray_tasks.py"), name, policy],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def driver_result(driver: subprocess.Popen[str]) -> dict[str, Any]:
    """The JSON output of a driver."""
    try:
        out, err = driver.communicate(timeout=300)
    finally:
        driver.kill()
    assert (driver.returncode, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer
