"""The earlier releases that a run compares with: the registry, and the key of its embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medsanitize.policies.model import RegistryKey
from medsanitize.policies.release_key import read_registry_key
from medsanitize.release.embeddings import Vault
from medsanitize.release.registry import Registry, RegistryEntry


@dataclass(frozen=True, slots=True)
class EarlierReleases:
    """A registry, seen from one release.

    Parameters
    ----------
    folder : Path
        The registry.
    name, version : str
        The release that is compared.
    public : tuple of str
        Releases that may be named in public.
    key : RegistryKey or None
        Where the key of the embeddings is read from.
    """

    folder: Path
    name: str
    version: str
    public: tuple[str, ...] = ()
    key: RegistryKey | None = None

    @property
    def registry(self) -> Registry:
        """The registry itself."""
        return Registry(self.folder)

    def others(self) -> list[RegistryEntry]:
        """Releases of other names: earlier versions of this one hold the same patients on purpose."""
        return [entry for entry in self.registry.list() if entry.name != self.name]

    def vault(self) -> Vault:
        """What encrypts and decrypts the embeddings."""
        return Vault(read_registry_key(self.key or RegistryKey()))
