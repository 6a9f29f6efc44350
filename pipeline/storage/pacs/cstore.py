"""Transmission by C-STORE: the encoded data set is sent unchanged, in a context of its transfer syntax."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from medsanitize.pipeline.storage.pacs.address import DimsePeer
from medsanitize.pipeline.storage.pacs.association import (
    ECHO,
    associate,
    release_association,
    suppress_warnings,
)
from medsanitize.pipeline.storage.pacs.cfind_cget import DimseConnection
from medsanitize.pipeline.storage.pacs.pacs_retry import ObjectRefused, TransientFailure

# Contexts in addition to the one for C-ECHO, which keeps an association open if none of them is accepted.
_MAX_CONTEXTS: Final = 127
# Warning statuses of the Storage service (PS3.4 B.2.3).
_CHANGED: Final = (0xB000, 0xB006, 0xB007)
_BUSY: Final = range(0xA700, 0xA800)


class DimseReceiver:
    """A peer that receives objects: one association per 127 pairs of SOP class and transfer syntax."""

    def __init__(self, peer: DimsePeer, pairs: Sequence[tuple[str, str]]) -> None:
        self._who = peer
        self._asks = DimseConnection(peer)
        self._packs = [pairs[start : start + _MAX_CONTEXTS] for start in range(0, len(pairs), _MAX_CONTEXTS)]
        self._pack_of = {pair: number for number, pack in enumerate(self._packs) for pair in pack}
        self._open: dict[int, Any] = {}

    def check(self) -> None:
        """Open the association for the first objects."""
        self._association(0)

    def present(self, study: str, series: str) -> set[str]:
        """Return the SOP Instance UIDs of a series that the peer has, by C-FIND."""
        answers = self._asks.find((study, series), {})
        return {uid for answer in answers for uid in answer.get("SOPInstanceUID", ())}

    def store(self, file: Path, sop_class: str, transfer_syntax: str) -> bool:
        """Send one C-STORE, read from the file in chunks without decoding."""
        from pynetdicom import _config

        pack = self._pack_of[sop_class, transfer_syntax]
        association = self._association(pack)
        accepted = ((one.abstract_syntax, one.transfer_syntax[0]) for one in association.accepted_contexts)
        if (sop_class, transfer_syntax) not in accepted:
            raise ObjectRefused("class or transfer syntax not accepted")
        # Read and sent in chunks, so that large objects need no memory.
        _config.STORE_SEND_CHUNKED_DATASET = True
        try:
            with suppress_warnings():
                code = association.send_c_store(file).get("Status")
        except (RuntimeError, ValueError, OSError):
            code = None
        if code is None or code in _BUSY:
            # The association may be half dead after a failure; the next call opens a new one.
            release_association(self._open.pop(pack))
            raise TransientFailure(
                "C-STORE was interrupted" if code is None else f"C-STORE status 0x{code:04X}"
            )
        if code != 0 and code not in _CHANGED:
            raise ObjectRefused(f"C-STORE status 0x{code:04X}")
        return bool(code == 0)

    def close(self) -> None:
        """Release every association."""
        self._asks.close()
        while self._open:
            release_association(self._open.popitem()[1])

    def _association(self, pack: int) -> Any:
        kept = self._open.get(pack)
        if kept is None or not kept.is_established:
            contexts = [(ECHO, ["1.2.840.10008.1.2"])]
            contexts += [(sop_class, [syntax]) for sop_class, syntax in self._packs[pack]]
            kept = self._open[pack] = associate(self._who, contexts)
        return kept
