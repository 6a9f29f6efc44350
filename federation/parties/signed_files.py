"""Signatures of files beside them, by a party whose identity the signature contains.

Such a signature shows that nothing was changed, and by whom it was signed. Whether that party is the one it
says, its fingerprint tells, which is compared by telephone as for every partner.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.federation.parties.identity import Identity, LocalParty, identity_file, parse_identity
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.canonical_json import document_json

ENDING: Final = ".sig"
_SIGNED_FOR: Final = b"medsanitize signed file 1\n"
_MOST_BYTES: Final = 1 << 26


def signature_file(content: bytes, party: LocalParty) -> bytes:
    """Return the signature of a file, as the content of the file beside it."""
    signature = party.signing_key.sign(_signed(content)).hex()
    return document_json({"identity": json.loads(identity_file(party.identity)), "signature": signature})


def read_signed(path: Path) -> tuple[bytes, Identity]:
    """Read a file and check the signature beside it.

    Returns
    -------
    tuple of (bytes, Identity)
        Its content, and who has signed it.

    Raises
    ------
    UsageError
        The file or its signature is missing.
    IntegrityError
        The signature is damaged, or not of this file.
    """
    beside = path.with_name(path.name + ENDING)
    if not path.is_file() or not beside.is_file():
        raise UsageError(
            "The signature of a federated calibration is missing beside it",
            f"Keep calibration.json and calibration.json{ENDING} together",
        )
    with storage_errors():
        content, signed = (_read(one) for one in (path, beside))
    try:
        facts = json.loads(signed)
        signer = parse_identity(document_json(facts["identity"]))
        genuine = signer.verify(bytes.fromhex(facts["signature"]), _signed(content))
    except (ValueError, TypeError, KeyError, RecursionError):
        genuine = False
    if not genuine:
        raise IntegrityError("The signature is not of this file", "Fetch both files again")
    return content, signer


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES)


def _signed(content: bytes) -> bytes:
    return _SIGNED_FOR + hashlib.sha256(content).digest()
