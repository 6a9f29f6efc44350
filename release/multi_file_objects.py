"""Objects of several files, such as slides, as one row of the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

from medsanitize.release.canonical_json import canonical_json
from medsanitize.sanitize.result import FilePart

SLIDE_FORMATS: Final = {
    "svs": "image/tiff",
    "ndpi": "image/tiff",
    "scn": "image/tiff",
    "bif": "image/tiff",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "qptiff": "image/tiff",
    "czi": "image/czi",
    "mrxs": "image/jpeg",
    "vms": "text/plain",
    "afi": "application/xml",
}
"""Suffix of the main file of a released slide -> its media type."""


def parts_digest(parts: Sequence[FilePart]) -> str:
    """Return the SHA-256 (hex) that represents an object of several files.

    It is computed over one line per file, ordered by name: SHA-256 of the file in hex, two spaces, suffix of
    its name to that of the object, line feed.
    """
    lines = sorted((part.name, part.sha256) for part in parts)
    return sha256("".join(f"{digest}  {name}\n" for name, digest in lines).encode("ascii")).hexdigest()


def parts_to_json(parts: Sequence[FilePart]) -> str | None:
    """Encode the manifest column ``parts``; None for an object of one file."""
    return canonical_json([[part.name, part.size, part.sha256] for part in parts]) if parts else None


def read_parts(path: str, column: str | None) -> Iterator[tuple[str, int, str]]:
    """Yield path, size and digest of each file of a multi-file object, from its manifest row.

    Parameters
    ----------
    path : str
        Column ``path`` of the row: the main file.
    column : str or None
        Column ``parts`` of the row; None for an object of one file, which yields nothing.

    Raises
    ------
    ValueError
        The column is not as `parts_to_json` writes it.
    """
    if column is None:
        return
    listed = json.loads(column)
    parts = [FilePart(str(name), int(size), str(digest)) for name, size, digest in listed]
    # The first part is the main file, whose path is in the row.
    stem = path.removesuffix(parts[0].name)
    yield from ((stem + part.name, part.size, part.sha256) for part in parts)
