"""A Google Cloud Storage bucket for tests: objects, lists, and uploads that may fail."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

BUCKET = "b"


@dataclass
class Bucket:
    """Content of the bucket, and its failures.

    It fails a number of uploads at their second part, with ``status`` and the reason ``said``. ``gone``: the
    bucket does not exist; ``refuses``: every request fails in this way.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    sessions: dict[str, tuple[str, bytearray]] = field(default_factory=dict)
    begun: int = 0
    losses: int = 0
    status: int = 404
    said: str = ""
    gone: bool = False
    refuses: bool = False


class GcsServer:
    """The JSON API, as far as the product uses it."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        handler = type("Handler", (_Handler,), {"bucket": self.bucket})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: Bucket

    def log_message(self, *_: object) -> None:
        pass

    @property
    def asked(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}

    def do_GET(self) -> None:
        _, _, name = urlsplit(self.path).path.partition("/o/")
        if self.bucket.gone:
            self._answer(404)
        elif self.bucket.refuses:
            self._lose()
        elif not name:
            self._answer(200, self._listing(self.asked.get("prefix", "")))
        elif unquote(name) not in self.bucket.objects:
            self._answer(404)
        elif self.asked.get("alt") == "media":
            self._send(200, self.bucket.objects[unquote(name)])
        else:
            self._answer(200, self._item(unquote(name)))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.bucket.gone:
            self._answer(404)
        elif self.bucket.refuses:
            self._lose()
        elif "upload_id" in self.asked:
            self._take(self.asked["upload_id"], body)
        elif self.asked["uploadType"] == "resumable":
            self.bucket.begun += 1
            session = str(self.bucket.begun)
            self.bucket.sessions[session] = (self.asked["name"], bytearray())
            self._answer(200, {}, Location=f"http://{self.headers['Host']}{self.path}&upload_id={session}")
        else:
            _, facts, content, _ = re.split(rb"\n?--==0==(?:--|\n[^\n]*\n\n)", body, maxsplit=3)
            self._keep(json.loads(facts)["name"], content)

    def do_DELETE(self) -> None:
        found = self.bucket.sessions.pop(self.asked["upload_id"], None)
        self._answer(self.bucket.status if found is None else 204)

    def _lose(self) -> None:
        self._answer(self.bucket.status, {"error": {"message": self.bucket.said}})

    def _take(self, session: str, part: bytes) -> None:
        first, last, size = map(int, re.findall(r"\d+", self.headers["Content-Range"]))
        if first and self.bucket.losses:
            self.bucket.losses -= 1
            del self.bucket.sessions[session]
        if session not in self.bucket.sessions:
            self._lose()
            return
        name, content = self.bucket.sessions[session]
        content[first:] = part
        if last + 1 < size:
            self._answer(308, None, Range=f"bytes=0-{last}")
        else:
            self._keep(name, bytes(content))

    def _keep(self, name: str, content: bytes) -> None:
        if self.asked.get("ifGenerationMatch") == "0" and name in self.bucket.objects:
            self._answer(412)
            return
        self.bucket.objects[name] = content
        self._answer(200, self._item(name))

    def _listing(self, prefix: str) -> dict[str, object]:
        rests = {
            name: name.removeprefix(prefix).partition("/")
            for name in sorted(self.bucket.objects)
            if name.startswith(prefix)
        }
        folders = {prefix + head + "/" for head, slash, _ in rests.values() if slash}
        items = [self._item(name) for name, (_, slash, _) in rests.items() if not slash]
        return {"kind": "storage#objects", "items": items, "prefixes": sorted(folders)}

    def _item(self, name: str) -> dict[str, object]:
        size = str(len(self.bucket.objects[name]))
        return {"bucket": BUCKET, "name": name, "size": size, "generation": "1"}

    def _answer(self, status: int, told: object = None, **headers: str) -> None:
        self._send(status, b"" if told is None else json.dumps(told).encode(), **headers)

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
