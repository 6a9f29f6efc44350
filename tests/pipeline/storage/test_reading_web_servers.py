"""Sources on web servers: errors are not absence, and unlisted entries are reported."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.storage import retry
from medsanitize.pipeline.storage.sources import SourceProblem

from tests.helpers.s3_server import Answer, Front, Spoil
from tests.helpers.stores import NAME, failing, list_store, read_entry, truncate


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Front]:
    """A folder with ``a`` and ``p/b`` on a web server, behind a proxy that may modify responses."""
    for name in ("a", "p/b"):
        (tmp_path / "ct" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ct" / name).write_bytes(b"ten bytes.")
    with served(tmp_path) as front:
        yield front


@contextmanager
def served(folder: Path) -> Iterator[Front]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    front = Front(int(server.server_address[1]))
    yield front
    front.close()
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PATIENCE", 0.8)
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.02)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def address_of(front: Front, path: str = "ct/") -> str:
    return f"http://127.0.0.1:{front.port}/{path}"


def only_files(spoil: Spoil) -> Spoil:
    """Modify responses for files only, not for listings."""
    return lambda method, path, answer: answer if path.endswith("/") else spoil(method, path, answer)


# -- failures -----------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, "TooMany")])
def test_a_temporarily_failing_web_server_is_retried(site: Front, status: int, code: str) -> None:
    site.spoil = only_files(failing(status, code, 3))
    found = list_store(address_of(site))
    site.spoil = failing(status, code, 3)
    assert {name: read_entry(one) for name, one in found.items()} == {
        "a": b"ten bytes.",
        "p/b": b"ten bytes.",
    }


@pytest.mark.parametrize("status", [503, 429])
def test_a_web_server_that_keeps_failing_ends_the_run_with_a_retryable_error(
    site: Front, status: int
) -> None:
    found = list_store(address_of(site))["a"]
    site.spoil = only_files(failing(status, "SlowDown", -1))
    with pytest.raises(EnvironmentFailure, match="was unreachable") as walked:
        list_store(address_of(site))
    with pytest.raises(EnvironmentFailure, match="was unreachable") as read:
        read_entry(found)
    assert (walked.value.exit_code, read.value.exit_code) == (5, 5)


@pytest.mark.parametrize("status", [401, 403])
def test_denied_access_ends_the_run_immediately_without_names(site: Front, status: int) -> None:
    found = list_store(address_of(site))["a"]
    site.spoil = only_files(failing(status, NAME, -1))
    with pytest.raises(EnvironmentFailure, match="denies access") as walked:
        list_store(address_of(site))
    with pytest.raises(EnvironmentFailure, match="denies access") as read:
        read_entry(found)
    told = f"{walked.value!r}{walked.value.__cause__!r}{read.value!r}{read.value.__cause__!r}"
    assert NAME not in told
    assert str(site.port) not in told


def test_an_unreachable_web_server_is_not_treated_as_a_missing_file(site: Front) -> None:
    found = list_store(address_of(site))["a"]
    site.close()
    with pytest.raises(EnvironmentFailure, match="was unreachable"):
        read_entry(found)


def test_a_missing_web_server_file_is_a_file_error(site: Front) -> None:
    site.spoil = lambda _, path, answer: Answer(404, [], b"") if path.endswith("/b") else answer
    assert {name: one.sort for name, one in list_store(address_of(site)).items()} == {
        "a": "file",
        "p/b": "unlisted",
    }


def test_a_repeatedly_truncated_listing_ends_the_run_with_a_retryable_error(
    site: Front,
) -> None:
    site.spoil = lambda _, path, answer: truncate(answer) if path.endswith("/p/") else answer
    with pytest.raises(EnvironmentFailure, match="was unreachable") as failure:
        list_store(address_of(site))
    assert failure.value.exit_code == 5


# -- listings -----------------------------------------------------------------------------

APACHE = """<html><head><title>Index of /ct</title></head><body><table>
<tr><th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th></tr>
<tr><td><a href="/">Parent Directory</a></td></tr>
<tr><td><a href="a">a</a></td></tr><tr><td><A HREF='p/'>p/</A></td></tr></table>
<a href="https://httpd.apache.org/">Apache</a></body></html>"""
NGINX = """<html><body><h1>Index of /ct/</h1><hr><pre><a href="../">../</a>
<a href="?C=M&amp;O=A">Date</a> <a href=p/>p/</a> <a href="./a#top">a</a></pre></body></html>"""
CADDY = """<a href="./?sort=name&order=desc">Name</a> <a href="javascript:queryParam('layout', '')">List</a>
<a href="./a">a</a><a href="./p/">p</a>"""
SIGN_IN = """<html><form action="/sign-in"><a href="https://help.example.org/">Help</a>
<a href="?lang=de">Deutsch</a><a href="/forgotten">Forgotten</a></form></html>"""


def saying(page: str, where: str) -> Spoil:
    """A listing with this content, regardless of the folder."""
    told = Answer(200, [("Content-Type", "text/html")], page.encode())
    return lambda _, path, answer: told if path.partition("?")[0] == where else answer


def sorts_of(front: Front) -> dict[str, str]:
    return {name: one.sort for name, one in list_store(address_of(front)).items()}


@pytest.mark.parametrize("page", [APACHE, NGINX, CADDY], ids=["apache", "nginx", "caddy"])
def test_sort_links_and_outside_links_are_ignored(site: Front, page: str) -> None:
    site.spoil = saying(page, "/ct/")
    assert sorts_of(site) == {"a": "file", "p/b": "file"}


@pytest.mark.parametrize("page", [SIGN_IN, "", "<html>We are being repaired.</html>", "\x00\x01<![x["])
def test_a_page_without_a_listing_is_reported_and_an_error_at_the_root(site: Front, page: str) -> None:
    site.spoil = saying(page, "/ct/p/")
    below = sorts_of(site)
    site.spoil = saying(page, "/ct/")
    with pytest.raises(EnvironmentFailure, match="cannot be listed"):
        list_store(address_of(site))
    assert below == {"a": "file", "p": "unlisted"}


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("?page=2", "?page=2"),
        ("?C=N&page=2", "?C=N&page=2"),
        ("c.dcm?version=1", "c.dcm?version=1"),
        ("/CT/c.dcm", "c.dcm"),
        ("https://127.0.0.1/ct/c.dcm", "c.dcm"),
        ("p/c.dcm", "p/c.dcm"),
        ("study:1.dcm", "study:1.dcm"),
        ("http://[", "http://["),
        ("//127.0.0.1:1/ct/c.dcm", "c.dcm"),
    ],
)
def test_a_link_that_cannot_be_followed_is_reported(site: Front, link: str, told: str) -> None:
    site.spoil = saying(f'<a href="{link}">x</a><a href="a">a</a>', "/ct/")
    assert sorts_of(site) == {"a": "file", told: "unlisted"}


def test_links_with_different_encoding_are_followed(site: Front) -> None:
    site.spoil = saying(f'<a href="/c%74/a">a</a><a href="{address_of(site)}p/">p</a>', "/ct/")
    assert sorts_of(site) == {"a": "file", "p/b": "file"}


def test_names_that_begin_like_an_address_are_entries(site: Front, tmp_path: Path) -> None:
    (tmp_path / "ct" / "http-log").write_bytes(b"x")
    assert sorts_of(site) == {"a": "file", "http-log": "file", "p/b": "file"}


# -- redirects ----------------------------------------------------------------------------


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Front]:
    """Another server with the same files."""
    with served(tmp_path) as front:
        yield front


def redirecting(path: str, location: str, status: int = 302) -> Spoil:
    told = Answer(status, [("Location", location)] if location else [], b"")
    return lambda _, asked, answer: told if asked == path else answer


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:{port}/ct/a", "/secret/a", "//127.0.0.1:{port}/ct/a", ""]
)
@pytest.mark.parametrize("status", [301, 303, 308])
def test_a_redirect_to_another_address_is_not_followed(
    site: Front, other: Front, tmp_path: Path, location: str, status: int
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a").write_bytes(b"ten bytes!")
    found = list_store(address_of(site))["a"]
    site.spoil = redirecting("/ct/a", location.format(port=other.port), status)
    assert sorts_of(site) == {"a": "unlisted", "p/b": "file"}
    with pytest.raises(SourceProblem, match="unreadable"):
        read_entry(found)
    assert (other.asked, [path for _, path in site.asked if "secret" in path]) == ([], [])


def test_a_redirected_listing_is_reported_and_an_error_at_the_root(site: Front, other: Front) -> None:
    site.spoil = redirecting("/ct/p/", f"http://127.0.0.1:{other.port}/ct/p/")
    below = sorts_of(site)
    site.spoil = redirecting("/ct/", f"http://127.0.0.1:{other.port}/ct/")
    with pytest.raises(EnvironmentFailure, match="cannot be listed"):
        list_store(address_of(site))
    assert (below, other.asked) == ({"a": "file", "p": "unlisted"}, [])


def test_a_redirect_that_adds_a_slash_is_followed(site: Front) -> None:
    site.spoil = saying('<a href="p">p</a>', "/ct/")
    assert sorts_of(site) == {"p": "file"}
    assert ("GET", "/ct/p/") in site.asked or ("HEAD", "/ct/p/") in site.asked
