"""A real S3 server in its own process, a connection that can be cut, and a proxy that misbehaves."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# S3 requires five megabytes for all parts but the last, which most tests need not send.
SMALL_PARTS = {"S3_UPLOAD_PART_MIN_SIZE": "1024", "MOTO_S3_DEFAULT_KEY_BUFFER_SIZE": str(5 << 20)}
WIRE = """
import socket, sys, threading
server, port = int(sys.argv[1]), int(sys.argv[2])
door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
door.bind(("127.0.0.1", port))
door.listen(64)
def carry(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    for end in (one, other):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
while True:
    here, _ = door.accept()
    there = socket.create_connection(("127.0.0.1", server))
    for ends in ((here, there), (there, here)):
        threading.Thread(target=carry, args=ends, daemon=True).start()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(port: int, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


class Process:
    """A server process on its own port."""

    def __init__(self, *command: str, port: int, cwd: Path | None = None, **facts: str) -> None:
        self.port = port
        nowhere, facts = subprocess.DEVNULL, {**os.environ, **facts}
        self._child = subprocess.Popen(
            [sys.executable, *command], stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd=cwd, env=facts
        )
        try:
            wait_for(port)
        except OSError:
            self.kill()
            raise

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)
        self._child.wait()


def s3_server(port: int | None = None) -> Process:
    """A server that keeps everything in memory, and loses it at a restart."""
    port = port or free_port()
    command = ("-m", "moto.server", "-H", "127.0.0.1", "-p", str(port))
    return Process(*command, port=port, **SMALL_PARTS)


def s3_server_on_disk(folder: Path, port: int | None = None) -> Process:
    """A server that keeps buckets and pending uploads when it restarts in the same folder."""
    port = port or free_port()
    return Process("-m", "localbucket", str(folder), "--port", str(port), port=port)


def tcp_proxy(server: int, port: int) -> Process:
    return Process("-c", WIRE, str(server), str(port), port=port)


def web_server(folder: Path) -> Process:
    port = free_port()
    command = ("-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder))
    return Process(*command, port=port)


class Answer:
    """A response of the server, to be modified on its way."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


# Method, path and headers of a request -> a response without the server, if any.
Instead = Callable[[str, str, Mapping[str, str]], Answer | None]

# Method, path and response of the server -> response to the client.
Spoil = Callable[[str, str, Answer], Answer]


class Front:
    """A proxy that forwards requests and modifies responses.

    ``before`` gets method and path before the request is forwarded; ``spoil`` gets the response; requests
    answered by ``instead`` never reach the server. A body longer or shorter than stated is sent unchanged
    with the stated length in the headers.
    """

    def __init__(self, server: int) -> None:
        self.behave()
        front, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def handle_any(self) -> None:
                with suppress(ConnectionError):  # the client may have been killed
                    self.answer()
                self.close_connection = True

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                with lock:
                    front.asked.append((self.command, self.path))
                front.before(self.command, self.path)
                answer = front.instead(self.command, self.path, self.headers)
                answer = answer or front.spoil(self.command, self.path, self.forward(body))
                self.send_response(answer.status)
                stated = False
                for name, value in answer.headers:
                    if name.lower() not in ("server", "date", "connection", "transfer-encoding"):
                        stated |= name.lower() == "content-length"
                        self.send_header(name, value)
                if not stated:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.send_header("Connection", "close")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)

            def forward(self, body: bytes) -> Answer:
                headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
                with closing(http.client.HTTPConnection("127.0.0.1", server, timeout=30)) as there:
                    there.request(self.command, self.path, body, headers)
                    with there.getresponse() as response:
                        return Answer(response.status, response.getheaders(), response.read())

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def behave(self) -> None:
        """Forward everything unchanged, and forget the recorded requests."""
        self.before: Callable[[str, str], None] = lambda _method, _path: None
        self.spoil: Spoil = lambda _method, _path, answer: answer
        self.instead: Instead = lambda _method, _path, _headers: None
        self.asked: list[tuple[str, str]] = []

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def environment(port: int) -> dict[str, str]:
    """Environment that directs every S3 client to this port."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
