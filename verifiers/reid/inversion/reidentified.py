"""Whether the patient of a reconstructed image is found among other images of the same patients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.verifiers.reid.calibration import clopper_pearson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Each bound of a two-sided interval at 95 %.
_EACH_BOUND: Final = 0.975


@dataclass(frozen=True, slots=True)
class Reidentified:
    """Share of images whose nearest image in a gallery shows their patient.

    Attributes
    ----------
    images, found
        Number of images, and of those whose patient was found.
    lower, upper
        Exact 95 % interval of the share.
    """

    images: int
    found: int
    lower: float
    upper: float

    @property
    def share(self) -> float:
        """Share of the images whose patient was found."""
        return self.found / self.images

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {
            "images": self.images,
            "found": self.found,
            "share": self.share,
            "interval": [self.lower, self.upper],
        }


def reidentified(
    probes: NDArray[np.float32],
    patients: NDArray[np.int64],
    gallery: NDArray[np.float32],
    gallery_patients: NDArray[np.int64],
) -> Reidentified:
    """Search each probe in the gallery by cosine similarity.

    Parameters
    ----------
    probes, gallery
        Embeddings, ``(n, dimension)`` and ``(m, dimension)``.
    patients, gallery_patients
        Patients of their images; every patient of a probe is in the gallery.
    """
    nearest = (_unit(probes) @ _unit(gallery).T).argmax(axis=1)
    found = int((gallery_patients[nearest] == patients).sum())
    return Reidentified(len(probes), found, *clopper_pearson(found, len(probes), _EACH_BOUND))


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    import numpy as np

    rows = vectors.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float64] = rows / np.where(lengths > 0, lengths, 1)
    return unit
