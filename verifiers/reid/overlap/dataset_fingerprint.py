"""The fingerprint of all images of a dataset, as arrays that can be compared at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.index.search import VectorSearch, build_search
from medsanitize.verifiers.reid.index.vector_spool import VectorSpool
from medsanitize.verifiers.reid.overlap.dataset import Dataset, ImageFile
from medsanitize.verifiers.reid.overlap.fingerprint import NO_IMAGE, ImageFingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class Embeddings:
    """Embeddings of one modality: row n belongs to image ``images[n]`` of patient ``patients[n]``.

    ``search`` holds those of the retrieval model, ``second`` those of the verification model or None.
    """

    images: NDArray[np.int64]
    patients: NDArray[np.int64]
    search: VectorSearch
    second: NDArray[np.float32] | None

    @property
    def first(self) -> NDArray[np.float32]:
        """Embeddings of the retrieval model, ``(n, dimension)``."""
        return self.search.vectors


@dataclass(frozen=True, slots=True, repr=False)
class DatasetFingerprint:
    """A dataset after every image was visited.

    Attributes
    ----------
    title, images
        As in the dataset.
    patients
        Number of each image's patient; an image whose patient is unknown is a patient of its own, and what
        is no data of anybody (texts, tables) has -1.
    names
        What each patient is called; empty where unknown. Contains PHI.
    digests, pixels, perceptual_hashes
        Digests of bytes and of pixels, and fingerprints, by image; None where there is none.
    stamps
        Of the files of each image, see `look.stamp_of`.
    vectors
        Embeddings by modality.
    unread
        Images of which not everything was compared, by reason.
    non_images
        Objects that are no images: they were compared byte by byte, and there is nothing else to compare.
    """

    title: str
    images: tuple[ImageFile, ...]
    patients: NDArray[np.int64]
    names: tuple[str, ...]
    digests: tuple[bytes | None, ...]
    pixels: tuple[bytes | None, ...]
    perceptual_hashes: tuple[bytes | None, ...]
    stamps: tuple[str, ...]
    vectors: Mapping[Modality, Embeddings]
    unread: Mapping[str, int]
    non_images: int


def fingerprint_dataset(
    dataset: Dataset, fingerprints: Iterable[ImageFingerprint], scratch: Path | None = None
) -> DatasetFingerprint:
    """Put together what was seen, in the order of the dataset's images; ``scratch`` as in
    `collect_fingerprints`.

    Raises
    ------
    UsageError
        When the dataset has no image at all.
    """
    seen = collect_fingerprints(
        dataset.title, zip(dataset.images, fingerprints, strict=True), dataset.unread, scratch
    )
    if len(seen.images) == seen.non_images and not dataset.unread:
        raise UsageError(f"{dataset.title} holds no image", "Name a release, or a folder of images")
    return seen


def collect_fingerprints(
    title: str,
    visited: Iterable[tuple[ImageFile, ImageFingerprint]],
    left: Mapping[str, int],
    scratch: Path | None = None,
) -> DatasetFingerprint:
    """Put together images and what was seen of each, one after the other.

    Parameters
    ----------
    title : str
        What messages call the dataset.
    visited : iterable of (ImageFile, Look)
        In the order of the images.
    left : mapping
        Counts what could not even be looked at, by reason.
    scratch : Path, optional
        Where embeddings lie in a file without a name, by default where temporary files do.

    Raises
    ------
    EnvironmentFailure
        When the disk is full or fails.
    """
    import numpy as np

    images, patients = list[ImageFile](), _Patients()
    digests, pixels, perceptual_hashes = (list[bytes | None]() for _ in range(3))
    stamps = list[str]()
    vectors: dict[Modality, _Embedded] = {}
    troubles, non_images = Counter(left), 0
    for image, fingerprint in visited:
        no_data = fingerprint.digest is None and fingerprint.trouble == NO_IMAGE
        patients.add("" if no_data else image.patient or fingerprint.patient, counts=not no_data)
        if fingerprint.modality is not None:
            vectors.setdefault(fingerprint.modality, _Embedded(scratch)).add(len(images), fingerprint)
        images.append(image)
        digests.append(fingerprint.digest)
        pixels.append(fingerprint.pixels)
        perceptual_hashes.append(fingerprint.print)
        stamps.append(fingerprint.stamp)
        if fingerprint.trouble == NO_IMAGE:
            non_images += 1
        elif fingerprint.trouble:
            troubles[fingerprint.trouble] += 1
    codes = np.array(patients.codes, np.int64)
    return DatasetFingerprint(
        title=title,
        images=tuple(images),
        patients=codes,
        names=tuple(patients.names),
        digests=tuple(digests),
        pixels=tuple(pixels),
        perceptual_hashes=tuple(perceptual_hashes),
        stamps=tuple(stamps),
        vectors={modality: vectors[modality].vectors(codes) for modality in Modality if modality in vectors},
        unread=dict(sorted(troubles.items())),
        non_images=non_images,
    )


class _Patients:
    """Numbers patients as they come; who is unknown is a patient of its own, and no data is nobody's."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, name: str, *, counts: bool) -> None:
        if not counts:
            self.codes.append(-1)
            return
        if not name or name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        self.codes.append(self._numbers[name])


class _Embedded:
    """Embeddings of one modality as they come."""

    def __init__(self, scratch: Path | None) -> None:
        self._scratch = scratch
        self._images: list[int] = []
        self._first, self._second = VectorSpool(scratch), VectorSpool(scratch)

    def add(self, image: int, fingerprint: ImageFingerprint) -> None:
        import numpy as np

        self._images.append(image)
        self._first.append(np.asarray(fingerprint.vector))
        if fingerprint.second is not None:
            self._second.append(fingerprint.second)

    def vectors(self, patients: NDArray[np.int64]) -> Embeddings:
        import numpy as np

        second = self._second.array()
        if len(second) not in (0, len(self._images)):
            raise ValueError("a verification model looks at all images or at none")
        images = np.array(self._images, np.int64)
        return Embeddings(
            images=images,
            patients=patients[images],
            search=build_search(self._first.array(), self._scratch),
            second=second if len(second) else None,
        )
