"""Where a peer delivers one object: over the association of a C-GET, or at our own port after a C-MOVE."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.storage.pacs.address import DimsePeer
from medsanitize.pipeline.storage.pacs.association import ECHO, prompt_handlers

_PORT_SECONDS: Final = 300.0


class Inbox:
    """Where C-STORE of the one object that is awaited ends; all else is turned away."""

    def __init__(self, instance: str = "") -> None:
        self.content: bytes | None = None
        self.arrived = threading.Event()
        self._instance = instance

    def take(self, event: Any) -> int:
        """Keep the object if it is the one that is awaited; returns the status of the C-STORE."""
        if event.request.AffectedSOPInstanceUID != self._instance or event.request.DataSet is None:
            return 0xA900
        self.content = event.encoded_dataset()
        self.arrived.set()
        return 0x0000


@contextmanager
def receive_at_port(peer: DimsePeer, inbox: Inbox, patience: float = _PORT_SECONDS) -> Iterator[None]:
    """Listen at our port while one object is fetched: workers of one machine take turns at it."""
    from pynetdicom import evt

    entity, until = _receiver(peer.calling), time.monotonic() + patience
    handlers = [(evt.EVT_C_STORE, inbox.take), *prompt_handlers()]
    while True:
        try:
            server = entity.make_server(("", peer.port), evt_handlers=handlers, server_class=_server())
            break
        except OSError:
            if time.monotonic() > until:
                raise EnvironmentFailure(
                    "The port that C-MOVE delivers to cannot be listened at",
                    "Free it on this machine, or name another in the policy and tell the PACS",
                ) from None
            time.sleep(0.01)
    entity._servers.append(server)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        entity.shutdown()
        thread.join()


@cache
def _receiver(title: str) -> Any:
    """What takes any object in any transfer syntax, called by its own title alone."""
    from pynetdicom import AE, _config

    _config.UNRESTRICTED_STORAGE_SERVICE = True
    entity = AE(ae_title=title)
    entity.require_called_aet = True
    entity.add_supported_context(ECHO)
    return entity


def _server() -> Any:
    from pynetdicom.transport import ThreadedAssociationServer

    return ThreadedAssociationServer
