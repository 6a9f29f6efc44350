"""A relay on loopback between two parties: counts and records what passes, which is TLS."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

CHUNK = 512


class Relay:
    """Passes connections on to a port; nothing of them is decrypted."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self.passed = 0
        self.recorded = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    def forget(self) -> None:
        """Count and record from here on."""
        self.passed, self.recorded = 0, bytearray()

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            try:
                other = socket.create_connection(("127.0.0.1", self.target), timeout=600)
            except OSError:
                one.close()
                continue
            for ends in ((one, other), (other, one)):
                threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        # Small pieces: the moment of a kill can fall between any two.
        with suppress(OSError):
            while piece := source.recv(CHUNK):
                self.passed += len(piece)
                self.recorded += piece
                target.sendall(piece)
        # Each side learns that the other has gone.
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
