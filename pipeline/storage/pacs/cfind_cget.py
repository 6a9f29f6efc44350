"""Query and retrieval over DIMSE: C-FIND, then C-GET or C-MOVE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.storage.pacs.address import DimsePeer, Instance
from medsanitize.pipeline.storage.pacs.association import (
    all_transfer_syntaxes,
    associate,
    release_association,
    silence_log,
    suppress_warnings,
)
from medsanitize.pipeline.storage.pacs.match_keys import Answer
from medsanitize.pipeline.storage.pacs.pacs_retry import ObjectRefused, ServiceNotOffered, TransientFailure
from medsanitize.pipeline.storage.pacs.scp import Inbox, receive_at_port

_FIND: Final = "1.2.840.10008.5.1.4.1.2.2.1"
_MOVE: Final = "1.2.840.10008.5.1.4.1.2.2.2"
# Study Root Query/Retrieve Information Model (PS3.4 C.6.2).
_GET: Final = "1.2.840.10008.5.1.4.1.2.2.3"

_LEVELS: Final = ("STUDY", "SERIES", "IMAGE")
_RETURNED: Final = (
    ("StudyInstanceUID", "NumberOfStudyRelatedSeries"),
    ("SeriesInstanceUID", "NumberOfSeriesRelatedInstances"),
    ("SOPInstanceUID", "SOPClassUID"),
)
_PENDING: Final = (0xFF00, 0xFF01)
_BUSY: Final = range(0xA700, 0xA800)
_UNKNOWN_DESTINATION: Final = 0xA801
# Associations kept open: for C-FIND, for C-MOVE, and one per SOP class for C-GET.
_MAX_ASSOCIATIONS: Final = 3
_ARRIVAL_SECONDS: Final = 30
_CHECK_SECONDS: Final = 2.0


class DimseConnection:
    """The associations with one peer, reused between calls."""

    def __init__(self, peer: DimsePeer) -> None:
        self._who = peer
        self._kept: dict[str, Any] = {}
        self._inbox = Inbox()
        silence_log()

    def __repr__(self) -> str:
        return "DimseConnection(...)"

    def close(self) -> None:
        """Release every association."""
        while self._kept:
            release_association(self._kept.popitem()[1])

    def check(self) -> None:
        """Open the associations that a run needs."""
        self._find_association()
        if self._who.port is None:
            # Secondary Capture, the class that archives are most likely to store.
            self._get_association("1.2.840.10008.5.1.4.1.1.7")
        else:
            self._move_association()

    def check_port(self) -> None:
        """Check, for C-MOVE, that our port is free."""
        if self._who.port is not None:
            with receive_at_port(self._who, Inbox(), _CHECK_SECONDS):
                pass

    # -- finding --------------------------------------------------------------------------

    def find(self, above: tuple[str, ...], keys: Mapping[str, str]) -> list[Answer]:
        """Send one C-FIND at the level below ``above``."""
        returned = _RETURNED[len(above)]
        values = dict.fromkeys(returned, "")
        values |= dict(zip(("StudyInstanceUID", "SeriesInstanceUID"), above, strict=False))
        values |= keys
        identifier = _identifier(_LEVELS[len(above)], values)
        wanted = (*values, "StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")
        found: list[Answer] = []
        with self._replaced_errors("find"), suppress_warnings():
            for status, answer in self._find_association().send_c_find(identifier, _FIND):
                code = status.get("Status")
                if code in _PENDING and answer is not None:
                    found.append({name: _values(answer, name) for name in wanted})
                elif code != 0:  # a list that ends early must not pass for a complete one
                    raise TransientFailure(_describe_status("C-FIND", code))
        return found

    # -- fetching -------------------------------------------------------------------------

    def fetch(self, wanted: Instance) -> bytes:
        """Retrieve one instance by C-GET or C-MOVE; the data set is what the peer sent, byte for byte."""
        return self._get(wanted) if self._who.port is None else self._move(wanted)

    def _get(self, wanted: Instance) -> bytes:
        if not wanted.sop_class:
            raise ObjectRefused("a peer that reports no SOP class")
        with self._replaced_errors(wanted.sop_class), suppress_warnings():
            association = self._get_association(wanted.sop_class)
            self._inbox = Inbox(wanted.instance)
            code = _final(association.send_c_get(_identifier("IMAGE", _uids_of(wanted)), _GET))
            content, self._inbox = self._inbox.content, Inbox()
            # 0xB000: some sub-operations failed, but the awaited object may be here.
            if content is not None and code in (0, 0xB000):
                return content
            raise _failure("C-GET", code)

    def _move(self, wanted: Instance) -> bytes:
        inbox = Inbox(wanted.instance)
        with self._replaced_errors("move"), suppress_warnings(), receive_at_port(self._who, inbox):
            association = self._move_association()
            identifier = _identifier("IMAGE", _uids_of(wanted))
            code = _final(association.send_c_move(identifier, self._who.calling, _MOVE))
            if code == _UNKNOWN_DESTINATION:
                raise EnvironmentFailure(
                    f"{self._who} does not know our AE title as a C-MOVE destination",
                    "Register it there, with this machine's address and the port of the policy",
                )
            # Some peers report completion before the object has arrived.
            if code in (0, 0xB000):
                inbox.arrived.wait(_ARRIVAL_SECONDS if code == 0 else 1)
            if inbox.content is not None:
                return inbox.content
            raise _failure("C-MOVE", code)

    # -- associations ---------------------------------------------------------------------

    def _find_association(self) -> Any:
        return self._association("find", [(_FIND, _uncompressed_syntaxes())])

    def _move_association(self) -> Any:
        return self._association("move", [(_MOVE, _uncompressed_syntaxes())])

    def _get_association(self, sop_class: str) -> Any:
        """Open an association with one context per transfer syntax, so that the peer converts nothing."""
        from pynetdicom import evt

        contexts = [
            (_GET, _uncompressed_syntaxes()),
            *((sop_class, [syntax]) for syntax in all_transfer_syntaxes()),
        ]
        handlers = [(evt.EVT_C_STORE, lambda event: self._inbox.take(event))]
        return self._association(sop_class, contexts, takes=sop_class, handlers=handlers)

    def _association(
        self, name: str, contexts: Sequence[tuple[str, Sequence[str]]], takes: str = "", handlers: Any = ()
    ) -> Any:
        """Return the open association of this name, or open it."""
        kept = self._kept.pop(name, None)
        if kept is None or not kept.is_established:
            # The oldest is released: peers limit the number of associations per caller.
            while len(self._kept) >= _MAX_ASSOCIATIONS:
                release_association(self._kept.pop(next(iter(self._kept))))
            kept = associate(self._who, contexts, takes=takes, handlers=handlers)
            if not any(context.abstract_syntax == contexts[0][0] for context in kept.accepted_contexts):
                release_association(kept)
                offer = _OFFERS[contexts[0][0]]
                raise ServiceNotOffered(
                    f"{self._who} does not offer {offer} (study root) to us",
                    "Let it, or read it another way (retrieve: get or move, or DICOMweb)",
                )
        self._kept[name] = kept
        return kept

    @contextmanager
    def _replaced_errors(self, name: str) -> Iterator[None]:
        """Drop the association after a failure, and replace library errors, which may quote values."""
        try:
            yield
        except (TransientFailure, ObjectRefused, EnvironmentFailure):
            self._drop(name)
            raise
        except (RuntimeError, ValueError, OSError):
            self._drop(name)
            raise TransientFailure("the association was lost") from None

    def _drop(self, name: str) -> None:
        if name in self._kept:
            release_association(self._kept.pop(name))


_OFFERS: Final = {_FIND: "C-FIND", _GET: "C-GET", _MOVE: "C-MOVE"}


def _uncompressed_syntaxes() -> list[str]:
    return ["1.2.840.10008.1.2.1", "1.2.840.10008.1.2"]


def _uids_of(wanted: Instance) -> dict[str, str]:
    return {
        "StudyInstanceUID": wanted.study,
        "SeriesInstanceUID": wanted.series,
        "SOPInstanceUID": wanted.instance,
    }


def _identifier(level: str, values: Mapping[str, str]) -> Any:
    from pydicom import Dataset, config

    identifier = Dataset()
    # Query values may contain wildcards, which are invalid in a stored UID or date.
    with config.disable_value_validation():
        identifier.QueryRetrieveLevel = level
        # PS3.5 6.1.2.3: names beyond ASCII need a character set; UTF-8 is ISO_IR 192.
        if any(not value.isascii() for value in values.values()):
            identifier.SpecificCharacterSet = "ISO_IR 192"
        for keyword, value in values.items():
            setattr(identifier, keyword, value)
    return identifier


def _values(answer: Any, keyword: str) -> tuple[str, ...]:
    from pydicom.multival import MultiValue

    value = answer.get(keyword)
    if value is None or value == "":
        return ()
    # PersonName is iterable as well: character by character.
    return tuple(str(one) for one in value) if isinstance(value, list | MultiValue) else (str(value),)


def _final(answers: Any) -> int | None:
    """Return the last status of a C-GET or C-MOVE, or None if the peer stopped answering."""
    code = None
    for status, _ in answers:
        code = status.get("Status")
    return code


def _failure(service: str, code: int | None) -> TransientFailure | ObjectRefused:
    if code is None or code in _BUSY:
        return TransientFailure(_describe_status(service, code))
    return ObjectRefused(_describe_status(service, code))


def _describe_status(service: str, code: int | None) -> str:
    return f"{service} was interrupted" if code is None else f"{service} ended with status 0x{code:04X}"
