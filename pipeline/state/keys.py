"""Keyed names and encrypted values of the state's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medsanitize.pipeline.runtime.encryption import Seal

if TYPE_CHECKING:
    from medsanitize.pipeline.storage.sources import SourceEntry


def patient_key(issuer: str, identifier: str, study_uid: str, object_key: str) -> str:
    """Return the canonical key of a patient: issuer and ID, else the study, else the object."""
    if identifier:
        # The length prefix keeps issuer and identifier apart: "A" + "B1" must not equal "AB" + "1".
        return f"id:{len(issuer)}:{issuer}{identifier}"
    return f"study:{study_uid}" if study_uid else f"object:{object_key}"


def sealed_paths(seal: Seal, found: SourceEntry) -> bytes:
    """Encrypt the paths of an object's files."""
    # NUL is the one byte that no path contains.
    return seal.close(b"\0".join(one.path for one in found.files), b"path")


def open_paths(seal: Seal, source: bytes) -> tuple[bytes, ...]:
    """Decrypt the paths of an object's files, the main one first."""
    return tuple(seal.open(source, b"path").split(b"\0"))
