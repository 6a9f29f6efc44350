"""Joining a Ray cluster for the time of a run, or starting one on this machine."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.policies.model import Engine as EngineSection

_STORE = 512 * 2**20  # rows alone go through it
_REACH = 5.0


@contextmanager
def connected(section: EngineSection, workers: int) -> Iterator[None]:
    """Be a driver of the cluster; a program that is one already stays it.

    Parameters
    ----------
    workers : int
        CPUs of a cluster that is started here.

    Raises
    ------
    EnvironmentFailure
        There is no such cluster, it cannot be reached, or it does not admit this program.
    UsageError
        ``RAY_ADDRESS`` is that of a proxy or of a dashboard (``ray://``, ``http://``).
    """
    address = section.address or os.environ.get("RAY_ADDRESS") or "auto"
    if "://" in address:
        raise UsageError(
            "RAY_ADDRESS is not the address of the head of a cluster, which is host:port",
            "Run on a node of the cluster, with host:port of its head in RAY_ADDRESS or engine: address",
        )
    with _environment(own=address == "local"):
        import ray

        if ray.is_initialized():
            yield
            return
        # Ray would print of workers that died.
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), _joined(address, workers):
            yield


@contextmanager
def _joined(address: str, workers: int) -> Iterator[None]:
    import ray

    folder = tempfile.mkdtemp(prefix="ms-ray-") if address == "local" else None
    try:
        if folder is not None:
            _init(address, num_cpus=workers, object_store_memory=_STORE, _temp_dir=folder)
        else:
            _require_listening(address)
            _init(address)
        yield
    finally:
        with _signals_kept():
            ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _init(address: str, **own: object) -> None:
    import ray

    if own:
        own["include_dashboard"] = False
    try:
        with _signals_kept():
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, **own)
    except (ConnectionError, OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise EnvironmentFailure(
            f"The Ray cluster cannot be joined ({type(error).__name__})",
            "Start one with ray start, with the same Ray and Python on every node, give its address and token"
            " (engine: address, RAY_AUTH_TOKEN), then run the same command again",
        ) from None


def _require_listening(address: str) -> None:
    """Ray itself would wait long for a cluster that is not there, and then end this process."""
    if address != "auto" and not answers(address):
        raise EnvironmentFailure(
            "The Ray cluster does not answer at its address",
            "Start it, or correct engine: address, then run the same command again",
        )


def answers(address: str) -> bool:
    """Whether something listens at ``host:port``; Ray writes an IPv6 host in brackets."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.removeprefix("[").removesuffix("]"), int(port)), _REACH).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


@contextmanager
def _environment(*, own: bool) -> Iterator[None]:
    """Ray tells its makers nothing; a cluster of our own has a token that is written nowhere."""
    wanted = {"RAY_USAGE_STATS_ENABLED": "0"}
    if own and "RAY_AUTH_MODE" not in os.environ:
        wanted |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
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
    """Ray takes SIGTERM for itself, and the run would no longer hear of it."""
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
