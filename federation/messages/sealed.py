"""Sealed messages: signed by the sender (Ed25519), then encrypted for the recipient (HPKE, RFC 9180).

The signature covers the recipient, the session, the number within it and the digest of the message before,
so that no message can be forwarded, replayed or reordered. TLS protects a connection; the seal protects a
message wherever it lies, so that the same bytes travel over HTTPS, by SFTP or on a stick.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.release.canonical_json import canonical_json
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

# Change this number with every change of a message: parties of other versions refuse each other.
PROTOCOL: Final = 1
_MAGIC: Final = b"medsanitize sealed message 1\n"
_SIGNED_FOR: Final = b"medsanitize signed message 1\n"
_LENGTH: Final = struct.Struct(">I")
_SIGNATURE_BYTES: Final = 64
# A header with the digests of a session; no part is in it.
_MOST_HEADER_BYTES: Final = 1 << 18
_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)

Hex32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
NearKind = Literal[
    "near-hello", "near-reply", "near-start", "near-share", "near-receipt", "near-receipt-reply"
]
AskKind = Literal["ask-hello", "ask-reply", "ask-start", "ask-share", "ask-receipt", "ask-receipt-reply"]
ExactKind = Literal["hello", "hello-reply", "request", "response", "receipt", "receipt-reply"]
Kind = Literal[ExactKind, NearKind, AskKind, "refusal"]


class InvalidMessage(Exception):
    """A message that is malformed, for someone else, or not by a trusted partner; says nothing else."""


class _Header(BaseModel):
    """The signed header of a message."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    protocol: int
    session: Hex32
    number: Annotated[int, Field(ge=1, le=6)]
    kind: Kind
    sender: Hex64
    recipient: Hex64
    previous: Hex64 | None
    payload: dict[str, Any]
    parts: dict[Annotated[str, StringConstraints(max_length=40)], Annotated[int, Field(ge=0)]]


@dataclass(frozen=True, slots=True, repr=False)
class Message:
    """One message of a session.

    Attributes
    ----------
    session
        Session of 32 hexadecimal digits, chosen by the asking party.
    number
        1 for the first message of the session.
    kind
        The step of the protocol.
    previous
        SHA-256 of the sealed message before; None for the first.
    payload
        Facts of the step, as JSON.
    parts
        Binary parts by name.
    protocol
        Version of the protocol.
    """

    session: str
    number: int
    kind: Kind
    previous: str | None
    payload: Mapping[str, Any]
    parts: Mapping[str, bytes] = field(default_factory=dict)
    protocol: int = PROTOCOL


def seal(party: LocalParty, partner: Identity, message: Message) -> bytes:
    """Sign a message, and encrypt it for a partner."""
    header = _Header(
        protocol=message.protocol,
        session=message.session,
        number=message.number,
        kind=message.kind,
        sender=party.identity.fingerprint,
        recipient=partner.fingerprint,
        previous=message.previous,
        payload=dict(message.payload),
        parts={name: len(part) for name, part in message.parts.items()},
    )
    text = canonical_json(header.model_dump()).encode("ascii")
    signed = b"".join(
        [_LENGTH.pack(len(text)), text, *(message.parts[name] for name in sorted(message.parts))]
    )
    signature = party.signing_key.sign(_SIGNED_FOR + signed)
    key = X25519PublicKey.from_public_bytes(partner.sealing_key)
    return _MAGIC + _SUITE.encrypt(signature + signed, key, _MAGIC)


def open_sealed(
    party: LocalParty, partners: Mapping[str, Identity], sealed: bytes
) -> tuple[Identity, Message]:
    """Decrypt a message, and check who signed it and for whom.

    Parameters
    ----------
    party : LocalParty
        The recipient.
    partners : mapping of str to Identity
        Trusted identities by name.
    sealed : bytes
        The sealed message; its length must have been limited by the caller.

    Returns
    -------
    Identity
        The sender.
    Message
        The message; its protocol version may be another.

    Raises
    ------
    InvalidMessage
        In every other case, without the reason: a stranger learns nothing.
    """
    if not sealed.startswith(_MAGIC):
        raise InvalidMessage
    try:
        plain = _SUITE.decrypt(sealed[len(_MAGIC) :], party.sealing_key, _MAGIC)
        signature, signed = plain[:_SIGNATURE_BYTES], plain[_SIGNATURE_BYTES:]
        header = _header(signed)
    except (InvalidTag, ValueError, struct.error, RecursionError):
        raise InvalidMessage from None
    senders = [one for one in partners.values() if one.fingerprint == header.sender]
    if header.recipient != party.identity.fingerprint or not senders:
        raise InvalidMessage
    if not senders[0].verify(signature, _SIGNED_FOR + signed):
        raise InvalidMessage
    parts = _parts(header, signed)
    return senders[0], Message(
        header.session, header.number, header.kind, header.previous, header.payload, parts, header.protocol
    )


def digest_of(sealed: bytes) -> str:
    """SHA-256 of a sealed message, by which the next one names it."""
    return hashlib.sha256(sealed).hexdigest()


def _header(signed: bytes) -> _Header:
    (length,) = _LENGTH.unpack_from(signed)
    if length > _MOST_HEADER_BYTES or _LENGTH.size + length > len(signed):
        raise ValueError("a header of impossible length")
    text = signed[_LENGTH.size : _LENGTH.size + length]
    try:
        return _Header.model_validate(json.loads(text))
    except ValidationError as error:
        raise ValueError("an invalid header") from error


def _parts(header: _Header, signed: bytes) -> dict[str, bytes]:
    place, parts = _LENGTH.size + _LENGTH.unpack_from(signed)[0], {}
    for name in sorted(header.parts):
        parts[name] = signed[place : place + header.parts[name]]
        place += header.parts[name]
    if place != len(signed):
        raise InvalidMessage
    return parts
