"""The process that decodes foreign code streams: if a codec ends it, one object is lost and nothing else.

Each process that decodes has one, started for its first stream and again after a crash. Requests and answers
are a line of JSON and raw bytes, never pickles: a codec that a hostile stream has taken over must not be able
to make its parent run anything.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any

import numpy as np
from medsanitize.errors import EnvironmentFailure
from medsanitize.sanitize.child_process import ChildProcess, own_pipes, start_child
from medsanitize.sanitize.formats.dicom.codecs import CodeStream, Samples, decode_stream
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.frame_header import FrameHeader
from medsanitize.sanitize.quarantine import Quarantined

_DTYPES = frozenset(["|u1", "|i1", "<u2", "<i2", "<u4", "<i4"])
# Largest cell that a codec returns, in bytes.
_MOST_CELL = 4
# Seconds after which a codec that still runs on one frame counts as crashed.
_LONGEST = 120.0


class _Crashed(Exception):
    """The decoder process ended before its answer was complete."""


class _Decoder:
    """The decoder process of this process; one stream at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: ChildProcess | None = None

    def forget(self) -> None:
        """Leave the decoder process to the parent, in a process that was forked from it."""
        self._lock, self._running = threading.Lock(), None

    def decode(self, stream: CodeStream) -> Samples:
        with self._lock:
            # Twice, since the first crash may have had another cause, such as memory.
            for _ in range(2):
                with suppress(_Crashed):
                    found = self._ask(stream)
                    break
            else:
                raise Quarantined("decoder-crashed", "pixels")
        if found is None:
            raise Quarantined("pixels-undecodable", "pixels")
        return found

    def _ask(self, stream: CodeStream) -> Samples | None:
        if self._running is None:
            self._running = _start()
        done = False
        try:
            with self._running.within(_LONGEST):
                _send(self._running.requests, _described(stream), stream.data)
                found = _received(self._running.answers, stream.geometry)
            done = True
            return found
        except OSError:
            raise _Crashed from None
        finally:
            # Also after an interruption: the rest of this answer must not be taken for the next one.
            if not done:
                self._end()

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.end()


_decoder = _Decoder()
os.register_at_fork(after_in_child=_decoder.forget)


def decode_apart(stream: CodeStream) -> Samples:
    """Decode one frame in the decoder process.

    Raises
    ------
    Quarantined
        ``decoder-crashed`` if the process ended on the stream, twice; ``pixels-undecodable``.
    """
    return _decoder.decode(stream)


def _start() -> ChildProcess:
    # A process that does not start says nothing about the stream.
    if (started := start_child(__name__)) is None:
        raise EnvironmentFailure(
            "The decoder process could not be started", "Free some memory, then run the same again"
        )
    return started


def _described(stream: CodeStream) -> dict[str, Any]:
    return {
        "codec": stream.codec,
        "uid": stream.uid,
        "geometry": asdict(stream.geometry),
        "stated": asdict(stream.stated),
    }


def _send(pipe: IO[bytes], head: dict[str, Any], data: bytes | memoryview) -> None:
    pipe.write(json.dumps({**head, "bytes": len(data)}).encode() + b"\n")
    pipe.write(data)
    pipe.flush()


def _received(pipe: IO[bytes], geometry: Geometry) -> Samples | None:
    """Read an answer, trusting nothing of it; None if the codec refused the stream."""
    most = geometry.rows * geometry.columns * max(geometry.samples, 1) * _MOST_CELL
    try:
        head = json.loads(_line(pipe))
        if head.get("refused"):
            return None
        dtype, shape, size = str(head["dtype"]), [int(one) for one in head["shape"]], int(head["bytes"])
        if dtype not in _DTYPES or not 0 <= size <= most:
            raise Quarantined("pixel-geometry-differs", "pixels")
        return np.frombuffer(_exactly(pipe, size), dtype).reshape(shape)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _Crashed from None


def _line(pipe: IO[bytes]) -> bytes:
    line = pipe.readline(1 << 16)
    if not line.endswith(b"\n"):
        raise _Crashed
    return line


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise _Crashed
    return data


# -- in the decoder process -----------------------------------------------------------------


def serve() -> None:
    """Answer requests until the parent closes the pipe."""
    requests, answers = own_pipes()
    while line := requests.readline():
        head = json.loads(line)
        stream = CodeStream(
            requests.read(head["bytes"]),
            head["codec"],
            head["uid"],
            Geometry(**head["geometry"]),
            FrameHeader(**head["stated"]),
        )
        _answer(answers, stream)


def _answer(pipe: IO[bytes], stream: CodeStream) -> None:
    try:
        found = np.ascontiguousarray(decode_stream(stream))
        found = found.astype(found.dtype.newbyteorder("<"), copy=False)
    except Exception:  # noqa: BLE001  codecs raise anything, and their messages may quote values
        _send(pipe, {"refused": True}, b"")
        return
    _send(pipe, {"dtype": found.dtype.str, "shape": found.shape}, found.tobytes())
