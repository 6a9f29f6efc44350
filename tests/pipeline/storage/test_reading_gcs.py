"""Sources in Google Cloud Storage: folder markers are ignored, objects behind them are listed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from fsspec.config import conf
from medsanitize.pipeline.storage.filesystem import file_system
from medsanitize.pipeline.storage.sources import walk

Walk = Callable[[dict[str, bytes]], dict[str, str]]


class _Bucket(BaseHTTPRequestHandler):
    """Lists and describes the objects of one bucket like the JSON API."""

    objects: dict[str, bytes]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        found = [name for name in sorted(self.objects) if name.startswith(asked.get("prefix", ""))]
        if address.path.endswith("/o"):
            self._answer(200, self._listing(found, asked.get("prefix", ""), asked["delimiter"]))
        else:
            self._answer(404, {"error": {"message": "Not Found"}})

    def _listing(self, found: list[str], prefix: str, delimiter: str) -> dict[str, object]:
        rests = {name: name.removeprefix(prefix).partition(delimiter) for name in found}
        folders = {prefix + head + delimiter for head, slash, _ in rests.values() if slash}
        items = [self._item(name) for name, (_, slash, _) in rests.items() if not slash]
        return {"kind": "storage#objects", "items": items, "prefixes": sorted(folders)}

    def _item(self, name: str) -> dict[str, object]:
        return {"bucket": "b", "name": name, "size": str(len(self.objects[name])), "generation": "1"}

    def _answer(self, status: int, told: dict[str, object]) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Walk]:
    """Walk ``gs://b/in`` in a bucket with these objects; return the kind of each."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bucket", (_Bucket,), {}))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setitem(conf, "gs", {"token": "anon", "endpoint_url": address})
    file_system.cache_clear()

    def sorts(objects: dict[str, bytes]) -> dict[str, str]:
        server.RequestHandlerClass.objects = objects  # type: ignore[attr-defined]
        found = list(walk(("gs://b/in",)))
        assert len({one.path for one in found}) == len(found)
        return {one.path.decode().removeprefix("gs://b/in/"): one.sort for one in found}

    yield sorts
    file_system.cache_clear()
    server.shutdown()
    server.server_close()


def test_a_folder_marker_is_ignored(walked: Walk) -> None:
    objects = {"in/": b"", "in/a": b"x", "in/p/": b"", "in/p/b": b"x", "in/empty/": b""}
    assert walked(objects) == {"a": "file", "p/b": "file"}


@pytest.mark.parametrize("mark", [{}, {"in/": b"", "in/p/": b""}], ids=["without marks", "with marks"])
@pytest.mark.parametrize("name", ["/c", "//c", "/c/d"])
def test_names_with_double_slashes_are_reported_with_and_without_markers(
    walked: Walk, mark: dict[str, bytes], name: str
) -> None:
    assert walked({**mark, "in/a": b"x", f"in/{name}": b"x"}) == {"": "unlisted", "a": "file"}
    assert walked({**mark, "in/p/a": b"x", f"in/p/{name}": b"x"}) == {"p/": "unlisted", "p/a": "file"}


def test_a_non_empty_folder_marker_is_reported(walked: Walk) -> None:
    assert walked({"in/": b"x", "in/a": b"x"}) == {"": "unlisted", "a": "file"}
    assert walked({"in/": b"x", "in//a": b"x"}) == {"": "unlisted"}
