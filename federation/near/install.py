"""Installation of SecretFlow SPU beside the package: it needs an older NumPy than the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from medsanitize.federation.libraries.install import Library
from medsanitize.federation.near.process import LIBRARY

SPU: Final = Library(
    "spu",
    LIBRARY,
    Path(__file__).with_name("requirements.txt"),
    "Python 3.11 on Linux (x86-64) or macOS 14 (arm64)",
)
