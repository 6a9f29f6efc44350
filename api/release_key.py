"""The release key as an object that never shows the secret."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Self

from medsanitize.policies.model import Keys
from medsanitize.policies.release_key import MIN_BYTES, generate_release_key, read_release_key, require_strong


class ReleaseKey:
    """The secret from which pseudonyms, UIDs and date shifts are derived.

    Anyone who has it can link released objects to their patients. Equal keys give equal pseudonyms, so it is
    needed as long as releases are extended.

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
        # A pickle would contain the key in plain text, in caches and job queues.
        raise TypeError("a ReleaseKey is not pickled; read it again where it is needed")

    @property
    def material(self) -> bytes:
        """The secret itself, at least 32 bytes. Do not log or store it."""
        return self._material

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read the key from a file of mode 0600, as `keygen` writes it.

        Parameters
        ----------
        path : path
            The key file.

        Raises
        ------
        KeyMaterialError
            The file is missing, other users can read or replace it, or the key is weak.
        """
        return cls(read_release_key(Keys(file=Path(path))))

    @classmethod
    def from_env(cls, name: str) -> Self:
        """Read the key from an environment variable.

        Parameters
        ----------
        name : str
            Name of the variable.

        Raises
        ------
        KeyMaterialError
            The variable is not set, or the key is weak.
        """
        # ``Keys`` would refuse a name by quoting it, and it may be the key itself, passed by mistake.
        return cls(read_release_key(Keys.model_construct(file=None, env=name, command=None)))

    @classmethod
    def generate(cls) -> Self:
        """Create a random 256-bit key in memory. It is not stored."""
        return cls(secrets.token_bytes(MIN_BYTES))


def keygen(path: str | os.PathLike[str], *, signing: bool = False) -> None:
    """Write a new key to a file of mode 0600; existing files are never overwritten.

    Parameters
    ----------
    path : path
        The file to create.
    signing : bool
        Write an Ed25519 signing key, and its public key to ``path`` + ``.pub``, instead of a release key.

    Raises
    ------
    KeyMaterialError
        The file exists, or its folder does not.
    EnvironmentFailure
        The disk is full or not writable.

    Examples
    --------
    >>> import medsanitize
    >>> medsanitize.keygen("release.key")  # doctest: +SKIP
    >>> key = medsanitize.ReleaseKey.from_file("release.key")  # doctest: +SKIP
    """
    if signing:
        # Imported late: only signing keys need cryptography.
        from medsanitize.release.attestation import generate_signing_key

        generate_signing_key(Path(path))
    else:
        generate_release_key(Path(path))
