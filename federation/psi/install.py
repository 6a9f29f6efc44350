"""Installation of OpenMined PSI beside the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from medsanitize.federation.libraries.install import Library
from medsanitize.federation.psi.process import LIBRARY

PSI: Final = Library(
    "psi",
    LIBRARY,
    Path(__file__).with_name("requirements.txt"),
    "Python 3.11 to 3.13 on Linux (x86-64) or macOS (arm64)",
)
