"""A DICOM peer: C-FIND to find, C-GET or C-MOVE to fetch."""

from __future__ import annotations

import logging
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.pacs.address import DimsePeer, Instance
from medsanitize.pipeline.pacs.matching import Answer
from medsanitize.pipeline.pacs.patience import NotGiven, NotOffered, Passing

_FIND: Final = "1.2.840.10008.5.1.4.1.2.2.1"
_MOVE: Final = "1.2.840.10008.5.1.4.1.2.2.2"
_GET: Final = "1.2.840.10008.5.1.4.1.2.2.3"
"""Study Root Query/Retrieve Information Model."""
ECHO: Final = "1.2.840.10008.1.1"

_LEVELS: Final = ("STUDY", "SERIES", "IMAGE")
_RETURNED: Final = (
    ("StudyInstanceUID", "NumberOfStudyRelatedSeries"),
    ("SeriesInstanceUID", "NumberOfSeriesRelatedInstances"),
    ("SOPInstanceUID", "SOPClassUID"),
)
_PENDING: Final = (0xFF00, 0xFF01)
_BUSY: Final = range(0xA700, 0xA800)
_UNKNOWN_DESTINATION: Final = 0xA801
_KEPT: Final = 3
"""Associations that are kept: to find, to move, and for C-GET one a SOP class."""
_CONNECT_SECONDS: Final = 10
_ANSWER_SECONDS: Final = 120
_ARRIVAL_SECONDS: Final = 30
_PORT_SECONDS: Final = 300.0
_CHECK_SECONDS: Final = 2.0


class DimseConnection:
    """The associations with one peer, kept from call to call."""

    def __init__(self, peer: DimsePeer) -> None:
        self._who = peer
        self._kept: dict[str, Any] = {}
        self._inbox = _Inbox()
        silence()

    def __repr__(self) -> str:
        return "DimseConnection(...)"

    def close(self) -> None:
        """Release every association."""
        while self._kept:
            let_go(self._kept.popitem()[1])

    def check(self) -> None:
        """Associate for what will be asked; with C-MOVE, make sure that our port is free."""
        self._to_find()
        if self._who.port is None:
            self._to_get("1.2.840.10008.5.1.4.1.1.7")
        else:
            self._to_move()
            with _receiving(self._who, _Inbox(), _CHECK_SECONDS):
                pass

    # -- finding --------------------------------------------------------------------------

    def find(self, above: tuple[str, ...], keys: Mapping[str, str]) -> list[Answer]:
        """One C-FIND at the level below ``above``."""
        returned = _RETURNED[len(above)]
        values = dict.fromkeys(returned, "")
        values |= dict(zip(("StudyInstanceUID", "SeriesInstanceUID"), above, strict=False))
        values |= keys
        identifier = _identifier(_LEVELS[len(above)], values)
        wanted = (*values, "StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")
        found: list[Answer] = []
        with self._failing_safe("find"), quiet():
            for status, answer in self._to_find().send_c_find(identifier, _FIND):
                code = status.get("Status")
                if code in _PENDING and answer is not None:
                    found.append({name: _values(answer, name) for name in wanted})
                elif code != 0:
                    raise Passing(_words("C-FIND", code))
        return found

    # -- fetching -------------------------------------------------------------------------

    def fetch(self, wanted: Instance) -> bytes:
        """One C-GET or C-MOVE at the level of instances; the data set is what was sent, byte for byte."""
        return self._get(wanted) if self._who.port is None else self._move(wanted)

    def _get(self, wanted: Instance) -> bytes:
        if not wanted.sop_class:
            raise NotGiven("a peer that tells no SOP class")
        with self._failing_safe(wanted.sop_class), quiet():
            association = self._to_get(wanted.sop_class)
            self._inbox = _Inbox(wanted.instance)
            code = _final(association.send_c_get(_identifier("IMAGE", _place(wanted)), _GET))
            content, self._inbox = self._inbox.content, _Inbox()
            if content is not None and code in (0, 0xB000):
                return content
            raise _failure("C-GET", code)

    def _move(self, wanted: Instance) -> bytes:
        inbox = _Inbox(wanted.instance)
        with self._failing_safe("move"), quiet(), _receiving(self._who, inbox):
            association = self._to_move()
            identifier = _identifier("IMAGE", _place(wanted))
            code = _final(association.send_c_move(identifier, self._who.calling, _MOVE))
            if code == _UNKNOWN_DESTINATION:
                raise EnvironmentFailure(
                    f"{self._who} does not know {self._who.calling} as a place to move to",
                    f"Enter it there, with this machine's address and port {self._who.port}",
                )
            # Some peers say that it is done before the object is here.
            if code in (0, 0xB000):
                inbox.arrived.wait(_ARRIVAL_SECONDS if code == 0 else 1)
            if inbox.content is not None:
                return inbox.content
            raise _failure("C-MOVE", code)

    # -- associations ---------------------------------------------------------------------

    def _to_find(self) -> Any:
        return self._association("find", [(_FIND, _plain())])

    def _to_move(self) -> Any:
        return self._association("move", [(_MOVE, _plain())])

    def _to_get(self, sop_class: str) -> Any:
        """An association that takes objects of a class in each transfer syntax, so that none is converted."""
        from pynetdicom import evt

        contexts = [(_GET, _plain()), *((sop_class, [syntax]) for syntax in syntaxes())]
        handlers = [(evt.EVT_C_STORE, lambda event: self._inbox.take(event))]
        return self._association(sop_class, contexts, takes=sop_class, handlers=handlers)

    def _association(
        self, name: str, contexts: Sequence[tuple[str, Sequence[str]]], takes: str = "", handlers: Any = ()
    ) -> Any:
        """The association of a name, made anew unless it still stands."""
        kept = self._kept.pop(name, None)
        if kept is None or not kept.is_established:
            while len(self._kept) >= _KEPT:
                let_go(self._kept.pop(next(iter(self._kept))))
            kept = associate(self._who, contexts, takes=takes, handlers=handlers)
            if not any(context.abstract_syntax == contexts[0][0] for context in kept.accepted_contexts):
                let_go(kept)
                offer = _OFFERS[contexts[0][0]]
                raise NotOffered(
                    f"{self._who} does not offer {offer} (study root) to {self._who.calling}",
                    "Let it, or read it another way (retrieve: get or move, or DICOMweb)",
                )
        self._kept[name] = kept
        return kept

    @contextmanager
    def _failing_safe(self, name: str) -> Iterator[None]:
        """After a failure the association is not used again; what the library raises says nothing."""
        try:
            yield
        except (Passing, NotGiven, EnvironmentFailure):
            self._drop(name)
            raise
        except (RuntimeError, ValueError, OSError):
            self._drop(name)
            raise Passing("the association was lost") from None

    def _drop(self, name: str) -> None:
        if name in self._kept:
            let_go(self._kept.pop(name))


_OFFERS: Final = {_FIND: "C-FIND", _GET: "C-GET", _MOVE: "C-MOVE"}


class _Inbox:
    """Where C-STORE of the one object that is awaited ends; all else is turned away."""

    def __init__(self, instance: str = "") -> None:
        self.content: bytes | None = None
        self.arrived = threading.Event()
        self._instance = instance

    def take(self, event: Any) -> int:
        if event.request.AffectedSOPInstanceUID != self._instance or event.request.DataSet is None:
            return 0xA900
        self.content = event.encoded_dataset()
        self.arrived.set()
        return 0x0000


@contextmanager
def _receiving(peer: DimsePeer, inbox: _Inbox, patience: float = _PORT_SECONDS) -> Iterator[None]:
    """Listen at our port while one object is fetched: workers of one machine take turns at it."""
    from pynetdicom import evt

    entity, until = _receiver(peer.calling), time.monotonic() + patience
    handlers = [(evt.EVT_C_STORE, inbox.take), *prompt()]
    while True:
        try:
            server = entity.make_server(("", peer.port), evt_handlers=handlers, server_class=_server())
            break
        except OSError:
            if time.monotonic() > until:
                raise EnvironmentFailure(
                    f"Port {peer.port} of this machine cannot be listened at",
                    "Free it, or name another and tell the PACS",
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


def associate(
    peer: DimsePeer,
    contexts: Sequence[tuple[str, Sequence[str]]],
    *,
    takes: str = "",
    handlers: Any = (),
) -> Any:
    """Associate with a peer.

    Parameters
    ----------
    peer : DimsePeer
    contexts : sequence of (SOP class, transfer syntaxes)
        What is proposed, at most 128.
    takes : str
        SOP class of which the peer may send objects back over the association.
    handlers : sequence
        Handlers of events, as pynetdicom takes them.

    Raises
    ------
    EnvironmentFailure
        The peer refuses us for good.
    Passing
        It cannot be reached, is busy or breaks off.
    """
    from pynetdicom import AE, build_role

    silence()
    entity = AE(ae_title=peer.calling)
    entity.connection_timeout = entity.acse_timeout = _CONNECT_SECONDS
    entity.dimse_timeout = entity.network_timeout = _ANSWER_SECONDS
    entity.maximum_pdu_size = 0
    for syntax, transfer in contexts:
        entity.add_requested_context(syntax, list(transfer))
    roles: list[Any] = [build_role(takes, scp_role=True)] if takes else []
    with quiet():
        association = entity.associate(
            peer.host,
            peer.number,
            ae_title=peer.title,
            ext_neg=roles,
            evt_handlers=[*prompt(), *handlers],
        )
    if association.is_established:
        _serves_nobody(association)
        threading.Thread(target=_ends_with_process, args=(association,), daemon=True).start()
        return association
    answer = association.acceptor.primitive
    if association.is_rejected and answer is not None:
        if answer.result == 0x01:
            raise EnvironmentFailure(
                f"{peer} refuses {peer.calling}: {_REASONS.get(_reason(answer), 'no reason is given')}",
                "Enter this AE title there, or correct AE titles, host and port here",
            )
        raise Passing("it refuses associations for the time being")
    raise Passing("no association could be made")


def _ends_with_process(association: Any) -> None:
    """Break off what is left open when the process ends: the library would wait until the peer does so."""
    ended = threading.main_thread()
    while association.is_alive():
        ended.join(1.0)
        if not ended.is_alive():
            association.abort()
            return


def _serves_nobody(association: Any) -> None:
    """Leave every message to whoever asked for it.

    The association's own thread looks for requests of the peer between two of ours. On a busy machine it may
    still be looking when the next one is sent, and would take its answer away, unseen by anybody.
    """
    get_msg = association.dimse.get_msg

    def only_for_us(block: bool = False) -> Any:
        return (None, None) if threading.current_thread() is association else get_msg(block=block)

    association.dimse.get_msg = only_for_us


def prompt() -> list[Any]:
    """Handlers that neither wait for acknowledgements nor let the peer wait for ours (40 ms a message)."""
    from pynetdicom import evt

    def no_waiting(event: Any) -> None:
        own = event.assoc.dul.socket and event.assoc.dul.socket.socket
        if own:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_QUICKACK"):  # Linux; it wears off, so it is set again and again
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    return [(one, no_waiting) for one in (evt.EVT_CONN_OPEN, evt.EVT_DATA_SENT, evt.EVT_DATA_RECV)]


_REASONS: Final = {
    (1, 3): "it does not know the calling AE title",
    (1, 7): "it does not answer to the called AE title",
    (1, 2): "it does not take this application context",
}


def _reason(answer: Any) -> tuple[int, int]:
    return int(answer.result_source), int(answer.diagnostic)


def let_go(association: Any) -> None:
    """End an association, whatever state it is in."""
    with quiet():
        try:
            if association.is_established:
                association.release()
        except (RuntimeError, ValueError, OSError):
            association.abort()


def syntaxes() -> list[str]:
    """Every transfer syntax that there is."""
    from pynetdicom import ALL_TRANSFER_SYNTAXES

    return [str(one) for one in ALL_TRANSFER_SYNTAXES]


def silence() -> None:
    """Its log quotes identifiers of requests and answers."""
    logger = logging.getLogger("pynetdicom")
    logger.setLevel(logging.CRITICAL + 1)
    logger.propagate = False


@contextmanager
def quiet() -> Iterator[None]:
    """Keep libraries from warning of values that they find odd."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _plain() -> list[str]:
    return ["1.2.840.10008.1.2.1", "1.2.840.10008.1.2"]


def _place(wanted: Instance) -> dict[str, str]:
    return {
        "StudyInstanceUID": wanted.study,
        "SeriesInstanceUID": wanted.series,
        "SOPInstanceUID": wanted.instance,
    }


def _identifier(level: str, values: Mapping[str, str]) -> Any:
    from pydicom import Dataset, config

    identifier = Dataset()
    with config.disable_value_validation():
        identifier.QueryRetrieveLevel = level
        if any(not value.isascii() for value in values.values()):
            identifier.SpecificCharacterSet = "ISO_IR 192"
        for keyword, value in values.items():
            setattr(identifier, keyword, value)
    return identifier


def _values(answer: Any, keyword: str) -> tuple[str, ...]:
    value = answer.get(keyword)
    if value is None or value == "":
        return ()
    return (str(value),) if isinstance(value, str | int | float) else tuple(str(one) for one in value)


def _final(answers: Any) -> int | None:
    """The last status of a C-GET or C-MOVE, None where the peer fell silent."""
    code = None
    for status, _ in answers:
        code = status.get("Status")
    return code


def _failure(service: str, code: int | None) -> Passing | NotGiven:
    if code is None or code in _BUSY:
        return Passing(_words(service, code))
    return NotGiven(_words(service, code))


def _words(service: str, code: int | None) -> str:
    return f"{service} was broken off" if code is None else f"{service} ended with status 0x{code:04X}"
