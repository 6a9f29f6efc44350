"""Joining a Ray cluster for a run, or starting one on this machine."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.offline import PREFIX
from medsanitize.policies.model import Engine as EngineSection

_OBJECT_STORE_BYTES = 512 * 2**20  # only rows pass through the object store
_CONNECT_SECONDS = 5.0
_LOOPBACK = "127.0.0.1"
# Longest path of Ray's folder in bytes: it creates sockets below, whose paths the system limits.
_MAX_FOLDER_PATH = 107 - len("/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
_OWN_FOLDER_BYTES = len(f"/{PREFIX}12345678/r12345678")
_BOOTSTRAP_CONFIG = "ray_bootstrap_config.yaml"


@contextmanager
def connected(section: EngineSection, workers: int) -> Iterator[None]:
    """Connect this process as a driver of the cluster; an existing connection is kept.

    Parameters
    ----------
    section : EngineSection
        The section ``engine`` of the policy.
    workers : int
        CPUs of a cluster that is started here.

    Raises
    ------
    EnvironmentFailure
        The cluster does not exist, is unreachable or rejects this process.
    UsageError
        ``RAY_ADDRESS`` is the address of a proxy or dashboard (``ray://``, ``http://``).
    """
    address = section.address or os.environ.get("RAY_ADDRESS") or "auto"
    if "://" in address:
        raise UsageError(
            "RAY_ADDRESS is not the host:port of the head of a cluster",
            "Run on a node of the cluster, with host:port of its head in RAY_ADDRESS or engine: address",
        )
    with _variables(_local_cluster_settings() if address == "local" else {}):
        import ray

        if ray.is_initialized():
            yield
            return
        # Ray would print messages about crashed workers.
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), _cluster_joined(address, workers):
            yield


@contextmanager
def _cluster_joined(address: str, workers: int) -> Iterator[None]:
    import ray

    with TemporaryDirectory(prefix="r") as folder:
        try:
            if address == "local":
                _start(Path(folder), workers)
            else:
                _require_listening(address)
                _init(address)
            yield
        finally:
            with _signals_kept():
                ray.shutdown()


def _start(folder: Path, workers: int) -> None:
    """Start a cluster on this machine, reachable only by loopback, with all its files in ``folder``."""
    if len(os.fsencode(folder)) > _MAX_FOLDER_PATH:
        raise UsageError(
            "The path of the temporary folder is too long for the sockets of a Ray cluster",
            f"Set TMPDIR to a folder whose path has at most {_MAX_FOLDER_PATH - _OWN_FOLDER_BYTES} bytes",
        )
    # Without this file, Ray asks cloud providers for the machine type, even with usage statistics off.
    (folder / _BOOTSTRAP_CONFIG).write_text("{}", encoding="ascii")
    with _variables({"HOME": str(folder)}):
        _init(
            "local",
            num_cpus=workers,
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=str(folder),
            _plasma_directory=str(folder),
            # Loopback only: the cluster must not be reachable from the network.
            _node_ip_address=_LOOPBACK,
        )


def _init(address: str, **own: object) -> None:
    import ray

    try:
        with _signals_kept():
            # log_to_driver would print the output of workers, which may quote values.
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, **own)
    except (ConnectionError, OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise EnvironmentFailure(
            f"The Ray cluster cannot be joined ({type(error).__name__})",
            "Start one with ray start, with the same Ray and Python on every node, give its address and token"
            " (engine: address, RAY_AUTH_TOKEN), then run the same command again",
        ) from None


def _require_listening(address: str) -> None:
    """Check the address first: Ray would wait long for an absent cluster, and then exit this process."""
    if address != "auto" and not is_listening(address):
        raise EnvironmentFailure(
            "The Ray cluster does not answer at its address",
            "Start it, or correct engine: address, then run the same command again",
        )


def is_listening(address: str) -> bool:
    """Report whether something listens at ``host:port``; Ray writes an IPv6 host in brackets."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection(
            (host.removeprefix("[").removesuffix("]"), int(port)), _CONNECT_SECONDS
        ).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _local_cluster_settings() -> dict[str, str]:
    """Return settings that keep our own cluster on loopback and protect it with a random token."""
    loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # Ray's name for a cluster of several machines
    if "RAY_AUTH_MODE" in os.environ:
        return loopback
    return loopback | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within a context."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore signal handlers afterwards: Ray replaces that of SIGTERM, which cancels the run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            with suppress(TypeError):  # a handler that was not set from Python
                signal.signal(number, handler)
