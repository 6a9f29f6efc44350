"""Publish a staged release: move it into place, then write RELEASE.json."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.checksums import digest_file, read_checksums, walk_files
from medsanitize.release.release_json import root_document
from medsanitize.release.summary import Summary

EPOCH: Final = 315_532_800
"""Modification time of all files and folders: 1980-01-01T00:00:00Z, the earliest that ZIP can store."""


def staged_digest(staging: Path) -> str:
    """Return the digest that an approval is bound to.

    It covers the tables and manifests (and through them the digests of all objects and of the policy), but
    not the report, whose wording may change.
    """
    folders = [name for name in (layout.MANIFEST, layout.TABLES) if (staging / name).is_dir()]
    lines = [
        f"{digest_file(staging / found.path)}  {found.path}\n"
        for folder in folders
        for found in walk_files(staging, folder)
        if found.kind == "file"
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def evidence_digests(staging: Path) -> dict[str, str]:
    """Return the digests of SHA256SUMS and the attestation, through which all other files are fixed."""
    names = (name for name in (layout.SUMS, layout.ATTESTATION) if (staging / name).is_file())
    return {name: digest_file(staging / name) for name in names}


def require_unchanged(staging: Path, output: Path, vouched: Mapping[str, str]) -> None:
    """Check that a release, staged or partly moved, is the one that was audited.

    Parameters
    ----------
    staging, output : Path
        As for `publish`.
    vouched : mapping
        What `evidence_digests` returned after the audit.

    Raises
    ------
    IntegrityError
        A file was changed, added or removed since then.
    """

    def rest() -> Iterator[str]:
        for name in sorted(set(layout.TOP_LEVEL) - layout.NOT_IN_SUMS):
            yield from _paths_of(place(name), name)

    def place(name: str) -> Path:
        # lexists: a dangling link put in place of a file must be found, not skipped.
        return staging if os.path.lexists(staging / name) else output

    with storage_errors():
        same = all(
            _digest_of(place(name) / name) == vouched.get(name) for name in (layout.SUMS, layout.ATTESTATION)
        )
        # The checksums are those of the audit; the files must be those of the list, in its order.
        pairs = zip_longest(read_checksums(place(layout.SUMS) / layout.SUMS), rest()) if same else ()
        for entry, path in pairs:
            same = entry is not None and path == entry.path
            if not same or _digest_of(place(path.partition("/")[0]) / path) != entry.sha256:
                same = False
                break
    if not same:
        raise IntegrityError(
            "A file of the release changed between its audit and publication",
            "Empty the output folder, then run the same command again",
        )


def _paths_of(root: Path, name: str) -> Iterator[str]:
    if (root / name).is_dir() and not (root / name).is_symlink():
        yield from (found.path for found in walk_files(root, name) if found.kind != "folder")
    elif os.path.lexists(root / name):
        yield name


def _digest_of(path: Path) -> str | None:
    return digest_file(path) if path.is_file() and not path.is_symlink() else None


def publish(staging: Path, output: Path, summary: Summary) -> None:
    """Move a staged release into ``output`` and complete it with RELEASE.json.

    It can be killed at any point: a call with the same arguments completes the publication, and changes
    nothing if it is already complete.

    Parameters
    ----------
    staging : Path
        Complete staged release on the same file system as ``output`` (``output/.staging``).
    output : Path
        The release folder.
    summary : Summary
        The summary from which the evidence was written.

    Raises
    ------
    UsageError
        ``output`` already contains another release, or files of one.
    IntegrityError
        The staged release is incomplete or contains a foreign file.
    EnvironmentFailure
        The disk is full, read-only or fails; call again.
    """
    with storage_errors():
        output.mkdir(parents=True, exist_ok=True)
        waiting = _waiting(staging, output)
        # Modes and times before the move: a reader never sees a file in its staged state.
        for name in waiting:
            fix_metadata(staging / name)
        for name in waiting:
            if (staging / name).exists():
                (staging / name).replace(output / name)
        _require_complete(output)
        if staging.is_dir():
            staging.rmdir()
        root = root_document(output, summary)
        if (output / layout.ROOT).exists():
            if (output / layout.ROOT).read_bytes() != root:
                raise UsageError(
                    "The output folder already contains another release", "Choose another output folder"
                )
        else:
            # All data must be durable before RELEASE.json exists, since its existence makes this a release.
            os.sync()
            write_atomic(output / layout.ROOT, root, sync=True)
        _settle_one(output / layout.ROOT, 0o644)
        _settle_one(output, 0o755)


def fix_metadata(path: Path) -> None:
    """Set the fixed mode and time of a file, or of a folder and its content; remove empty folders.

    Raises
    ------
    IntegrityError
        Something is neither a file nor a folder.
    """
    if path.is_symlink() or not (path.is_dir() or path.is_file()):
        raise _foreign()
    if path.is_file():
        _settle_one(path, 0o644)
    else:
        _settle_folder(path)


def _settle_folder(folder: Path | str) -> bool:
    """Set mode and times of a folder, innermost first; False if it was empty and is removed."""
    os.chmod(folder, 0o755)  # noqa: S103  a release is public
    left = False
    with os.scandir(folder) as entries:
        listed = list(entries)
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            left |= _settle_folder(entry.path)
        elif entry.is_file(follow_symlinks=False):
            _settle_one(entry.path, 0o644)
            left = True
        else:
            raise _foreign()
    if left:
        # After its content: changing an entry updates the time of the folder.
        os.utime(folder, (EPOCH, EPOCH))
    else:
        # Archives and object stores do not represent empty folders.
        os.rmdir(folder)
    return left


def _settle_one(path: Path | str, mode: int) -> None:
    os.chmod(path, mode)
    os.utime(path, (EPOCH, EPOCH))


def _foreign() -> IntegrityError:
    return IntegrityError(
        "The staging folder contains something other than files and folders",
        "Remove it and run the same command again",
    )


def _waiting(staging: Path, output: Path) -> list[str]:
    """Return the entries still to be moved, after checking that they can be."""
    if not staging.is_dir():
        return []
    names = {entry.name for entry in staging.iterdir()}
    if names - set(layout.TOP_LEVEL):
        raise IntegrityError(
            "The staging folder contains a file that is not part of a release",
            "Remove it and run the same command again",
        )
    # Both places having a name means another release: an interrupted move never leaves one name in both.
    if any((output / name).exists() for name in {*names, *({layout.ROOT} if names else ())}):
        raise UsageError("The output folder already contains another release", "Choose another output folder")
    return [name for name in layout.TOP_LEVEL if name in names]


def _require_complete(output: Path) -> None:
    names = (
        layout.PATIENTS,
        layout.INDEX,
        layout.CROISSANT,
        layout.RO_CRATE,
        layout.PROVENANCE,
        layout.CONFORMANCE,
        layout.REPORT,
        layout.SUMS,
    )
    if not layout.object_manifests(output) or not all((output / name).is_file() for name in names):
        raise IntegrityError("The staged release is not complete", "Run the same command again")
