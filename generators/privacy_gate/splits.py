"""Three splits that share no patient: what the generator was trained on, a holdout, a calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class Split:
    """Images of one split.

    Attributes
    ----------
    pictures
        Read when they are asked for, one after the other, each once.
    patients
        Number of each image's patient, ``(n,)``; one numbering for all three splits.
    classes
        Number of each image's class to the generator, ``(n,)``; zeros where it takes none.
    """

    pictures: Sequence[ImageArray]
    patients: NDArray[np.int64]
    classes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pictures)


def check_splits(splits: Mapping[str, Split]) -> None:
    """Raise UsageError unless every image has a patient and a class, and no patient is in two splits."""
    import numpy as np

    for name, split in splits.items():
        if not len(split) == len(split.patients) == len(split.classes):
            raise UsageError(f"The {name} side has not one patient and one class an image", "Correct it")
    if not len(splits["training"]):
        raise UsageError(
            "There is no training image to compare with", "Give what the generator was trained on"
        )
    everybody = np.concatenate([np.unique(split.patients) for split in splits.values()])
    if len(np.unique(everybody)) < len(everybody):
        raise UsageError(
            "A patient is in two of training, holdout and calibration", "Give each patient to one of them"
        )


def check_shared_images(squares: Mapping[str, NDArray[np.uint8]]) -> None:
    """An image that is in two splits is of one person, whatever the table calls them."""
    found = [{one.tobytes() for one in split} for split in squares.values()]
    if len(set().union(*found)) < sum(map(len, found)):
        raise UsageError(
            "An image is in two of training, holdout and calibration", "Leave copies out of the table"
        )


def paired(patients: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of patients who have two images or more."""
    import numpy as np

    _, inverse, counts = np.unique(patients, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[inverse] > 1).astype(np.int64)


def sizes(splits: Mapping[str, Split]) -> dict[str, int]:
    """Images and patients of every split."""
    import numpy as np

    found = {}
    for name, split in splits.items():
        found[f"{name} images"] = len(split)
        found[f"{name} patients"] = len(np.unique(split.patients))
    return found
