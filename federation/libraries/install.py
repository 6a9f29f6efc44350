"""Installation of a library beside the package, for parties: it excludes versions that extras need."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import EnvironmentFailure, UsageError


@dataclass(frozen=True, slots=True)
class Library:
    """A library that is installed into the folder of a party.

    Attributes
    ----------
    folder
        Name of its folder there.
    module
        Name of the package in this folder.
    requirements
        File of versions and digests.
    supported
        The systems with wheels.
    """

    folder: str
    module: str
    requirements: Path
    supported: str

    def of(self, party: Path) -> Path:
        """Return where the library of a party is installed."""
        return party / self.folder


def install_library(library: Library, party: Path, wheels: Path | None) -> None:
    """Install a library with pip, by version and digest.

    Parameters
    ----------
    library : Library
        What to install.
    party : Path
        Folder of the party.
    wheels : Path or None
        Folder of wheels for a machine without a connection; None uses pip's package index.

    Raises
    ------
    UsageError
        The library is installed already.
    EnvironmentFailure
        pip failed: there is no connection, no wheel for this Python, or a file has another digest.
    """
    folder = library.of(party)
    if (folder / library.module).is_dir():
        raise UsageError(
            "The library is installed already", f"Remove the folder {folder.name} to install it again"
        )
    offline = ["--no-index", "--find-links", str(wheels)] if wheels is not None else []
    # pip's own environment variables and configuration name the hospital's package index.
    done = subprocess.run(  # noqa: S603  pip of this interpreter
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "--no-deps"),
            *(
                "--only-binary",
                ":all:",
                "--require-hashes",
                "--requirement",
                str(library.requirements),
                *offline,
            ),
        ],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise EnvironmentFailure(
            "pip could not install the library for private comparisons",
            "Check the connection to the package index, or name a folder of wheels with --wheels;"
            f" {library.supported} is required",
        )
