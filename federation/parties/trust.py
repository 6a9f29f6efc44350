"""The partners that a party trusts: identity files whose fingerprint a person has compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.federation.parties.identity import Identity, LocalParty, identity_file, read_identity
from medsanitize.release.atomic_io import storage_errors, write_atomic

_FOLDER: Final = "trusted"
_GROUP: Final = 8


def trust_partner(party: LocalParty, file: Path, fingerprint: str) -> Identity:
    """Trust the identity in a file, if its fingerprint is the one that the partner has told.

    Parameters
    ----------
    party : LocalParty
        This hospital.
    file : Path
        The identity file of the partner.
    fingerprint : str
        The fingerprint by another channel; spaces and capitals do not matter.

    Raises
    ------
    UsageError
        The fingerprint differs, the identity is this party's own, or another partner has the name.
    IntegrityError
        The file is damaged.
    """
    identity = read_identity(file)
    if fingerprint.replace(" ", "").replace(":", "").lower() != identity.fingerprint:
        raise UsageError(
            "The fingerprint of the file is another than the one given",
            "Ask the partner for both again, the fingerprint by telephone or on paper",
        )
    if identity.fingerprint == party.identity.fingerprint or identity.name == party.identity.name:
        raise UsageError("The identity is this party's own, or has its name", "Name the partner's file")
    known = trusted_partners(party)
    if identity.name in known and known[identity.name].fingerprint != identity.fingerprint:
        raise UsageError(
            "Another identity of this name is trusted already",
            f"If the partner has made new keys, remove {_FOLDER}/{identity.name}.json first",
        )
    write_atomic(party.folder / _FOLDER / f"{identity.name}.json", identity_file(identity), sync=True)
    return identity


def trusted_partners(party: LocalParty) -> Mapping[str, Identity]:
    """Return the trusted identities by name.

    Raises
    ------
    IntegrityError
        A file is damaged, or was renamed.
    """
    folder, found = party.folder / _FOLDER, {}
    with storage_errors():
        files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    for file in files:
        identity = read_identity(file)
        if identity.name != file.stem:
            raise IntegrityError(
                "A trusted identity has another name than its file", "Trust the partner again"
            )
        found[identity.name] = identity
    return found


def trusted_partner(party: LocalParty, name: str) -> Identity:
    """Return the trusted identity of a name.

    Raises
    ------
    UsageError
        No such partner is trusted.
    IntegrityError
        A file is damaged.
    """
    known = trusted_partners(party)
    if name not in known:
        raise UsageError(
            f"No partner of the name {name} is trusted",
            "Trust one: medsanitize party trust FILE --fingerprint FINGERPRINT",
        )
    return known[name]


def grouped(fingerprint: str) -> str:
    """Write a fingerprint in groups of eight digits, to be read aloud."""
    return " ".join(fingerprint[place : place + _GROUP] for place in range(0, len(fingerprint), _GROUP))
