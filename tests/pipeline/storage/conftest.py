"""One S3 server for all tests of stores; every test has buckets of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from medsanitize.pipeline.storage.filesystem import file_system

from tests.helpers.hospital import make_export
from tests.helpers.s3_server import Front, Process, environment, s3_server
from tests.helpers.stores import Store, client_of


@pytest.fixture(scope="session")
def server() -> Iterator[Process]:
    process = s3_server()
    yield process
    process.kill()


@pytest.fixture(scope="session")
def one_front(server: Process) -> Iterator[Front]:
    one = Front(server.port)
    yield one
    one.close()


@pytest.fixture(scope="session")
def client(server: Process) -> Any:
    """A client that talks to the server directly."""
    return client_of(server.port)


_aimed = [0]


@pytest.fixture
def aim(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Turn the program's S3 clients, and those of its processes, to a port."""

    def turn(port: int) -> None:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        if port != _aimed[0]:
            file_system.cache_clear()
        _aimed[0] = port

    return turn


@pytest.fixture
def front(one_front: Front, aim: Callable[[int], None]) -> Front:
    """A server that may spoil answers, between the program and the store; at first it does not."""
    one_front.behave()
    aim(one_front.port)
    return one_front


@pytest.fixture
def store(server: Process, client: Any, front: Front) -> Store:
    """A bucket of the test's own; the program reaches it through the front."""
    bucket = f"b-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=bucket)
    front.behave()
    return Store(server.port, client, bucket)


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of few objects."""
    return make_export(tmp_path_factory.mktemp("few") / "export", objects=5)
