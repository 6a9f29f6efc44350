"""Files of the inputs that are no images: which kinds are left out, and how containers are opened."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from medsanitize.policies.base import Section
from pydantic import Field

FileKind = Literal[
    # what media and file managers write
    "dicomdir",
    "checksums",
    "thumbs-db",
    "ds-store",
    "apple-double",
    "windows-shortcut",
    # documents and data
    "text",
    "html",
    "xml",
    "json",
    "hl7",
    "rtf",
    "pdf",
    "postscript",
    "office-document",
    "sqlite",
    "hdf5",
    "matlab",
    "numpy",
    "parquet",
    # images and volumes that are not read
    "gif",
    "bmp",
    "webp",
    "jpeg-2000",
    "jpeg-xl",
    "heif",
    "svg",
    "icon",
    "nifti",
    "nrrd",
    "metaimage",
    # video and sound
    "mp4",
    "avi",
    "mpeg",
    "matroska",
    "asf",
    "wav",
    "mp3",
    "ogg",
    "flac",
    # programs, and archives that are not opened
    "windows-program",
    "linux-program",
    "mac-program",
    "java-archive",
    "script",
    "rar",
    "cab",
    # no content at all, and content of no known kind
    "link",
    "special",
    "unknown",
]
"""Kinds of files that are no images, by their content."""

IGNORED_BY_DEFAULT: Final[tuple[FileKind, ...]] = (
    "dicomdir",
    "checksums",
    "thumbs-db",
    "ds-store",
    "apple-double",
)
"""Kinds that describe other files of the export and contain none of their own."""


class ContainerLimits(Section):
    """Limits of a container with all containers in it; one that exceeds them is quarantined as one file."""

    members: Annotated[int, Field(gt=0)] = 1_000_000
    """Maximum number of files in it."""
    bytes: Annotated[int, Field(gt=0)] = 256 * 2**30
    """Maximum size of its unpacked files, in bytes."""
    ratio: Annotated[int, Field(gt=0)] = 200
    """Maximum ratio of the unpacked size to its own size, from 64 MiB on."""
    depth: Annotated[int, Field(gt=0, le=16)] = 4
    """Maximum number of containers within one another, the outermost included."""


class Containers(Section):
    """Treatment of ZIP, tar, 7z, images of disks (ISO, UDF) and files compressed by gzip, bzip2, xz, zstd."""

    action: Literal["open", "drop", "quarantine"] = "open"
    """``open``: every file in it is treated like a file of the inputs; ``drop``: containers are excluded."""
    limits: ContainerLimits = ContainerLimits()
    """Limits beyond which a container is quarantined."""
