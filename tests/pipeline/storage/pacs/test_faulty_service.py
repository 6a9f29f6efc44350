"""Services that deny access, truncate or return something else, on a small web server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.storage.pacs.address import Instance, WebService, address_of
from medsanitize.pipeline.storage.pacs.dicomweb import WebConnection
from medsanitize.pipeline.storage.pacs.pacs_retry import ObjectRefused, ServiceNotOffered, TransientFailure
from medsanitize.pipeline.storage.pacs.reader import PacsReader
from medsanitize.pipeline.storage.pacs.stow_rs import WebReceiver

WANTED = Instance("1.2", "3.4", "5.6")
Told = tuple[int, bytes]
Answering = Callable[..., WebConnection]
Listening = Callable[[Callable[[BaseHTTPRequestHandler], Told]], WebConnection]


@pytest.fixture
def listening() -> Iterator[Answering]:
    """A connection to a service implemented by a function: a request -> status and body."""
    servers = []

    def make(
        tell: Callable[[BaseHTTPRequestHandler], Told],
        *,
        kind: str = "application/dicom+json",
        promised: int = 0,
    ) -> WebConnection:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = tell(self)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(promised or len(body)))
                if 300 <= status < 400:
                    self.send_header("Location", "https://elsewhere.example.org/")
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return WebConnection(WebService(f"http://127.0.0.1:{server.server_port}/dicom-web"))

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def answering(listening: Answering) -> Answering:
    """A connection to a service that always returns one status, type and body."""

    def make(status: int, body: bytes = b"", *, kind: str = "text/html", promised: int = 0) -> WebConnection:
        return listening(lambda _: (status, body), kind=kind, promised=promised)

    return make


@pytest.mark.parametrize("status", [401, 403])
def test_denied_access_is_not_retried(status: int, answering: Answering) -> None:
    with pytest.raises(EnvironmentFailure, match="denies access"):
        answering(status).check()


@pytest.mark.parametrize("status", [302, 404])
def test_an_address_without_a_service_is_reported(status: int, answering: Answering) -> None:
    with pytest.raises(EnvironmentFailure, match=f"HTTP status {status}"):
        answering(status).check()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_service_is_retried(status: int, answering: Answering) -> None:
    with pytest.raises(TransientFailure):
        answering(status).check()


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"[{", b"7", b'["x"]', b'[{"0020000D": 7}]'])
def test_an_invalid_list_is_empty_or_retried(body: bytes, answering: Answering) -> None:
    try:
        found = answering(200, body, kind="application/dicom+json").find((), {})
    except (TransientFailure, ServiceNotOffered):
        return
    assert not [one for one in found if one.get("StudyInstanceUID")]


def pages(service: Answering, *answers: Told) -> WebConnection:
    """A service with lists of one object per page: the first response at offset 0, and so on."""

    def tell(request: BaseHTTPRequestHandler) -> Told:
        offset = int(parse_qs(urlsplit(request.path).query).get("offset", ["0"])[0])
        return answers[min(offset, len(answers) - 1)]

    return service(tell)


def one_instance(uid: str) -> Told:
    return 200, b'[{"00080018": {"vr": "UI", "Value": ["%b"]}}]' % uid.encode()


FIRST, SECOND = one_instance("1.1"), one_instance("1.2")


@pytest.mark.parametrize("end", [(200, b"[]"), (204, b"")])
def test_a_list_ends_with_an_empty_page(end: Told, listening: Answering) -> None:
    assert len(pages(listening, FIRST, SECOND, end).find(("1", "2"), {})) == 2


@pytest.mark.parametrize("status", [400, 404, 410, 500, 503])
@pytest.mark.parametrize("above", [(), ("1",), ("1", "2")])
def test_a_truncated_list_is_retried(status: int, above: tuple[str, ...], listening: Answering) -> None:
    with pytest.raises(TransientFailure, match=f"HTTP status {status}"):
        pages(listening, FIRST, (status, b"")).find(above, {})


@pytest.mark.parametrize("status", [401, 403])
def test_access_denied_in_the_middle_of_a_list_is_reported(status: int, listening: Answering) -> None:
    with pytest.raises(EnvironmentFailure, match="denies access"):
        pages(listening, FIRST, (status, b"")).find(("1", "2"), {})


@pytest.mark.parametrize("status", [400, 406, 500])
def test_a_failing_service_is_not_treated_as_empty(status: int, answering: Answering) -> None:
    with pytest.raises(TransientFailure):
        answering(status).find(("1", "2"), {})


@pytest.mark.parametrize("status", [204, 404, 410])
def test_a_service_can_report_an_empty_result(status: int, answering: Answering) -> None:
    assert answering(status).find(("1", "2"), {}) == []


def test_a_service_without_paging_is_not_read_partially(listening: Answering) -> None:
    with pytest.raises(ServiceNotOffered, match="same page repeatedly"):
        pages(listening, FIRST).find(("1", "2"), {})


@pytest.mark.parametrize("status", [404, 406, 410, 500])
def test_an_object_that_the_service_does_not_return_is_missing(status: int, answering: Answering) -> None:
    with pytest.raises(ObjectRefused):
        answering(status).fetch(WANTED)


@pytest.mark.parametrize("status", [401, 403])
def test_access_denied_to_an_object_is_not_an_error_of_the_object(status: int, answering: Answering) -> None:
    connection = answering(status)
    address = address_of(b"dicomweb+http://host", "1.2", "3.4", "5.6", "")
    with (
        pytest.raises(EnvironmentFailure, match=f"The PACS denies access .HTTP status {status}"),
        PacsReader(b"dicomweb+http://host", connection).opened(address),
    ):
        pass


@pytest.mark.parametrize("status", [429, 503])
def test_an_object_is_retried_while_the_service_is_busy(status: int, answering: Answering) -> None:
    with pytest.raises(TransientFailure):
        answering(status).fetch(WANTED)


def test_a_truncated_object_is_retried(answering: Answering) -> None:
    with pytest.raises(TransientFailure):
        answering(200, b"DICM" * 100, kind="application/dicom", promised=1000).fetch(WANTED)


def test_an_object_that_is_not_multipart_is_accepted(answering: Answering) -> None:
    assert answering(200, b"DICM" * 100, kind="application/dicom").fetch(WANTED) == b"DICM" * 100


def test_netrc_credentials_are_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listening: Listening
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login steward password hush\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    seen: list[str | None] = []

    def answer(request: BaseHTTPRequestHandler) -> Told:
        seen.append(request.headers["Authorization"])
        return 200, b"[]"

    listening(answer).check()
    assert seen == [None]


def test_a_missing_credential_is_reported_without_its_name() -> None:
    with pytest.raises(UsageError, match="contains no valid credential") as raised:
        WebConnection(WebService("https://host/dicom-web", "token", "eyJhbGciOi"))
    assert "eyJ" not in str(raised.value)


def test_the_three_component_groups_of_a_name_are_kept(answering: Answering) -> None:
    name = b'{"vr": "PN", "Value": [{"Alphabetic": "Doe^John", "Phonetic": "dou"}]}'
    (found,) = answering(200, b'{"00100010": %b}' % name, kind="application/dicom+json")._page((), {}, 0)
    assert found["PatientName"] == ("Doe^John==dou",)


# -- sending ------------------------------------------------------------------------------

TAKEN = {"00081155": {"vr": "UI", "Value": ["1.2"]}}
CHANGED = {**TAKEN, "00081196": {"vr": "US", "Value": [0xB000]}}
REFUSED = {**TAKEN, "00081197": {"vr": "US", "Value": [0x0110]}}
Sends = Callable[[int, object], bool]


@pytest.fixture
def stores(listening: Answering, tmp_path: Path) -> Sends:
    """Send one file to a service that responds with a status and JSON."""
    (tmp_path / "file").write_bytes(b"DICM")

    def send(status: int, said: object) -> bool:
        connection = listening(lambda _: (status, json.dumps(said).encode() if said else b""))
        return WebReceiver(connection._who).store(tmp_path / "file", "", "")

    return send


def stored(*items: object, failed: tuple[object, ...] = ()) -> dict[str, object]:
    sequences = {"00081199": items, "00081198": failed}
    return {tag: {"vr": "SQ", "Value": list(one)} for tag, one in sequences.items() if one}


@pytest.mark.parametrize(
    ("status", "said", "unchanged"),
    [
        (200, stored(TAKEN), True),
        (200, None, True),
        (200, stored(CHANGED), False),
        (202, stored(CHANGED), False),
        (202, stored(TAKEN), True),
    ],
)
def test_stow_objects_listed_as_stored_are_accepted_and_warnings_reported(
    status: int, said: object, unchanged: bool, stores: Sends
) -> None:
    assert stores(status, said) is unchanged


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, stored(failed=(REFUSED,))),
        (202, stored(failed=(REFUSED,))),
        (202, stored(TAKEN, failed=(REFUSED,))),
        (202, None),
        (202, {"00081199": {"vr": "SQ"}}),
        (202, ["x"]),
        (409, stored(failed=(REFUSED,))),
    ],
)
def test_stow_objects_listed_as_failed_or_missing_are_rejected(
    status: int, said: object, stores: Sends
) -> None:
    with pytest.raises(ObjectRefused):
        stores(status, said)
