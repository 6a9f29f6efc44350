"""Series of a release as NIfTI volumes with BIDS sidecars, converted by dcm2niix."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.offline import plain_environment
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.exports.export_folder import TEMPORARY, ExportFolder
from medsanitize.release.exports.released_objects import ReleasedObject, VerifiedFile

_SECONDS: Final = 1800
# No settings of this user's home (-g), no text of the header in the volume (-c), sidecars without dates
# (-ba), the program's own zlib (-z i): the same series gives the same bytes on every machine.
_OPTIONS: Final = ("-g", "i", "-c", "", "-b", "y", "-ba", "y", "-z", "i", "-w", "1", "-d", "0", "-q", "n")


def require_dcm2niix() -> str:
    """Return the path of the program.

    Raises
    ------
    UsageError
        The extra is not installed.
    """
    try:
        import dcm2niix
    except ModuleNotFoundError:
        raise UsageError(
            "Exporting NIfTI needs dcm2niix", "Install it with: pip install 'medsanitize[export]'"
        ) from None
    return str(dcm2niix.bin)


def write_volumes(
    release: Path,
    folder: ExportFolder,
    objects: Iterable[ReleasedObject],
    progress: Progress,
    cancellation: Cancellation,
) -> int:
    """Convert each series into ``PatientID/StudyInstanceUID/SeriesInstanceUID/``; complete ones are kept.

    Parameters
    ----------
    release : Path
        Folder of the release.
    folder : ExportFolder
    objects : iterable of ReleasedObject
        DICOM images in the order of the manifest.
    progress, cancellation
        Counts objects; stops between two series.

    Returns
    -------
    int
        Number of objects in series that dcm2niix does not convert, such as radiographs without position.

    Raises
    ------
    UsageError
        dcm2niix is not installed.
    IntegrityError
        A released file is missing or changed.
    EnvironmentFailure
        The disk is full or fails.
    """
    program, unconverted = require_dcm2niix(), 0
    for place, members in _series(objects):
        cancellation.check()
        target = folder.path / place
        if not target.exists():
            with storage_errors():
                _convert(program, release, members, target)
        # An empty folder stands for a series that was tried.
        if not any(target.iterdir()):
            unconverted += len(members)
        progress.advance(len(members))
    return unconverted


def _series(objects: Iterable[ReleasedObject]) -> Iterator[tuple[Path, list[ReleasedObject]]]:
    names = ("PatientID", "StudyInstanceUID", "SeriesInstanceUID")
    for key, members in groupby(objects, key=lambda row: tuple(row.described[name] for name in names)):
        yield Path(*key), list(members)


def _convert(program: str, release: Path, members: list[ReleasedObject], target: Path) -> None:
    temporary = target.with_name(target.name + TEMPORARY)
    shutil.rmtree(temporary, ignore_errors=True)
    source, volumes = temporary / "source", temporary / "volumes"
    source.mkdir(parents=True)
    volumes.mkdir()
    # Only what was verified is converted: the folder of the release may have other files as well.
    for number, row in enumerate(members):
        with VerifiedFile(release, row) as file, (source / f"{number:06d}.dcm").open("wb") as copy:
            while part := file.read(1 << 20):
                copy.write(part)
    if not _run(program, source, volumes):
        # Half a series would look like a whole one.
        shutil.rmtree(volumes)
        volumes.mkdir()
    volumes.replace(target)
    shutil.rmtree(temporary)


def _run(program: str, source: Path, volumes: Path) -> bool:
    """Convert a folder; whether the program ended without error."""
    try:
        done = subprocess.run(  # noqa: S603  a program that is installed here, and no shell
            [program, *_OPTIONS, "-f", "image", "-o", str(volumes), str(source)],
            capture_output=True,
            env=plain_environment(),
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
