"""Installation of a library beside the package, for parties: it excludes versions that extras need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from medsanitize.errors import EnvironmentFailure, UsageError


def install_library(
    folder: Path, module: str, requirements: Path, wheels: Path | None, *, supported: str
) -> None:
    """Install a library with pip, by version and digest.

    Parameters
    ----------
    folder : Path
        Where to install it.
    module : str
        Name of the folder of the library in it.
    requirements : Path
        Versions and digests.
    wheels : Path or None
        Folder of wheels for a machine without a connection; None uses pip's package index.
    supported : str
        The systems with wheels, for the message of a failure.

    Raises
    ------
    UsageError
        The library is installed already.
    EnvironmentFailure
        pip failed: there is no connection, no wheel for this Python, or a file has another digest.
    """
    if (folder / module).is_dir():
        raise UsageError(
            "The library is installed already", f"Remove the folder {folder.name} to install it again"
        )
    offline = ["--no-index", "--find-links", str(wheels)] if wheels is not None else []
    # pip's own environment variables and configuration name the hospital's package index.
    done = subprocess.run(  # noqa: S603  pip of this interpreter
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "--no-deps"),
            *("--only-binary", ":all:", "--require-hashes", "--requirement", str(requirements), *offline),
        ],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise EnvironmentFailure(
            "pip could not install the library for private comparisons",
            "Check the connection to the package index, or name a folder of wheels with --wheels;"
            f" {supported} is required",
        )
