"""The connection of a near comparison: sealed messages, and the sockets of both processes of the library.

The library's own connections are not encrypted. They end at sockets in a folder that only this user can
enter, and travel between the parties inside one TLS connection with certificates of both sides, which the
asking party opens; so the asking party needs no open port.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse, web

    Connection = ClientWebSocketResponse | web.WebSocketResponse

_SEALED: Final = b"\x00"
_OPEN, _DATA, _CLOSE = b"\x01", b"\x02", b"\x03"
_STREAM: Final = struct.Struct(">cI")
_CHUNK: Final = 1 << 17
_MOST_STREAMS: Final = 32
_MOST_SEALED: Final = 2
# The partner's process may start later than this one.
_CONNECT_SECONDS: Final = 120.0
_RETRY_SECONDS: Final = 0.1
# A partner that reads nothing for so long has died, or holds this party up.
_SEND_SECONDS: Final = 120.0


class LineEnded(Exception):
    """The connection has ended, or carries what no party sends."""


class Line:
    """One end of the connection.

    Parameters
    ----------
    connection : ClientWebSocketResponse or WebSocketResponse
        The open connection.

    Attributes
    ----------
    carried
        Bytes in both directions so far.
    ended
        Set when the connection has ended.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._left = connection, 0
        self._sealed: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._opened: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._own: Path | None = None
        self._next = 0
        self.carried = 0
        self.ended = asyncio.Event()

    async def send(self, sealed: bytes) -> None:
        """Send a sealed message."""
        await self._send(_SEALED + sealed)

    async def receive(self, seconds: float) -> bytes:
        """Return the next sealed message.

        Raises
        ------
        LineEnded
            There is none in time, or no more.
        """
        try:
            sealed = await asyncio.wait_for(self._sealed.get(), seconds)
        except TimeoutError:
            raise LineEnded from None
        if sealed is None:
            self._sealed.put_nowait(None)
            raise LineEnded
        return sealed

    async def read(self) -> None:
        """Distribute what arrives until the connection ends."""
        from aiohttp import WSMsgType

        try:
            async for message in self._connection:
                if message.type != WSMsgType.BINARY or not message.data:
                    break
                self.carried += len(message.data)
                if message.data[:1] != _SEALED:
                    await self._streamed(message.data)
                elif self._sealed.qsize() < _MOST_SEALED:
                    self._sealed.put_nowait(message.data[1:])
                else:
                    break
        except (LineEnded, OSError):
            pass
        finally:
            self.ended.set()
            self._sealed.put_nowait(None)

    @asynccontextmanager
    async def sockets(self, folder: Path, *, first: int, most_bytes: int) -> AsyncIterator[tuple[Path, Path]]:
        """Carry connections between the socket of this party's process and that of the partner's.

        Parameters
        ----------
        folder : Path
            A folder that only this user can enter.
        first : int
            0 at the asking, 1 at the answering party: numbers of connections that begin here.
        most_bytes : int
            Most bytes of the partner's process that are accepted.

        Yields
        ------
        Path, Path
            Where this party's process listens, and where it reaches the partner's.
        """
        self._own, self._next, self._left = folder / "own", first, most_bytes
        server = await asyncio.start_unix_server(self._accepted, folder / "peer", limit=_CHUNK)
        try:
            yield folder / "own", folder / "peer"
        finally:
            server.close()
            self._own = None
            for task in self._tasks:
                task.cancel()
            for writer in self._opened:
                # What is not written yet may have no reader any more.
                writer.transport.abort()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._writers.clear()

    async def _send(self, frame: bytes) -> None:
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await self._connection.send_bytes(frame, compress=0)
        except (OSError, RuntimeError):
            self.ended.set()
            raise LineEnded from None
        self.carried += len(frame)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry a connection that this party's process has opened."""
        number, self._next = self._next, self._next + 2
        self._keep(number, writer)
        with suppress(LineEnded):
            await self._send(_STREAM.pack(_OPEN, number))
            await self._pump(reader, number)

    async def _pump(self, reader: asyncio.StreamReader, number: int) -> None:
        with suppress(OSError):
            while content := await reader.read(_CHUNK):
                await self._send(_STREAM.pack(_DATA, number) + content)
        await self._send(_STREAM.pack(_CLOSE, number))

    async def _streamed(self, frame: bytes) -> None:
        """Pass what the partner's process has sent."""
        self._left -= len(frame)
        if self._own is None or self._left < 0 or len(frame) < _STREAM.size:
            raise LineEnded
        kind, number = _STREAM.unpack_from(frame)
        if kind == _OPEN:
            await self._connect(number, self._own)
        elif kind == _DATA and number in self._writers:
            # A connection that this party's process has closed takes no more; the partner's learns it.
            with suppress(OSError):
                self._writers[number].write(frame[_STREAM.size :])
                await self._writers[number].drain()
        elif kind == _CLOSE and number in self._writers:
            self._writers.pop(number).close()

    async def _connect(self, number: int, own: Path) -> None:
        if number in self._writers or len(self._opened) >= _MOST_STREAMS:
            raise LineEnded
        for _ in range(int(_CONNECT_SECONDS / _RETRY_SECONDS)):
            with suppress(OSError):
                reader, writer = await asyncio.open_unix_connection(own, limit=_CHUNK)
                self._keep(number, writer)
                task = asyncio.create_task(self._carry(reader, number))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                return
            await asyncio.sleep(_RETRY_SECONDS)
        raise LineEnded

    def _keep(self, number: int, writer: asyncio.StreamWriter) -> None:
        self._writers[number] = writer
        self._opened.append(writer)

    async def _carry(self, reader: asyncio.StreamReader, number: int) -> None:
        with suppress(LineEnded):
            await self._pump(reader, number)
