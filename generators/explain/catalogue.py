"""The catalogue that examples come from: the images of a release that is intact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release import layout
from medsanitize.release.manifest import read_rows
from medsanitize.release.verify import verify_release


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One image of a catalogue.

    Attributes
    ----------
    object_id, path
        As its manifest has them; the path is relative to the release.
    file
        Where it is.
    synthetic, label, bound
        Whether it was generated, for which class, and the bound of the gate's verdict on its generator.
    """

    object_id: str
    path: str
    file: Path
    synthetic: bool
    label: str
    bound: float | None


def read_catalogue(release: Path, *, everything: bool) -> tuple[CatalogueEntry, ...]:
    """The synthetic images of a release, or all of its objects; every byte is checked first.

    Raises
    ------
    UsageError
        If there is no release, or it has no synthetic image and not everything was asked for.
    IntegrityError
        If the release is not what its evidence says.
    """
    if not (release / layout.ROOT).is_file():
        raise UsageError("The catalogue is no release: it has no RELEASE.json", "Name a release folder")
    found = verify_release(release, key=None)
    if found.status != "intact":
        raise IntegrityError(
            f"The catalogue is not what its evidence says ({len(found.problems)} problems)",
            "Run medsanitize verify on it to see which, and fetch it again",
        )
    entries = tuple(
        CatalogueEntry(
            row.object_id,
            row.path,
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
            "The catalogue has no synthetic image",
            "Name a release with synthetic images, or take real ones as well with --all: they show patients",
        )
    return entries
