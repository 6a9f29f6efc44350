"""Publishing: a staged release moves into place, and RELEASE.json, written last, makes it one."""

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
"""Modification time of every file and folder: 1980-01-01T00:00:00Z, which every archive format can hold."""


def staged_digest(staging: Path) -> str:
    """Return the digest an approval binds to: what would be released, not how the report words it.

    It covers the manifests (and by them every object's digest and the policy's) and the tables.
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
    """Return the digests of the staged files that vouch for all others: SHA256SUMS and the attestation."""
    names = (name for name in (layout.SUMS, layout.ATTESTATION) if (staging / name).is_file())
    return {name: digest_file(staging / name) for name in names}


def require_unchanged(staging: Path, output: Path, vouched: Mapping[str, str]) -> None:
    """Make sure that a release, staged or moved in part, is the one that was judged.

    Parameters
    ----------
    staging, output : Path
        As `publish` takes them.
    vouched : mapping
        What `vouchers` returned when the release was judged.

    Raises
    ------
    IntegrityError
        When a file was changed, added or taken away since.
    """

    def rest() -> Iterator[str]:
        for name in sorted(set(layout.TOP_LEVEL) - layout.UNSUMMED):
            yield from _paths_of(place(name), name)

    def place(name: str) -> Path:
        return staging if os.path.lexists(staging / name) else output

    with storage_errors():
        same = all(
            _digest_of(place(name) / name) == vouched.get(name) for name in (layout.SUMS, layout.ATTESTATION)
        )
        # The list of sums is as judged; the files must be those of the list, in its order.
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
    """Move a staged release into ``output`` and seal it with RELEASE.json.

    May be killed at any point: calling it again with the same arguments finishes the job, also
    when everything was already done.

    Parameters
    ----------
    staging : Path
        Complete staged release, on the same file system as ``output`` (``output/.staging``).
    output : Path
        The release folder.
    summary : Summary
        The one the evidence was written from.

    Raises
    ------
    UsageError
        When ``output`` already holds another release or files of one.
    IntegrityError
        When the staged release is incomplete or holds something that does not belong there.
    EnvironmentFailure
        When the disk is full, read-only or fails; call again.
    """
    with storage_errors():
        output.mkdir(parents=True, exist_ok=True)
        waiting = _waiting(staging, output)
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
            os.sync()
            write_atomic(output / layout.ROOT, root, sync=True)
        _settle_one(output / layout.ROOT, 0o644)
        _settle_one(output, 0o755)


def fix_metadata(path: Path) -> None:
    """Give a file, or a folder and all below it, its fixed mode and time; empty folders go.

    Raises
    ------
    IntegrityError
        When something is neither a file nor a folder.
    """
    if path.is_symlink() or not (path.is_dir() or path.is_file()):
        raise _foreign()
    if path.is_file():
        _settle_one(path, 0o644)
    else:
        _settle_folder(path)


def _settle_folder(folder: Path | str) -> bool:
    """Settle a folder from below; tell whether anything is left of it."""
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
        os.utime(folder, (EPOCH, EPOCH))
    else:
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
    """Return the entries still to be moved, after making sure that each may be."""
    if not staging.is_dir():
        return []
    names = {entry.name for entry in staging.iterdir()}
    if names - set(layout.TOP_LEVEL):
        raise IntegrityError(
            "The staging folder contains a file that is not part of a release",
            "Remove it and run the same command again",
        )
    if any((output / name).exists() for name in {*names, *({layout.ROOT} if names else ())}):
        raise UsageError("The output folder already contains another release", "Choose another output folder")
    return [name for name in layout.TOP_LEVEL if name in names]


def _require_complete(output: Path) -> None:
    names = (
        layout.PATIENTS,
        layout.CROISSANT,
        layout.RO_CRATE,
        layout.PROVENANCE,
        layout.REPORT,
        layout.SUMS,
    )
    if not layout.object_manifests(output) or not all((output / name).is_file() for name in names):
        raise IntegrityError("The staged release is not complete", "Run the same command again")
