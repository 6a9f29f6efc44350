"""Objects of several files: how the manifest speaks of them as one."""

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
"""Name endings of released slides (their main files), and what such a file is."""


def parts_digest(parts: Sequence[FilePart]) -> str:
    """SHA-256 (hex) that stands for an object of several files.

    It is over one line a file, ordered by name: the file's SHA-256 in hex, two spaces, what follows the
    object's own name in the file's, a line feed.
    """
    lines = sorted((part.name, part.sha256) for part in parts)
    return sha256("".join(f"{digest}  {name}\n" for name, digest in lines).encode("ascii")).hexdigest()


def parts_to_json(parts: Sequence[FilePart]) -> str | None:
    """The column ``parts`` of the manifest; None for an object of one file."""
    return canonical_json([[part.name, part.size, part.sha256] for part in parts]) if parts else None


def read_parts(path: str, column: str | None) -> Iterator[tuple[str, int, str]]:
    """Paths, sizes and digests of the files of an object of several, from its manifest row.

    Raises
    ------
    ValueError
        The column is not what `parts_to_json` writes.
    """
    if column is None:
        return
    listed = json.loads(column)
    parts = [FilePart(str(name), int(size), str(digest)) for name, size, digest in listed]
    stem = path.removesuffix(parts[0].name)
    yield from ((stem + part.name, part.size, part.sha256) for part in parts)
