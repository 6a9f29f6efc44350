"""Write cohorts of phantoms, with patients, visits and a table that training and evaluation read."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UsageError
from medsanitize.generators.phantoms.chest import chest_phantom, chest_visit
from medsanitize.generators.phantoms.heads import Visit, head_of
from medsanitize.generators.phantoms.random_fields import stream
from medsanitize.generators.phantoms.tissue import tissue_phantom

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Columns of the table, by the names that the commands expect.
COLUMNS = ("file", "patient_id", "split", "view", "offset_days", "finding")
# Every third patient is in the test split.
_TEST_EVERY = 3


@dataclass(frozen=True, slots=True)
class CohortImage:
    """One image of a cohort, with patient, visit and split."""

    patient: int
    visit: int
    file: str
    split: str


def visits_of(patient: int, least: int, most: int, *, seed: int) -> int:
    """Number of visits of a patient, from ``least`` to ``most``."""
    return int(stream(seed, patient, 9).integers(least, most + 1))


def write_chests(
    folder: Path,
    patients: Sequence[int],
    *,
    visits: tuple[int, int] = (2, 4),
    first: int = 0,
    size: int = 256,
    seed: int = 0,
    varied: bool = False,
) -> Path:
    """Write radiographs of ``patients`` as 8-bit PNG files with a table ``labels.csv``.

    Parameters
    ----------
    folder : Path
        Created if missing; must be empty.
    patients : sequence of int
        Patient numbers. Every third one is in the split ``test``, the others in ``train``.
    visits : (int, int)
        Minimum and maximum number of images per patient.
    first : int
        Number of the first visit: cohorts with other visits of the same patients share patients, but no
        images.
    size, seed, varied
        As in `chest_phantom`.

    Returns
    -------
    Path
        The table.

    Raises
    ------
    UsageError
        If the folder is not empty.
    """
    _require_empty(folder)
    rows = []
    for taken in _taken(patients, visits, first, seed):
        state = chest_visit(taken.patient, taken.visit, seed=seed)
        path = folder / taken.file
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = chest_phantom(taken.patient, taken.visit, size=size, seed=seed, varied=varied)
        path.write_bytes(_png(picture))
        row = (taken.file, taken.patient, taken.split, state.view, state.days, state.finding)
        rows.append(tuple(str(one) for one in row))
    return _table(folder, COLUMNS, rows)


def write_slides(
    folder: Path,
    patients: Sequence[int],
    *,
    sections: Sequence[int] = (0, 1, 30),
    scanners: Sequence[int] = (0,),
    size: int = 512,
    seed: int = 0,
) -> Path:
    """Write slides of one block of each patient as PNG files with a table ``labels.csv``.

    Parameters
    ----------
    folder, patients, size, seed
        As in `write_chests`.
    sections : sequence of int
        Sections of the block.
    scanners : sequence of int
        Each section is scanned by each of them.

    Returns
    -------
    Path
        The table, with the columns ``kind``, ``block``, ``section`` and ``scanner``.

    Raises
    ------
    UsageError
        If the folder is not empty.
    """
    _require_empty(folder)
    rows = []
    for patient in patients:
        for section in sections:
            for scanned in scanners:
                name = f"p{patient:04d}/s{section:03d}_{scanned}.png"
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_png(tissue_phantom(patient, 0, section, scanned, size=size, seed=seed)))
                rows.append((name, str(patient), _split(patient), "slide", "0", str(section), str(scanned)))
    columns = ("file", "patient_id", "split", "kind", "block", "section", "scanner")
    return _table(folder, columns, rows)


def write_heads(
    folder: Path, patients: Sequence[int], *, visits: int = 2, size: int = 192, seed: int = 0
) -> Path:
    """Write one axial MR slice of each visit as PNG files with a table ``labels.csv``.

    Parameters
    ----------
    folder, patients, size, seed
        As in `write_chests`.
    visits : int
        Number of visits of each patient.

    Returns
    -------
    Path
        The table, with the columns ``kind`` and ``series``.

    Raises
    ------
    UsageError
        If the folder is not empty.
    """
    import numpy as np

    _require_empty(folder)
    line = np.linspace(-120, 120, size, dtype=np.float32)
    points = np.stack([*np.meshgrid(line, line), np.full((size, size), 8, np.float32)], axis=-1)
    rows = []
    for patient in patients:
        for visit in range(visits):
            values = Visit(head_of(patient, seed=seed), visit).values(points)
            name = f"p{patient:04d}/{visit:02d}.png"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(_png(np.clip(values / 600, 0, 1)))
            rows.append((name, str(patient), _split(patient), "mr-head", str(visit)))
    return _table(folder, ("file", "patient_id", "split", "kind", "series"), rows)


def _taken(patients: Sequence[int], visits: tuple[int, int], first: int, seed: int) -> Iterator[CohortImage]:
    for patient in patients:
        for number in range(visits_of(patient, *visits, seed=seed)):
            name = f"p{patient:04d}/{first + number:02d}.png"
            yield CohortImage(patient, first + number, name, _split(patient))


def _split(patient: int) -> str:
    return "test" if patient % _TEST_EVERY == _TEST_EVERY - 1 else "train"


# -- files ------------------------------------------------------------------------------------


def _require_empty(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise UsageError("The folder for the phantoms is not empty", "Name a new folder")
    folder.mkdir(parents=True, exist_ok=True)


def _png(picture: NDArray[Any]) -> bytes:
    import numpy as np
    from PIL import Image

    if picture.dtype != np.uint8:
        picture = np.rint(picture * 255).astype(np.uint8)
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def _table(folder: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    path = folder / "labels.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return path
