"""One S3 server for all store tests; every test has its own buckets."""

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
    """A client connected to the server directly."""
    return client_of(server.port)


_aimed = [0]


@pytest.fixture
def aim(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Direct the S3 clients of the product and its processes to a port."""

    def turn(port: int) -> None:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        if port != _aimed[0]:
            file_system.cache_clear()
        _aimed[0] = port

    return turn


@pytest.fixture
def front(one_front: Front, aim: Callable[[int], None]) -> Front:
    """A proxy between the product and the store that may modify responses; initially it does not."""
    one_front.behave()
    aim(one_front.port)
    return one_front


@pytest.fixture
def store(server: Process, client: Any, front: Front) -> Store:
    """The bucket of a test; the product reaches it through the proxy."""
    bucket = f"b-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=bucket)
    front.behave()
    return Store(server.port, client, bucket)


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of few objects."""
    return make_export(tmp_path_factory.mktemp("few") / "export", objects=5)
