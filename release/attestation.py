"""The attestation: an in-toto Statement in a DSSE envelope, signed with Ed25519.

Formats: in-toto Attestation Framework v1 (Statement), DSSE v1 (pre-authentication encoding), RFC 8032
(Ed25519, deterministic). The payload is stored as the exact bytes that were signed, so verification needs no
canonical form.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from medsanitize.errors import IntegrityError, KeyMaterialError, UsageError
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.canonical_json import canonical_json, document_json
from medsanitize.release.summary import Summary

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
PREDICATE_TYPE: Final = "urn:medsanitize:predicate:sanitization:1"
_KEYGEN: Final = "Create one: medsanitize keygen --signing FILE"


def generate_signing_key(path: Path) -> None:
    """Create an Ed25519 key pair: PKCS#8 PEM in ``path`` (mode 0600), the public key in ``path``.pub.

    Raises
    ------
    UsageError
        One of the files exists; nothing is overwritten.
    EnvironmentFailure
        The disk is full or fails.
    """
    public = path.with_name(f"{path.name}.pub")
    if path.exists() or public.exists():
        raise UsageError("The key file already exists", "Choose another file name")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    spki = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with storage_errors():
        for target, content, mode in ((path, secret, 0o600), (public, spki, 0o644)):
            # O_EXCL and the final mode at creation: the secret is never readable by others, not even briefly.
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)


def load_signing_key(path: Path) -> Ed25519PrivateKey:
    """Read a signing key.

    Raises
    ------
    KeyMaterialError
        The file is missing, readable by other users, or not an Ed25519 key.
    """
    try:
        mode, content = path.stat().st_mode, path.read_bytes()
    except OSError:
        raise KeyMaterialError("The signing key cannot be read", _KEYGEN) from None
    if mode & 0o077:
        raise KeyMaterialError(
            "The signing key is readable by other users", "Set its mode to 0600: chmod 600 FILE"
        )
    # The parser's message may quote the file, so it is dropped.
    key: object = None
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(content, password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyMaterialError("The signing key is not an Ed25519 key in PEM format", _KEYGEN)
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key; raises as `load_signing_key`."""
    key: object = None
    try:
        with contextlib.suppress(ValueError, UnsupportedAlgorithm):
            key = load_pem_public_key(path.read_bytes())
    except OSError:
        raise KeyMaterialError("The public key cannot be read", "Pass the signer's FILE.pub") from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyMaterialError(
            "The public key is not an Ed25519 key in PEM format", "Pass the signer's FILE.pub"
        )
    return key


def key_id(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 (hex) of the DER encoding (SubjectPublicKeyInfo) of a key."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def release_identity(summary: Summary) -> dict[str, str | None]:
    """Return the fields of a release that RELEASE.json and the statement share, for comparison."""
    release = summary.release
    return {
        "name": release.name,
        "version": release.version,
        "mode": release.mode,
        "supersedes": summary.supersedes,
    }


def in_toto_statement(summary: Summary, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the in-toto Statement about files.

    Parameters
    ----------
    summary : Summary
        The public account of the run.
    digests : mapping of str to str
        Path -> SHA-256 in hex.
    """
    predicate = {
        "release": release_identity(summary),
        "tool": {"name": "medsanitize", "version": summary.tool_version},
        "policy": {"preset": summary.preset, "digest": {"sha256": summary.policy_digest}},
        "standard": {"PS3.15": summary.edition},
        "options": [{"code": code, "meaning": meaning} for code, meaning in summary.options],
        "gates": [
            {
                "name": gate.name,
                "result": gate.result,
                "detail": gate.detail,
                "looked_at": gate.looked_at,
                "concerned": gate.concerned,
                "unit": gate.unit,
            }
            for gate in summary.gates
        ],
        "checks": {name: dict(results) for name, results in summary.checks.items()},
        "outcomes": dict(summary.outcomes),
        "counts": {
            "patients": summary.patients,
            "studies": summary.studies,
            "series": summary.series,
            "objects": summary.objects,
            "bytes": summary.bytes,
        },
    }
    # Sorted, so that equal releases have equal statements.
    subject = [{"name": path, "digest": {"sha256": digests[path]}} for path in sorted(digests)]
    return {
        "_type": STATEMENT_TYPE,
        "subject": subject,
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }


def pre_authentication_encoding(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """Return the bytes that DSSE signs (PAE): type and payload, each preceded by its length."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_envelope(content: Mapping[str, Any], key: Ed25519PrivateKey) -> bytes:
    """Return a signed envelope, the content of attestation.dsse.json."""
    payload = canonical_json(content).encode()
    signature = {
        "keyid": key_id(key.public_key()),
        "sig": _b64(key.sign(pre_authentication_encoding(payload))),
    }
    return document_json({"payloadType": PAYLOAD_TYPE, "payload": _b64(payload), "signatures": [signature]})


def open_envelope(envelope: bytes, key: Ed25519PublicKey | None) -> dict[str, Any]:
    """Return the statement of an envelope.

    Parameters
    ----------
    envelope : bytes
        Content of attestation.dsse.json.
    key : Ed25519PublicKey or None
        If given, the envelope must be signed with this key.

    Raises
    ------
    IntegrityError
        The envelope is not as `sign_envelope` writes it, or the signature was not made with the key.
    """
    try:
        document = json.loads(envelope)
        payload = base64.b64decode(document["payload"], validate=True)
        signature = base64.b64decode(document["signatures"][0]["sig"], validate=True)
        content = json.loads(payload)
        # The signature does not cover the envelope itself; only its canonical spelling is accepted.
        genuine = document_json(document) == envelope and document["payloadType"] == PAYLOAD_TYPE
        genuine = (
            genuine and content["_type"] == STATEMENT_TYPE and content["predicateType"] == PREDICATE_TYPE
        )
        if key is not None:
            key.verify(signature, pre_authentication_encoding(payload))
    except InvalidSignature:
        raise IntegrityError(
            "The signature was not made with this key", "Ask the publisher for the correct key"
        ) from None
    # Every error that a malformed envelope can cause.
    except (ValueError, KeyError, IndexError, TypeError, binascii.Error, RecursionError):
        genuine = False
    if not genuine:
        raise IntegrityError(f"{layout.ATTESTATION} is damaged", "Fetch the release again")
    return dict(content)


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
