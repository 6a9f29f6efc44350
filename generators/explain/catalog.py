"""The catalog of an explanation: the images of a verified release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release import layout
from medsanitize.release.manifest import read_rows
from medsanitize.release.verify import verify_release


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One image of a catalog.

    Attributes
    ----------
    object_id, path
        From the manifest; the path is relative to the release.
    file
        Path of the file.
    synthetic, label, bound
        Whether the image was generated, its class, and the match bound of the gate's verdict on its
        generator.
    """

    object_id: str
    path: str
    file: Path
    synthetic: bool
    label: str
    bound: float | None


def read_catalog(release: Path, *, everything: bool) -> tuple[CatalogEntry, ...]:
    """Verify a release and list its synthetic images, or all of its images.

    Parameters
    ----------
    release
        Folder of the release.
    everything
        Also list real images, which show patients.

    Raises
    ------
    UsageError
        If there is no release, or it has no synthetic image and ``everything`` is False.
    IntegrityError
        If the release does not match its evidence.
    """
    if not (release / layout.ROOT).is_file():
        raise UsageError("The catalog is not a release: RELEASE.json is missing", "Pass a release folder")
    # A manipulated catalog would give manipulated explanations; no key is needed to see changed bytes.
    found = verify_release(release, key=None)
    if found.status != "intact":
        raise IntegrityError(
            f"The catalog does not match its checksums ({len(found.problems)} problems)",
            "Run medsanitize verify on it to list them, and fetch it again",
        )
    entries = tuple(
        CatalogEntry(
            row.object_id,
            row.path,
            # The manifest is input: a path with ".." must not leave the release.
            release / layout.require_safe(row.path),
            row.synthetic,
            row.synthetic_label or "",
            row.match_bound,
        )
        for row in read_rows(release)
        if everything or row.synthetic
    )
    if not entries:
        raise UsageError(
            "The catalog has no synthetic image",
            "Pass a release with synthetic images, or include real ones with --all: they show patients",
        )
    return entries
