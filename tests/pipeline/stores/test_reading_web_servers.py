"""Sources on web servers: what fails is not absent, and what a page does not show is not nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.stores import patience

from tests.pipeline.stores.server import Answer, Front, Spoil
from tests.pipeline.stores.test_reading_stores import NAME, content_of, cut, failing, found_in


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Front]:
    """A folder with ``a`` and ``p/b`` on a web server, behind a front that may spoil answers."""
    for name in ("a", "p/b"):
        (tmp_path / "ct" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ct" / name).write_bytes(b"ten bytes.")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    front = Front(int(server.server_address[1]))
    yield front
    front.close()
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.8)
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.02)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def address_of(front: Front, path: str = "ct/") -> str:
    return f"http://127.0.0.1:{front.port}/{path}"


def only_files(spoil: Spoil) -> Spoil:
    """Spoil answers about files alone, not listings."""
    return lambda method, path, answer: answer if path.endswith("/") else spoil(method, path, answer)


# -- failures -----------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, "TooMany")])
def test_a_web_server_that_fails_for_a_while_is_asked_again(site: Front, status: int, code: str) -> None:
    site.spoil = only_files(failing(status, code, 3))
    found = found_in(address_of(site))
    site.spoil = failing(status, code, 3)
    assert {name: content_of(one) for name, one in found.items()} == {
        "a": b"ten bytes.",
        "p/b": b"ten bytes.",
    }


@pytest.mark.parametrize("status", [503, 429])
def test_a_web_server_that_keeps_failing_half_way_ends_the_run_with_an_error_that_may_be_repeated(
    site: Front, status: int
) -> None:
    found = found_in(address_of(site))["a"]
    site.spoil = only_files(failing(status, "SlowDown", -1))
    with pytest.raises(EnvironmentFailure, match="could not be reached") as walked:
        found_in(address_of(site))
    with pytest.raises(EnvironmentFailure, match="could not be reached") as read:
        content_of(found)
    assert (walked.value.exit_code, read.value.exit_code) == (5, 5)


@pytest.mark.parametrize("status", [401, 403])
def test_a_web_server_that_refuses_access_ends_the_run_at_once_without_any_name(
    site: Front, status: int
) -> None:
    found = found_in(address_of(site))["a"]
    site.spoil = only_files(failing(status, NAME, -1))
    with pytest.raises(EnvironmentFailure, match="refuses access") as walked:
        found_in(address_of(site))
    with pytest.raises(EnvironmentFailure, match="refuses access") as read:
        content_of(found)
    told = f"{walked.value!r}{walked.value.__cause__!r}{read.value!r}{read.value.__cause__!r}"
    assert NAME not in told
    assert str(site.port) not in told


def test_a_web_server_that_is_gone_is_not_taken_for_one_whose_file_is_gone(site: Front) -> None:
    found = found_in(address_of(site))["a"]
    site.close()
    with pytest.raises(EnvironmentFailure, match="could not be reached"):
        content_of(found)


def test_a_file_of_a_web_server_that_is_gone_is_that_files_own_fault(site: Front) -> None:
    site.spoil = lambda _, path, answer: Answer(404, [], b"") if path.endswith("/b") else answer
    assert {name: one.sort for name, one in found_in(address_of(site)).items()} == {
        "a": "file",
        "p/b": "unlisted",
    }


def test_a_listing_that_is_cut_off_each_time_ends_the_run_with_an_error_that_may_be_repeated(
    site: Front,
) -> None:
    site.spoil = lambda _, path, answer: cut(answer) if path.endswith("/p/") else answer
    with pytest.raises(EnvironmentFailure, match="could not be reached") as failure:
        found_in(address_of(site))
    assert failure.value.exit_code == 5
