"""A private comparison of two invented parties, recorded as each side sees it.

The protocol is the real one; only the parties are made for the occasion and forgotten. Both have the same
items and reveal which are common, so that it is known which item each blinded one is: the attack on what was
recorded is judged by that, and is not told. Blinded items look the same where only a number is revealed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from medsanitize.federation.messages.sealed import open_sealed
from medsanitize.federation.parties.identity import LocalParty, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.private_overlap.answer import Offer, answer
from medsanitize.federation.private_overlap.ask import Asking, proceed, start
from medsanitize.federation.private_overlap.terms import Comparison, PartnerTerms
from medsanitize.verifiers.reid.recovery.blinded_points import points_in

_NAMES: Final = ("asking", "answering")


@dataclass(frozen=True, slots=True, repr=False)
class RecordedOverlap:
    """Blinded items by who sees them.

    Attributes
    ----------
    seen_by_asking
        Points of the answering party's items, in their order in the message.
    asking_truth
        Which item each of them is.
    seen_by_answering
        Points of the asking party's items.
    answering_truth
        Which item each of them is.
    """

    seen_by_asking: Sequence[bytes]
    asking_truth: Sequence[int]
    seen_by_answering: Sequence[bytes]
    answering_truth: Sequence[int]


def record_overlap(items: Sequence[bytes], library: Path) -> RecordedOverlap:
    """Compare items with themselves between two parties in one process.

    Parameters
    ----------
    items : sequence of bytes
        Different items.
    library : Path
        Folder of the library for private set intersection.

    Raises
    ------
    UsageError
        The library is not installed there.
    """
    terms = PartnerTerms((Comparison(what="pixels", reveal="items", contract=""),), smallest=1)
    with tempfile.TemporaryDirectory() as folder:
        asking, answering = _parties(Path(folder))
        offer = Offer({_NAMES[0]: terms}, lambda _: {"pixels": items}, library)
        asker = Asking(asking, answering.identity, terms, {"pixels": items}, library)
        asked, hello = start(asker)
        asked, request = proceed(asker, asked, answer(answering, offer, hello))
        if request is None:
            raise RuntimeError("a session that ends with its second message")
        response = answer(answering, offer, request)
        sent = _parts(answering, asking, request)
        returned = _parts(asking, answering, response)
    blinded, own = points_in(sent["pixels"]), points_in(returned["pixels-setup"])
    # Items are sent in the order of their bytes, and come back in that order.
    order = sorted(range(len(items)), key=items.__getitem__)
    doubly = {
        point[1:]: place for place, point in zip(order, points_in(returned["pixels-response"]), strict=True)
    }
    key = ec.derive_private_key(int.from_bytes(bytes.fromhex(asked.keys["pixels"])), ec.SECP256R1())
    return RecordedOverlap(own, [doubly[_times(key, point)] for point in own], blinded, order)


def _parties(folder: Path) -> tuple[LocalParty, LocalParty]:
    for name in _NAMES:
        create_party(folder / name, name)
    first, second = (open_party(folder / name) for name in _NAMES)
    for one, other in ((first, second), (second, first)):
        trust_partner(one, other.folder / "identity.json", other.identity.fingerprint)
    return first, second


def _parts(recipient: LocalParty, sender: LocalParty, sealed: bytes) -> dict[str, bytes]:
    _, message = open_sealed(recipient, {sender.identity.name: sender.identity}, sealed)
    return dict(message.parts)


def _times(key: ec.EllipticCurvePrivateKey, point: bytes) -> bytes:
    """First coordinate of a point times a secret key, which is what a key exchange computes."""
    return key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point))
