"""The release key as an object whose repr shows nothing."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Self

from medsanitize.policies.model import Keys
from medsanitize.policies.release_key import MIN_BYTES, generate_release_key, read_release_key, require_strong


class ReleaseKey:
    """The secret from which all pseudonyms, UIDs and date shifts are derived.

    Whoever holds it can link released objects to their patients. Equal keys give equal pseudonyms, so keep
    it as long as releases are to be extended.

    Parameters
    ----------
    material : bytes
        At least 32 bytes, at least 16 of them distinct.

    Raises
    ------
    KeyMaterialError
        The key is too short or evidently weak.

    Examples
    --------
    >>> from medsanitize import ReleaseKey
    >>> ReleaseKey.generate()
    ReleaseKey(...)
    """

    __slots__ = ("_material",)

    def __init__(self, material: bytes) -> None:
        self._material = require_strong(material, "release key")

    def __repr__(self) -> str:
        return "ReleaseKey(...)"

    def __reduce__(self) -> str:
        # A pickle would write the key in the clear wherever the pickle goes.
        raise TypeError("a ReleaseKey is not pickled; read it again where it is needed")

    @property
    def material(self) -> bytes:
        """The key itself, at least 32 bytes. Do not log or store it."""
        return self._material

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read the key from a file of mode 0600, as `keygen` writes it.

        Raises
        ------
        KeyMaterialError
            The file is missing, others may read or replace it, or the key is weak.
        """
        return cls(read_release_key(Keys(file=Path(path))))

    @classmethod
    def from_env(cls, name: str) -> Self:
        """Read the key from an environment variable.

        Raises
        ------
        KeyMaterialError
            The variable is not set, or the key is weak.
        """
        # ``Keys`` would refuse a name by quoting it, and it may be the key itself, passed by mistake.
        return cls(read_release_key(Keys.model_construct(file=None, env=name, command=None)))

    @classmethod
    def generate(cls) -> Self:
        """Make a random 256-bit key in memory. It is stored nowhere."""
        return cls(secrets.token_bytes(MIN_BYTES))


def keygen(path: str | os.PathLike[str], *, signing: bool = False) -> None:
    """Write a new key to a file of mode 0600; nothing is overwritten.

    Parameters
    ----------
    path : path
        The file to create.
    signing : bool
        Write an Ed25519 key that signs releases, and its public part to ``path`` + ``.pub``, instead of a
        release key.

    Raises
    ------
    KeyMaterialError
        The file exists, or its folder does not.
    EnvironmentFailure
        The disk is full or not writable.
    """
    if signing:
        from medsanitize.release.attestation import generate_signing_key

        generate_signing_key(Path(path))
    else:
        generate_release_key(Path(path))
