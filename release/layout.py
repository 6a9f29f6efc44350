"""Paths of files in a release, and the characters allowed in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from medsanitize.errors import IntegrityError

NOT_ONE = "+none"
"""Folder used instead of a missing study or series; sorts before every UID."""

FORMAT_VERSION: Final = "1"
"""Version of the layout, stated in RELEASE.json and in the metadata of both manifests."""

STAGING: Final = ".staging"
DATA: Final = "data"
MANIFEST: Final = "manifest"
TABLES: Final = "tables"
OBJECTS: Final = "manifest/objects.parquet"
PATIENTS: Final = "manifest/patients.parquet"
INDEX: Final = "manifest/index.parquet"
CROISSANT: Final = "croissant.json"
RO_CRATE: Final = "ro-crate-metadata.json"
PROVENANCE: Final = "provenance.jsonld"
CONFORMANCE: Final = "conformance.md"
CARD: Final = "dataset-card.md"
REPORT: Final = "report.html"
SUMS: Final = "SHA256SUMS"
ATTESTATION: Final = "attestation.dsse.json"
ROOT: Final = "RELEASE.json"

TOP_LEVEL: Final = (
    DATA,
    MANIFEST,
    TABLES,
    CROISSANT,
    RO_CRATE,
    PROVENANCE,
    CONFORMANCE,
    CARD,
    REPORT,
    SUMS,
    ATTESTATION,
)
"""All names allowed at the top of a release, besides RELEASE.json."""

NOT_IN_SUMS: Final = frozenset({SUMS, ATTESTATION, ROOT})
"""Files that SHA256SUMS cannot contain because they are derived from it."""

# No leading dot: hidden files, "." and "..". 200 characters leave room below the usual limit of 255 bytes.
_PATH_SEGMENT = re.compile(r"[A-Za-z0-9_+=,@-][A-Za-z0-9._+=,@-]{0,199}")
_PARTS_OF_OBJECTS = re.compile(r"objects(-\d{5})?\.parquet")


def is_safe(path: str) -> bool:
    """Whether a relative POSIX path is valid on every platform and needs no quoting."""
    return len(path) <= 1000 and all(_PATH_SEGMENT.fullmatch(part) for part in path.split("/"))


def require_safe(path: str) -> str:
    """Return ``path`` unchanged if it is safe.

    Raises
    ------
    IntegrityError
        The path is absolute, contains ``..`` or hidden names, or has characters that need quoting.
    """
    if not is_safe(path):
        raise IntegrityError(
            "A released file would have an unsafe name",
            "Use pseudonyms of only letters, digits, '.', '_' and '-'",
        )
    return path


def path_order(path: str) -> tuple[str, ...]:
    """Return the sort key of a path: by folder, then by name, as a walk visits them."""
    # Plain text order would differ: "a-b/c" sorts before "a/c", because "-" is less than "/".
    return tuple(path.split("/"))


def object_manifests(release: Path) -> tuple[Path, ...]:
    """Return the part files of the object manifest, in order; empty if there are none."""
    folder = release / MANIFEST
    if not folder.is_dir():
        return ()
    return tuple(sorted(path for path in folder.iterdir() if _PARTS_OF_OBJECTS.fullmatch(path.name)))


def attested_files(release: Path) -> tuple[str, ...]:
    """Return the paths that both attestation and RELEASE.json contain: the manifests and SHA256SUMS."""
    return (*(release_path(path, release) for path in object_manifests(release)), PATIENTS, SUMS)


def is_attested_file(path: str) -> bool:
    """Whether `attested_files` can return a path."""
    folder, _, name = path.rpartition("/")
    return path in (PATIENTS, SUMS) or (folder == MANIFEST and _PARTS_OF_OBJECTS.fullmatch(name) is not None)


def release_path(path: Path, release: Path) -> str:
    """Return the POSIX path of a file relative to the root of the release."""
    return PurePosixPath(path.relative_to(release)).as_posix()


def staged_path(patient: str, study: str, series: str, instance: str, suffix: str) -> str:
    """Return the path of a released object, relative to the release.

    Parameters
    ----------
    patient, study, series, instance : str
        Pseudonyms; study and series may be empty.
    suffix : str
        Suffix of the file name, without dot.
    """
    # Some SOP classes (such as hanging protocols) belong to no study or series.
    return f"{DATA}/{patient}/{study or NOT_ONE}/{series or NOT_ONE}/{instance}.{suffix}"


def part_path(main: str, suffix: str, name: str) -> str:
    """Return the path of a file of a multi-file object.

    Parameters
    ----------
    main : str
        Path of the main file.
    suffix : str
        Suffix of the main file, without dot.
    name : str
        What follows the name of the object in the name of the part.
    """
    return main.removesuffix(f".{suffix}") + name


def all_paths(names: Sequence[str], parts: str) -> Iterator[str]:
    """Yield the paths of all files of an object, the main file first.

    Parameters
    ----------
    names : sequence of str
        Pseudonyms of patient, study, series and instance, and the suffix.
    parts : str
        Names of the other files (see `part_path`), one per line.
    """
    main = staged_path(*names)
    yield main
    yield from (part_path(main, names[4], part) for part in parts.splitlines())


def contested_path(path: str, number: int) -> str:
    """Return the path of an object whose UID is contested, until one of the objects keeps the name."""
    return f"{path}.{number}"
