"""Names and sealed values of the state's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medsanitize.pipeline.runtime.encryption import Seal

if TYPE_CHECKING:
    from medsanitize.pipeline.storage.sources import SourceEntry


def patient_key(issuer: str, identifier: str, study_uid: str, object_key: str) -> str:
    """The canonical key of a patient: issuer and id, else the study, else the object."""
    if identifier:
        return f"id:{len(issuer)}:{issuer}{identifier}"
    return f"study:{study_uid}" if study_uid else f"object:{object_key}"


def sealed_paths(seal: Seal, found: SourceEntry) -> bytes:
    """The paths of an object's files, sealed."""
    return seal.close(b"\0".join(one.path for one in found.files), b"path")


def open_paths(seal: Seal, source: bytes) -> tuple[bytes, ...]:
    """The paths of an object's files, the main one first."""
    return tuple(seal.open(source, b"path").split(b"\0"))
