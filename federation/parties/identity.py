"""Identity of a party: a name, a certificate for TLS and signatures, and a key for encryption.

The identity file is public. Its fingerprint is compared by telephone or on paper before a partner trusts it.
Keys are Ed25519 (RFC 8032) and X25519 (RFC 7748); the certificate is self-signed, so that no authority has
to be trusted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID
from medsanitize.errors import IntegrityError, KeyMaterialError, UsageError
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.canonical_json import canonical_json, document_json

IDENTITY: Final = "identity.json"
CERTIFICATE: Final = "certificate.pem"
SIGNING_KEY: Final = "signing.pem"
_SEALING_KEY: Final = "sealing.pem"
_FORMAT: Final = 1
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_DAYS: Final = 730
# An identity file has a certificate of about 500 bytes.
_MOST_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Identity:
    """The public identity of a party.

    Attributes
    ----------
    name
        Short name: lower-case letters, digits and hyphens.
    certificate
        Self-signed X.509 certificate, DER.
    sealing_key
        Public X25519 key, 32 bytes.
    signature
        Of the other fields, by the key of the certificate.
    """

    name: str
    certificate: bytes
    sealing_key: bytes
    signature: bytes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of name, certificate and key, in hexadecimal digits."""
        return hashlib.sha256(self.signed_bytes()).hexdigest()

    def signed_bytes(self) -> bytes:
        """Return what the signature covers."""
        facts = {
            "format": _FORMAT,
            "name": self.name,
            "certificate": base64.b64encode(self.certificate).decode("ascii"),
            "sealing_key": base64.b64encode(self.sealing_key).decode("ascii"),
        }
        return canonical_json(facts).encode("ascii")

    def verify(self, signature: bytes, signed: bytes) -> bool:
        """Whether a signature is by the key of the certificate."""
        try:
            _public_key(self.certificate).verify(signature, signed)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True, repr=False)
class LocalParty:
    """The own hospital: its identity, its private keys and its folder."""

    folder: Path
    identity: Identity
    signing_key: Ed25519PrivateKey
    sealing_key: X25519PrivateKey


def create_party(folder: Path, name: str) -> Identity:
    """Create keys, certificate and identity file in a new folder of mode 0700.

    Raises
    ------
    UsageError
        The folder is not empty, or the name has other characters than lower-case letters, digits and hyphens.
    EnvironmentFailure
        The disk is full or fails.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            "The name of the party has other characters than lower-case letters, digits and hyphens",
            "Choose a name such as north-hospital",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("The folder of the party exists already", "Choose a new folder")
    signing, sealing = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    certificate = _self_signed(name, signing)
    sealing_key = sealing.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    unsigned = Identity(name, certificate.public_bytes(Encoding.DER), sealing_key, b"")
    identity = Identity(name, unsigned.certificate, sealing_key, signing.sign(unsigned.signed_bytes()))
    with storage_errors():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        for file, key in ((SIGNING_KEY, signing), (_SEALING_KEY, sealing)):
            secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            _write_new(folder / file, secret, 0o600)
        _write_new(folder / CERTIFICATE, certificate.public_bytes(Encoding.PEM), 0o644)
        _write_new(folder / IDENTITY, identity_file(identity), 0o644)
    return identity


def open_party(folder: Path) -> LocalParty:
    """Read the keys of this hospital.

    Raises
    ------
    UsageError
        The folder was not made by ``party init``.
    KeyMaterialError
        A key is damaged, belongs to another identity, or can be read by other users.
    """
    if not (folder / IDENTITY).is_file():
        raise UsageError("The folder contains no party", "Create one: medsanitize party init FOLDER")
    identity = read_identity(folder / IDENTITY)
    keys = []
    for file in (SIGNING_KEY, _SEALING_KEY):
        path = folder / file
        if not path.is_file():
            raise KeyMaterialError(
                "A private key of the party is missing", "Restore the folder from a backup"
            )
        if path.stat().st_mode & 0o077:
            raise KeyMaterialError(
                "A private key of the party can be read by other users", "Set its mode: chmod 600"
            )
        try:
            keys.append(load_pem_private_key(path.read_bytes(), None))
        except (ValueError, TypeError):
            raise KeyMaterialError(
                "A private key of the party is damaged", "Restore the folder from a backup"
            ) from None
    signing, sealing = keys
    fits = isinstance(signing, Ed25519PrivateKey) and isinstance(sealing, X25519PrivateKey)
    if not fits or not _belong(identity, signing, sealing):  # type: ignore[arg-type]
        raise KeyMaterialError(
            "A private key belongs to another identity than the folder's", "Restore the folder from a backup"
        )
    return LocalParty(folder, identity, signing, sealing)  # type: ignore[arg-type]


def identity_file(identity: Identity) -> bytes:
    """Return the content of an identity file."""
    facts = json.loads(identity.signed_bytes())
    return document_json({**facts, "signature": base64.b64encode(identity.signature).decode("ascii")})


def read_identity(path: Path) -> Identity:
    """Read an identity file and check its signature.

    Raises
    ------
    UsageError
        There is no such file.
    IntegrityError
        The file is damaged, or its signature is not by its certificate.
    """
    if not path.is_file():
        raise UsageError("There is no identity file at this path", "Ask the partner for identity.json")
    with storage_errors(), path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    return parse_identity(content)


def parse_identity(content: bytes) -> Identity:
    """Return the identity of the content of an identity file, as `read_identity`."""
    try:
        return _parsed(content)
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        raise IntegrityError("The identity file is damaged", "Ask the partner for it again") from None


def _parsed(content: bytes) -> Identity:
    if len(content) > _MOST_BYTES:
        raise ValueError("too long")
    facts = json.loads(content)
    if (
        set(facts) != {"format", "name", "certificate", "sealing_key", "signature"}
        or facts["format"] != _FORMAT
    ):
        raise ValueError("unknown members")
    if not _NAME.fullmatch(facts["name"]):
        raise ValueError("invalid name")
    parts = [_decoded(facts[name]) for name in ("certificate", "sealing_key", "signature")]
    identity = Identity(facts["name"], *parts)
    X25519PublicKey.from_public_bytes(identity.sealing_key)
    if not identity.verify(identity.signature, identity.signed_bytes()):
        raise ValueError("another signature")
    return identity


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("no base64") from error


def _public_key(certificate: bytes) -> Ed25519PublicKey:
    key = x509.load_der_x509_certificate(certificate).public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("the certificate has a key of another kind")
    return key


def _belong(identity: Identity, signing: Ed25519PrivateKey, sealing: X25519PrivateKey) -> bool:
    sealing_key = sealing.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return sealing_key == identity.sealing_key and signing.public_key() == _public_key(identity.certificate)


def _self_signed(name: str, key: Ed25519PrivateKey) -> x509.Certificate:
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A day back: the partner's clock may be behind.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    return builder.sign(key, None)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
