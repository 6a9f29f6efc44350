"""Images that an attack is tried on, of a table or phantoms, and the folder of its pictures."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.labels import LabelColumns, Labels, read_labels

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
    from numpy.typing import NDArray

REPORT: Final = "report.json"
# Images of a row of a contact sheet.
_ACROSS: Final = 8
# Column of the classes of phantoms.
PHANTOM_CLASS: Final = "finding"


@dataclass(frozen=True, slots=True)
class ImageTable:
    """The options of a command that name its images; without ``images`` phantoms are made."""

    images: Path | None
    labels: Path | None
    columns: LabelColumns
    split: str | None
    kind: Modality | None

    def __post_init__(self) -> None:
        if (self.images is None) != (self.labels is None):
            raise UsageError("--images and --labels belong together", "Give both, or neither for phantoms")


@dataclass(frozen=True, slots=True, repr=False)
class Squares:
    """Gray squares of one kind of image.

    Attributes
    ----------
    pixels
        Values in [0, 1], float32, ``(n, size, size)``.
    patients
        Number of the patient of each image.
    modality
        Kind of all images.
    """

    pixels: NDArray[np.float32]
    patients: NDArray[np.int64]
    modality: Modality


def pictures_of(pixels: NDArray[np.float32], modality: Modality) -> list[ImageArray]:
    """Wrap gray squares as models read them."""
    return [ImageArray(one, modality) for one in pixels]


@contextmanager
def rows_of(table: ImageTable, patients: int, size: int) -> Iterator[Labels]:
    """Rows of the table; without one, of phantoms with two images each."""
    if table.images is not None and table.labels is not None:
        yield read_labels(table.labels, table.images, table.columns, table.split).of_kind(table.kind)
        return
    from medsanitize.generators.phantoms.cohorts import write_chests

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "phantoms"
        made = write_chests(root, range(patients), visits=(2, 2), size=size)
        yield read_labels(made, root, LabelColumns()).of_kind(Modality.RADIOGRAPH)


def squares_of(
    examples: TrainingDataset, size: int, progress: Progress, cancellation: Cancellation
) -> Squares:
    """Read images as gray squares, preprocessed as for the classifier."""
    import numpy as np
    from medsanitize.verifiers.reid.models.preprocess import Channels, Fit, Preprocessing, prepare

    how = Preprocessing(size, Fit.STRETCH, Channels.GRAY, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    progress.stage("prepare images", len(examples))
    pixels = np.empty((len(examples), size, size), np.float32)
    for place in range(len(examples)):
        cancellation.check()
        pixels[place] = np.clip(prepare(examples.picture(place), how)[0], 0, 1)
        progress.advance(1)
    return Squares(pixels, examples.patients, examples.modality)


def new_private_folder(folder: Path) -> None:
    """Create a folder that its owner only can open.

    Raises
    ------
    UsageError
        If it exists: nothing in it is replaced.
    """
    with storage_errors():
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            raise UsageError("The output folder exists", "Name another folder") from None


def write_report(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the figures of an attack as JSON."""
    write_atomic(folder / REPORT, (json.dumps(facts, indent=1) + "\n").encode(), private=True)


def write_pairs(path: Path, originals: NDArray[np.float32], made: NDArray[np.float32]) -> None:
    """Write a contact sheet, originals above their reconstructions: it shows patients."""
    import numpy as np
    from medsanitize.generators.diffusion.contact_sheet import png

    rows = np.stack([originals[:_ACROSS], made[:_ACROSS]])
    write_atomic(path, png(np.rint(np.clip(rows, 0, 1) * 255).astype(np.uint8)), private=True)
