"""The folder of an export: claimed for one release and form, continued after an interruption, then listed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.canonical_json import document_json
from medsanitize.release.checksums import digest_file

FINISHED: Final = "EXPORT.json"
"""Written last: which release was exported, what was left out, and the SHA-256 of every file."""
_STARTED: Final = ".export.json"
TEMPORARY: Final = ".tmp"
"""Suffix of a file that is not complete; an interrupted export leaves it, and the next one replaces it."""


@dataclass(frozen=True, slots=True)
class ExportFolder:
    """A folder that an export is written into; ``facts`` say what is exported."""

    path: Path
    facts: Mapping[str, Any]


def open_folder(release: Path, output: Path, form: str) -> ExportFolder:
    """Claim a new or empty folder, or go on with the same export in it.

    Parameters
    ----------
    release : Path
        Folder of the published release.
    output : Path
        Folder of the export.
    form : str
        Name of the form, such as ``webdataset``.

    Raises
    ------
    UsageError
        There is no release, or the folder contains something else.
    IntegrityError
        RELEASE.json is damaged.
    EnvironmentFailure
        The disk is full or fails.
    """
    folder = ExportFolder(output, _identity(release, form))
    if output.resolve().is_relative_to(release.resolve()):
        raise UsageError("The folder for the export is in the release", "Choose a folder outside of it")
    claim = document_json(dict(folder.facts))
    if (output / FINISHED).exists():
        raise UsageError("The folder already contains an export", "Choose another folder")
    if (output / _STARTED).exists():
        if (output / _STARTED).read_bytes() != claim:
            raise UsageError(
                "The folder contains the unfinished export of another release or form",
                "Choose another folder, or delete this one",
            )
        return folder
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError("The folder for the export is not empty", "Choose another folder")
    write_atomic(output / _STARTED, claim)
    return folder


def finish(folder: ExportFolder, left_out: Mapping[str, int]) -> int:
    """Write EXPORT.json and return the number of exported files.

    Parameters
    ----------
    folder : ExportFolder
    left_out : mapping of str to int
        Number of objects that have no place in this form, by reason.
    """
    with storage_errors():
        for path in list(folder.path.rglob(f"*{TEMPORARY}")):
            path.unlink() if path.is_file() else shutil.rmtree(path)
        paths = sorted(path for path in folder.path.rglob("*") if path.is_file() and path.name != _STARTED)
        files = {path.relative_to(folder.path).as_posix(): digest_file(path) for path in paths}
        listed = {**folder.facts, "left_out": dict(sorted(left_out.items())), "files": files}
        write_atomic(folder.path / FINISHED, document_json(listed), sync=True)
        (folder.path / _STARTED).unlink(missing_ok=True)
    return len(files)


def _identity(release: Path, form: str) -> dict[str, Any]:
    try:
        root = json.loads((release / layout.ROOT).read_bytes())
        named = {name: str(root[name]) for name in ("name", "version", "mode", "digest")}
        manifests = {str(path): str(digest) for path, digest in root["digests"].items()}
    except OSError:
        raise UsageError(
            "This folder is not a release", "Pass the folder that contains RELEASE.json"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise IntegrityError("RELEASE.json is damaged", "Fetch the release again") from None
    return {"form": form, "release": named, "digests": manifests}
