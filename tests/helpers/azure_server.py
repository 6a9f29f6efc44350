"""The part of Azure Blob Storage that a run needs: paged lists, heads, ranges, conditional puts."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

ACCOUNT = "devstoreaccount1"
WHEN = "Wed, 01 May 2024 10:00:00 GMT"


@dataclass
class Blobs:
    """Content of the container ``c``, and behavior of the server."""

    objects: dict[str, bytes] = field(default_factory=dict)
    # Objects whose metadata declare them folders (hierarchical namespaces).
    folders: set[str] = field(default_factory=set)
    # Objects that are listed but cannot be read.
    archived: set[str] = field(default_factory=set)
    # Maximum number of entries per response.
    page: int = 5000
    # Prefixes of the lists requested so far.
    lists: list[str] = field(default_factory=list)
    # After this many lists the server responds with ``failing``.
    fail_after: int | None = None
    failing: tuple[int, str, str] = (503, "application/xml", "<Error><Code>ServerBusy</Code></Error>")


class BlobServer:
    """The server, in a thread; ``blobs`` may be replaced at any time."""

    def __init__(self) -> None:
        self.blobs = Blobs()
        server = self

        class Handler(_Handler):
            @property
            def blobs(self) -> Blobs:
                return server.blobs

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def connection(self) -> str:
        """The connection string for clients."""
        key = base64.b64encode(b"no secret").decode()
        endpoint = f"http://127.0.0.1:{self._server.server_address[1]}/{ACCOUNT}"
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={endpoint};"
        )

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    @property
    def blobs(self) -> Blobs:
        raise NotImplementedError

    def do_GET(self) -> None:
        container, name, asked = self._asked()
        if container != "c":
            self._refuse(404, "ContainerNotFound")
        elif asked.get("comp") == "list":
            self._list(asked)
        elif name not in self.blobs.objects:
            self._refuse(404, "BlobNotFound")
        else:
            self._give(name)

    def do_HEAD(self) -> None:
        container, name, _ = self._asked()
        if container != "c" or name not in self.blobs.objects:
            self._refuse(404, "BlobNotFound" if container == "c" else "ContainerNotFound")
        else:
            self._answer(200, self.blobs.objects[name], **self._facts(name))

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        _, name, _ = self._asked()
        if self.headers.get("If-None-Match") == "*" and name in self.blobs.objects:
            self._refuse(409, "BlobAlreadyExists")
            return
        self.blobs.objects[name] = body
        self._answer(201, b"", **self._facts(name))

    def _asked(self) -> tuple[str, str, dict[str, str]]:
        address = urlsplit(self.path)
        path = unquote(address.path).removeprefix(f"/{ACCOUNT}/")
        container, _, name = path.partition("/")
        return container, name, {key: values[0] for key, values in parse_qs(address.query).items()}

    def _list(self, asked: dict[str, str]) -> None:
        self.blobs.lists.append(asked.get("prefix", ""))
        if self.blobs.fail_after is not None and len(self.blobs.lists) > self.blobs.fail_after:
            status, kind, body = self.blobs.failing
            self._answer(status, body.encode(), **{"Content-Type": kind})
            return
        prefix, start = asked.get("prefix", ""), int(asked.get("marker", 0))
        found = sorted(set(self._entries(prefix, asked.get("delimiter", ""))))
        page = found[start : start + self.blobs.page]
        after = str(start + len(page)) if start + len(page) < len(found) else ""
        told = "".join(text for _, text in page)
        body = (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://x/" '
            f'ContainerName="c"><Prefix>{escape(prefix)}</Prefix><Delimiter>/</Delimiter>'
            f"<Blobs>{told}</Blobs><NextMarker>{after}</NextMarker></EnumerationResults>"
        )
        self._answer(200, body.encode(), **{"Content-Type": "application/xml"})

    def _entries(self, prefix: str, delimiter: str) -> Iterator[tuple[str, str]]:
        for name in self.blobs.objects:
            if not name.startswith(prefix):
                continue
            head, slash, _ = name.removeprefix(prefix).partition(delimiter) if delimiter else (name, "", "")
            if slash:
                below = prefix + head + delimiter
                yield below, f"<BlobPrefix><Name>{escape(below)}</Name></BlobPrefix>"
            else:
                yield name, self._blob(name)

    def _blob(self, name: str) -> str:
        marked = (
            "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>" if name in self.blobs.folders else ""
        )
        return (
            f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{WHEN}</Last-Modified>"
            f"<Etag>{self._mark(name)}</Etag><Content-Length>{len(self.blobs.objects[name])}</Content-Length>"
            f"<BlobType>BlockBlob</BlobType></Properties>{marked}</Blob>"
        )

    def _mark(self, name: str) -> str:
        return "0x" + hashlib.sha256(self.blobs.objects[name]).hexdigest()[:15].upper()

    def _facts(self, name: str) -> dict[str, str]:
        facts = {"ETag": f'"{self._mark(name)}"', "Last-Modified": WHEN, "x-ms-blob-type": "BlockBlob"}
        return {**facts, "x-ms-meta-hdi_isfolder": "true"} if name in self.blobs.folders else facts

    def _give(self, name: str) -> None:
        content, facts = self.blobs.objects[name], self._facts(name)
        asked = self.headers.get("x-ms-range") or self.headers.get("Range")
        if name in self.blobs.archived:
            self._refuse(409, "BlobArchived")
            return
        if not asked:
            self._answer(200, content, **facts)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(content)), len(content) - 1)
        if start >= len(content):
            self._refuse(416, "InvalidRange")
            return
        facts["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        self._answer(206, content[start : end + 1], **facts)

    def _refuse(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>{escape(self.path)}</Message></Error>".encode()
        self._answer(status, body, **{"x-ms-error-code": code, "Content-Type": "application/xml"})

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/octet-stream", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
