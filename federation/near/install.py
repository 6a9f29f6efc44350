"""Installation of SecretFlow SPU beside the package: it needs an older NumPy than the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from medsanitize.federation.libraries.install import install_library
from medsanitize.federation.near.process import LIBRARY

_REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")
_FOLDER: Final = "spu"
_SUPPORTED: Final = "Python 3.11 on Linux (x86-64) or macOS 14 (arm64)"


def library_folder(party: Path) -> Path:
    """Return where the library of a party is installed."""
    return party / _FOLDER


def install_spu(party: Path, wheels: Path | None) -> None:
    """Install the library into the folder of a party; see `install_library`."""
    install_library(library_folder(party), LIBRARY, _REQUIREMENTS, wheels, supported=_SUPPORTED)
