"""A desk as its own process, and a client that sends what a browser, or an attacker, would send."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit


@dataclass
class Answer:
    """Status, headers and text of an answer."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class DeskProcess:
    """A running desk."""

    process: subprocess.Popen[str]
    address: str
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def request(self, method: str, path: str, body: str = "", **headers: str) -> Answer:
        """Send one request; keyword arguments are headers, with ``_`` for ``-``."""
        sent = {"Host": self.host, "Cookie": f"desk={self.cookie}" if self.cookie else ""}
        if method == "POST":
            sent |= {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", int(self.host.rpartition(":")[2]), timeout=30)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {**sent, "Content-Length": str(len(body.encode()))}.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders(body.encode())
        answer = connection.getresponse()
        found = Answer(answer.status, dict(answer.getheaders()), answer.read().decode("utf-8", "replace"))
        connection.close()
        return found

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, **headers)

    def post(self, path: str, **fields: str) -> Answer:
        return self.request("POST", path, urlencode(fields))

    def enter(self) -> Answer:
        """Use the one-time token."""
        parts = urlsplit(self.address)
        answer = self.get(f"{parts.path}?{parts.query}")
        self.cookie = answer.headers.get("set-cookie", "").partition("desk=")[2].partition(";")[0]
        return answer


@contextmanager
def open_desk(*roots: Path, **options: str) -> Iterator[DeskProcess]:
    """Start a desk on these folders, and stop it."""
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    command = [sys.executable, "-m", "medsanitize", "desk", *map(str, roots), "--no-browser", "--json"]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/"
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield DeskProcess(process, json.loads(line)["address"])
    finally:
        process.terminate()
        process.communicate(timeout=20)
