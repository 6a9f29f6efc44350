"""Installation of OpenMined PSI beside the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from medsanitize.federation.libraries.install import install_library
from medsanitize.federation.psi.process import LIBRARY

_REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")
_FOLDER: Final = "psi"
_SUPPORTED: Final = "Python 3.11 to 3.13 on Linux (x86-64) or macOS (arm64)"


def library_folder(party: Path) -> Path:
    """Return where the library of a party is installed."""
    return party / _FOLDER


def install_psi(party: Path, wheels: Path | None) -> None:
    """Install the library into the folder of a party; see `install_library`."""
    install_library(library_folder(party), LIBRARY, _REQUIREMENTS, wheels, supported=_SUPPORTED)
