"""The receiving side of C-GET (same association) and C-MOVE (our port)."""

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
    """Accepts C-STORE of the one expected object and rejects all others."""

    def __init__(self, instance: str = "") -> None:
        self.content: bytes | None = None
        self.arrived = threading.Event()
        self._instance = instance

    def take(self, event: Any) -> int:
        """Store the object if it is the expected one; return the C-STORE status."""
        # Any other object is refused: the port is open to everyone who can reach it.
        if event.request.AffectedSOPInstanceUID != self._instance or event.request.DataSet is None:
            # 0xA900: data set does not match SOP class, the closest refusal of PS3.4 B.2.3.
            return 0xA900
        self.content = event.encoded_dataset()
        self.arrived.set()
        return 0x0000


@contextmanager
def receive_at_port(peer: DimsePeer, inbox: Inbox, patience: float = _PORT_SECONDS) -> Iterator[None]:
    """Listen at our port while one object is retrieved; workers of one machine take turns."""
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
                    "Cannot bind the C-MOVE destination port",
                    "Free it on this machine, or change it in the policy and in the PACS",
                ) from None
            time.sleep(0.01)
    # pynetdicom ends this server only on shutdown if it is registered.
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
    """Create the entity that accepts any SOP class and transfer syntax, called by its own AE title only."""
    from pynetdicom import AE, _config

    _config.UNRESTRICTED_STORAGE_SERVICE = True
    entity = AE(ae_title=title)
    entity.require_called_aet = True
    entity.add_supported_context(ECHO)
    return entity


def _server() -> Any:
    from pynetdicom.transport import ThreadedAssociationServer

    return ThreadedAssociationServer
