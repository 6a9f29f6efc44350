"""Releases and plain folders as sides of a comparison."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.source import walk
from medsanitize.verifiers.labels import NO_PATIENT, TWICE, Columns, read_labels
from medsanitize.verifiers.overlap.kept import is_kept
from medsanitize.verifiers.overlap.side import Image, Side, is_release, release_side

_NOT_OPENED: Final = {"link": "a link", "special": "no regular file", "unlisted": "folder not readable"}
_HARMLESS: Final = frozenset({NO_PATIENT, TWICE})
"""Rows of a table whose images are found in the folder all the same."""


def side_of(path: Path, title: str, labels: Path | None, columns: Columns) -> Side:
    """A release by its manifest, or everything in a folder.

    Parameters
    ----------
    path : Path
    title : str
        What messages call it.
    labels : Path or None
        Table that says who is in which file of a folder; without it, the header of DICOM does.
    columns : Columns
        What the table calls its columns.

    Raises
    ------
    UsageError
        When the path is no folder, or a table is given for a release.
    IntegrityError
        When a manifest is damaged.
    """
    if not path.is_dir():
        raise UsageError(f"{title} is no folder", "Name a release, or a folder of images")
    if is_kept(path):
        raise UsageError(
            f"{title} is an index already, and has its names of patients",
            "Name what it was made of, or the index without a table",
        )
    if not is_release(path):
        return _folder(path, title, labels, columns)
    if labels is not None:
        raise UsageError(
            f"{title} is a release, and its manifest says who is who", f"Leave out --labels-{title.lower()}"
        )
    return release_side(path, title)


def _folder(root: Path, title: str, labels: Path | None, columns: Columns) -> Side:
    """Every file of a folder; what is no image turns out when it is looked at."""
    unread: Counter[str] = Counter()
    patients: dict[Path, str] = {}
    if labels is not None:
        table = read_labels(labels, root, columns)
        patients = dict(zip(table.paths, table.patients, strict=True))
        unread.update({why: count for why, count in table.excluded.items() if why not in _HARMLESS})
    home = Path(os.path.realpath(root))
    images = []
    for found in walk((root,)):
        if found.sort != "file":
            unread[_NOT_OPENED[found.sort]] += 1
            continue
        path = Path(os.fsdecode(found.path))
        parts = tuple(Path(os.fsdecode(part.path)) for part in found.parts)
        images.append(Image(path, path.relative_to(home).as_posix(), patients.get(path, ""), parts))
    return Side(title, tuple(images), dict(unread))
