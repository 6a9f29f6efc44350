"""The earlier releases that a run is compared with: the registry and the key of its embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medsanitize.policies.model import RegistryKey
from medsanitize.policies.release_key import read_registry_key
from medsanitize.release.embeddings import Vault
from medsanitize.release.registry import Registry, RegistryEntry


@dataclass(frozen=True, slots=True)
class EarlierReleases:
    """The registry of earlier releases, from the point of view of one release.

    Parameters
    ----------
    folder : Path
        The folder of the registry.
    name, version : str
        Name and version of the release that is compared.
    public : tuple of str
        Names of releases that may appear in the public report.
    key : RegistryKey or None
        Source of the key that encrypts the embeddings.
    """

    folder: Path
    name: str
    version: str
    public: tuple[str, ...] = ()
    key: RegistryKey | None = None

    @property
    def registry(self) -> Registry:
        """The registry."""
        return Registry(self.folder)

    def others(self) -> list[RegistryEntry]:
        """Return the releases of other names."""
        # Earlier versions of this release contain the same patients on purpose.
        return [entry for entry in self.registry.list() if entry.name != self.name]

    def vault(self) -> Vault:
        """Return the vault that encrypts and decrypts the embeddings."""
        return Vault(read_registry_key(self.key or RegistryKey()))
