"""What lies where in a release, and which names may appear there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from medsanitize.errors import IntegrityError

NOT_ONE = "+none"
"""Folder in place of a study or series that the object has not; sorts before every UID."""

FORMAT_VERSION: Final = "1"
"""Version of the layout, stated in RELEASE.json and in the metadata of both manifests."""

STAGING: Final = ".staging"
DATA: Final = "data"
MANIFEST: Final = "manifest"
TABLES: Final = "tables"
OBJECTS: Final = "manifest/objects.parquet"
PATIENTS: Final = "manifest/patients.parquet"
CROISSANT: Final = "croissant.json"
RO_CRATE: Final = "ro-crate-metadata.json"
PROVENANCE: Final = "provenance.jsonld"
REPORT: Final = "report.html"
SUMS: Final = "SHA256SUMS"
ATTESTATION: Final = "attestation.dsse.json"
ROOT: Final = "RELEASE.json"

TOP_LEVEL: Final = (DATA, MANIFEST, TABLES, CROISSANT, RO_CRATE, PROVENANCE, REPORT, SUMS, ATTESTATION)
"""Everything that may lie at the top of a release beside RELEASE.json."""

UNSUMMED: Final = frozenset({SUMS, ATTESTATION, ROOT})
"""The files that SHA256SUMS cannot name because they are made from it."""

_PART = re.compile(r"[A-Za-z0-9_+=,@-][A-Za-z0-9._+=,@-]{0,199}")
_PARTS_OF_OBJECTS = re.compile(r"objects(-\d{5})?\.parquet")


def is_safe(path: str) -> bool:
    """Tell whether a relative POSIX path can be created anywhere and printed without quoting."""
    return len(path) <= 1000 and all(_PART.fullmatch(part) for part in path.split("/"))


def require_safe(path: str) -> str:
    """Return ``path`` unchanged.

    Raises
    ------
    IntegrityError
        When it is absolute, climbs, is hidden or holds characters that need quoting.
    """
    if not is_safe(path):
        raise IntegrityError(
            "A released file would have an unsafe name",
            "Use pseudonyms of only letters, digits, '.', '_' and '-'",
        )
    return path


def path_order(path: str) -> tuple[str, ...]:
    """Return the sort key of a path: folder by folder, as a walk over the release meets it."""
    return tuple(path.split("/"))


def object_manifests(release: Path) -> tuple[Path, ...]:
    """Return the part files of the object manifest in order; empty when there is none."""
    folder = release / MANIFEST
    if not folder.is_dir():
        return ()
    return tuple(sorted(path for path in folder.iterdir() if _PARTS_OF_OBJECTS.fullmatch(path.name)))


def attested_files(release: Path) -> tuple[str, ...]:
    """Return the paths the attestation and RELEASE.json both name: the manifests and SHA256SUMS."""
    return (*(release_path(path, release) for path in object_manifests(release)), PATIENTS, SUMS)


def is_attested_file(path: str) -> bool:
    """Tell whether a path is one that `attested` can return."""
    folder, _, name = path.rpartition("/")
    return path in (PATIENTS, SUMS) or (folder == MANIFEST and _PARTS_OF_OBJECTS.fullmatch(name) is not None)


def release_path(path: Path, release: Path) -> str:
    """Return the POSIX path of a file of the release relative to its root."""
    return PurePosixPath(path.relative_to(release)).as_posix()


def staged_path(patient: str, study: str, series: str, instance: str, suffix: str) -> str:
    """Path of a released object, relative to the release; some classes belong to no study or series."""
    return f"{DATA}/{patient}/{study or NOT_ONE}/{series or NOT_ONE}/{instance}.{suffix}"


def part_path(main: str, suffix: str, name: str) -> str:
    """Path of a file of an object of several; ``name`` is what follows the object's own name."""
    return main.removesuffix(f".{suffix}") + name


def all_paths(names: Sequence[str], parts: str) -> Iterator[str]:
    """Every file of a row: ``names`` are its pseudonyms and suffix, ``parts`` its column ``p_parts``."""
    main = staged_path(*names)
    yield main
    yield from (part_path(main, names[4], part) for part in parts.splitlines())


def contested_path(path: str, number: int) -> str:
    """Where a contested object waits until it is known who keeps the name."""
    return f"{path}.{number}"
