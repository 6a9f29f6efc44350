"""Credentials of ~/.netrc for a web server are sent over TLS only."""

from __future__ import annotations

import datetime
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from medsanitize.pipeline.storage.filesystem import file_system


def certificate(path: Path) -> Path:
    """A key and its self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    begun = datetime.datetime(2024, 1, 1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, begun, begun.replace(year=2124))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made)
    return path


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Callable[[str], list[bool]]]:
    """Read a file of a server by a URL scheme; whether each request had credentials."""
    servers = []

    def read(scheme: str) -> list[bool]:
        seen: list[bool] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(self.headers["Authorization"] is not None)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        if scheme == "https":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate(tmp_path / "tls.pem"))
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        file_system(scheme).fs.cat_file(f"{scheme}://127.0.0.1:{server.server_port}/x", ssl=False)
        return seen

    yield read
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(("scheme", "carried"), [("https", True), ("http", False)])
def test_netrc_credentials_are_sent_only_over_tls(
    scheme: str,
    carried: bool,
    asked: Callable[[str], list[bool]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login steward password hush\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert asked(scheme) == [carried]
