"""The three splits of the gate, which share no patient: training, holdout and calibration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class Split:
    """Images of one split.

    Attributes
    ----------
    pictures
        Read on access, in order, each once.
    patients
        Patient of each image, ``(n,)``; one numbering for all three splits.
    classes
        Class of each image for the generator, ``(n,)``; zeros for a generator without classes.
    """

    pictures: Sequence[ImageArray]
    patients: NDArray[np.int64]
    classes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pictures)


class LazyImages(Sequence["ImageArray"]):
    """Images that are read when they are accessed."""

    def __init__(self, examples: TrainingDataset) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        return self._examples.picture(int(place))

    def __iter__(self) -> Iterator[ImageArray]:
        return (self._examples.picture(place) for place in range(len(self)))


def check_splits(splits: Mapping[str, Split]) -> None:
    """Check that every image has a patient and a class, and that splits share no patient.

    Raises
    ------
    UsageError
        If they do not, or there is no training image.
    """
    import numpy as np

    for name, split in splits.items():
        if not len(split) == len(split.patients) == len(split.classes):
            raise UsageError(f"The {name} split needs one patient and one class for each image", "Correct it")
    if not len(splits["training"]):
        raise UsageError(
            "There is no training image to compare with", "Pass the images the generator was trained on"
        )
    # A shared patient would make the holdout a part of the training data and invalidate each test.
    everybody = np.concatenate([np.unique(split.patients) for split in splits.values()])
    if len(np.unique(everybody)) < len(everybody):
        raise UsageError(
            "A patient is in two of training, holdout and calibration", "Assign each patient to one split"
        )


def check_shared_images(squares: Mapping[str, NDArray[np.uint8]]) -> None:
    """Check that splits share no preprocessed image.

    Raises
    ------
    UsageError
        If an image is in two splits.
    """
    # Equal pixels show one patient, even if the table gives them different patients.
    found = [{one.tobytes() for one in split} for split in squares.values()]
    if len(set().union(*found)) < sum(map(len, found)):
        raise UsageError(
            "An image is in two of training, holdout and calibration", "Remove copies from the table"
        )


def sizes(splits: Mapping[str, Split]) -> dict[str, int]:
    """Number of images and patients by split."""
    import numpy as np

    found = {}
    for name, split in splits.items():
        found[f"{name} images"] = len(split)
        found[f"{name} patients"] = len(np.unique(split.patients))
    return found
