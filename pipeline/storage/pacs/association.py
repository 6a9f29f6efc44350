"""Associations with a DICOM peer through pynetdicom: without logging and delays, closed with the process."""

from __future__ import annotations

import logging
import socket
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.storage.pacs.address import DimsePeer
from medsanitize.pipeline.storage.pacs.pacs_retry import TransientFailure

ECHO: Final = "1.2.840.10008.1.1"
_CONNECT_SECONDS: Final = 10
_ANSWER_SECONDS: Final = 120


def associate(
    peer: DimsePeer,
    contexts: Sequence[tuple[str, Sequence[str]]],
    *,
    takes: str = "",
    handlers: Any = (),
) -> Any:
    """Open an association with a peer.

    Parameters
    ----------
    peer : DimsePeer
        The peer.
    contexts : sequence of (SOP class, transfer syntaxes)
        Presentation contexts to propose, at most 128.
    takes : str
        SOP class that the peer may send back over the association (SCP role).
    handlers : sequence
        pynetdicom event handlers.

    Raises
    ------
    EnvironmentFailure
        The peer rejects the association permanently.
    TransientFailure
        The peer is unreachable or busy, or aborts.
    """
    from pynetdicom import AE, build_role

    silence_log()
    entity = AE(ae_title=peer.calling)
    entity.connection_timeout = entity.acse_timeout = _CONNECT_SECONDS
    entity.dimse_timeout = entity.network_timeout = _ANSWER_SECONDS
    # 0 is an unlimited PDU size (PS3.8 D.1).
    entity.maximum_pdu_size = 0
    for syntax, transfer in contexts:
        entity.add_requested_context(syntax, list(transfer))
    roles: list[Any] = [build_role(takes, scp_role=True)] if takes else []
    with suppress_warnings():
        association = entity.associate(
            peer.host,
            peer.number,
            ae_title=peer.title,
            ext_neg=roles,
            evt_handlers=[*prompt_handlers(), *handlers],
        )
    if association.is_established:
        _disable_own_thread(association)
        threading.Thread(target=_abort_at_exit, args=(association,), daemon=True).start()
        return association
    answer = association.acceptor.primitive
    if association.is_rejected and answer is not None:
        # PS3.8 9.3.4: result 1 is a permanent rejection, 2 a transient one.
        if answer.result == 0x01:
            raise EnvironmentFailure(
                f"{peer} rejected the association: {_REASONS.get(_reason(answer), 'no reason given')}",
                "Register our AE title there, or correct AE titles, host and port",
            )
        raise TransientFailure("it rejects associations at present")
    raise TransientFailure("no association could be made")


def _abort_at_exit(association: Any) -> None:
    """Abort an association when the process ends; pynetdicom would wait for the peer."""
    ended = threading.main_thread()
    while association.is_alive():
        ended.join(1.0)
        if not ended.is_alive():
            association.abort()
            return


def _disable_own_thread(association: Any) -> None:
    """Leave every message to the thread that sent the request.

    The association's own thread polls for requests from the peer. On a busy machine it may still be polling
    when the next request is sent, and would take and lose its response.
    """
    get_msg = association.dimse.get_msg

    def get_for_requester(block: bool = False) -> Any:
        return (None, None) if threading.current_thread() is association else get_msg(block=block)

    association.dimse.get_msg = get_for_requester


def prompt_handlers() -> list[Any]:
    """Return handlers that avoid delayed acknowledgements on both sides (40 ms per message)."""
    from pynetdicom import evt

    def acknowledge_at_once(event: Any) -> None:
        own = event.assoc.dul.socket and event.assoc.dul.socket.socket
        if own:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_QUICKACK"):  # Linux; the kernel resets it, so it is set at every event
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    return [(one, acknowledge_at_once) for one in (evt.EVT_CONN_OPEN, evt.EVT_DATA_SENT, evt.EVT_DATA_RECV)]


_REASONS: Final = {
    (1, 3): "it does not know the calling AE title",
    (1, 7): "it does not answer to the called AE title",
    (1, 2): "it does not take this application context",
}


def _reason(answer: Any) -> tuple[int, int]:
    return int(answer.result_source), int(answer.diagnostic)


def release_association(association: Any) -> None:
    """Close an association, whatever state it is in."""
    with suppress_warnings():
        try:
            if association.is_established:
                association.release()
        except (RuntimeError, ValueError, OSError):
            association.abort()


def all_transfer_syntaxes() -> list[str]:
    """List every transfer syntax that pynetdicom knows."""
    from pynetdicom import ALL_TRANSFER_SYNTAXES

    return [str(one) for one in ALL_TRANSFER_SYNTAXES]


def silence_log() -> None:
    """Turn off pynetdicom's log, which quotes identifiers of requests and responses."""
    logger = logging.getLogger("pynetdicom")
    logger.setLevel(logging.CRITICAL + 1)
    logger.propagate = False


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress library warnings about unusual values, because they quote the values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
