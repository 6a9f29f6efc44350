"""The fingerprint of a dataset: the fingerprints of its images as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.kinds import one_of_each_series
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

    Attributes
    ----------
    images
        Number of the image of each row, shape (n,).
    patients
        Number of the patient of each row, shape (n,).
    search
        Searchable embeddings of the retrieval model.
    second
        Embeddings of the verification model, shape (n, dimension); None without one.
    """

    images: NDArray[np.int64]
    patients: NDArray[np.int64]
    search: VectorSearch
    second: NDArray[np.float32] | None

    @property
    def first(self) -> NDArray[np.float32]:
        """Embeddings of the retrieval model, shape (n, dimension)."""
        return self.search.vectors


@dataclass(frozen=True, slots=True, repr=False)
class DatasetFingerprint:
    """The fingerprint of a dataset. Contains PHI.

    Attributes
    ----------
    title, images
        As in `Dataset`.
    patients
        Number of the patient of each image. An image of an unknown patient counts as a patient of its own; -1
        for files that are no patient data (texts, tables).
    names
        ID of each patient; empty where unknown.
    digests, pixels, perceptual_hashes
        Digests of bytes and pixels, and perceptual hashes, by image; None where there is none.
    stamps
        Stamp of the files of each image, see
        `medsanitize.verifiers.reid.overlap.fingerprint.file_stamp`.
    vectors
        Embeddings by modality; of slices (CT, MR, ultrasound, OCT), that of the middle one of each series.
    unread
        Number of images that were not compared in full, by reason.
    non_images
        Number of objects without an image; they are compared by their bytes only.
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
    """Collect the fingerprints of a dataset.

    Parameters
    ----------
    dataset : Dataset
        The dataset.
    fingerprints : iterable of ImageFingerprint
        One per image of ``dataset``, in its order.
    scratch : Path, optional
        See `collect_fingerprints`.

    Raises
    ------
    UsageError
        If the dataset has no image.
    EnvironmentFailure
        If the disk is full or fails.
    """
    seen = collect_fingerprints(
        dataset.title, zip(dataset.images, fingerprints, strict=True), dataset.unread, scratch
    )
    # Unreadable images are no error here: they make the verdict inconclusive.
    if len(seen.images) == seen.non_images and not dataset.unread:
        raise UsageError(f"{dataset.title} contains no images", "Pass a release or a folder of images")
    return seen


def collect_fingerprints(
    title: str,
    visited: Iterable[tuple[ImageFile, ImageFingerprint]],
    left: Mapping[str, int],
    scratch: Path | None = None,
) -> DatasetFingerprint:
    """Collect the fingerprints of images in arrays.

    Parameters
    ----------
    title : str
        Title of the dataset in messages.
    visited : iterable of (ImageFile, ImageFingerprint)
        In the order of the images.
    left : mapping of str to int
        Number of images that have no fingerprint, by reason.
    scratch : Path, optional
        Folder for the unnamed file of embeddings; the folder for temporary files by default.

    Raises
    ------
    EnvironmentFailure
        If the disk is full or fails.
    """
    import numpy as np

    images, patients = list[ImageFile](), _Patients()
    digests, pixels, perceptual_hashes = (list[bytes | None]() for _ in range(3))
    stamps = list[str]()
    vectors: dict[Modality, _Embedded] = {}
    problems, non_images = Counter(left), 0
    for image, fingerprint in visited:
        # Tables and texts that accompany a dataset are no patients.
        no_data = fingerprint.digest is None and fingerprint.problem == NO_IMAGE
        # A table or a manifest takes precedence over the header.
        patients.add("" if no_data else image.patient or fingerprint.patient, counts=not no_data)
        if fingerprint.modality is not None:
            sliced = fingerprint.modality.is_sliced
            vectors.setdefault(fingerprint.modality, _Embedded(scratch, sliced=sliced)).add(
                len(images), fingerprint
            )
        images.append(image)
        digests.append(fingerprint.digest)
        pixels.append(fingerprint.pixels)
        perceptual_hashes.append(fingerprint.perceptual_hash)
        stamps.append(fingerprint.stamp)
        if fingerprint.problem == NO_IMAGE:
            non_images += 1
        elif fingerprint.problem:
            problems[fingerprint.problem] += 1
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
        unread=dict(sorted(problems.items())),
        non_images=non_images,
    )


class _Patients:
    """Numbers patients by appearance: a new number for each unknown patient, -1 for other files."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, name: str, *, counts: bool) -> None:
        if not counts:
            self.codes.append(-1)
            return
        # Images of unknown patients are never merged: they may be of different patients.
        if not name or name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        self.codes.append(self._numbers[name])


class _Embedded:
    """Collects the embeddings of one modality; of slices, the middle one of each series is kept."""

    def __init__(self, scratch: Path | None, *, sliced: bool) -> None:
        self._scratch = scratch
        self._slices: list[tuple[str, float]] | None = [] if sliced else None
        self._images: list[int] = []
        self._first, self._second = VectorSpool(scratch), VectorSpool(scratch)

    def add(self, image: int, fingerprint: ImageFingerprint) -> None:
        import numpy as np

        self._images.append(image)
        self._first.append(np.asarray(fingerprint.embedding))
        if self._slices is not None:
            self._slices.append((fingerprint.series, fingerprint.position))
        if fingerprint.verification_embedding is not None:
            self._second.append(fingerprint.verification_embedding)

    def vectors(self, patients: NDArray[np.int64]) -> Embeddings:
        import numpy as np

        second = self._second.array()
        if len(second) not in (0, len(self._images)):
            raise ValueError("a verification model must read all images or none")
        images, first = np.array(self._images, np.int64), self._first.array()
        if self._slices is not None:
            series, places = zip(*self._slices, strict=True)
            rows = one_of_each_series(patients[images].tolist(), series, places)
            images, first, second = images[rows], first[rows], second[rows] if len(second) else second
        return Embeddings(
            images=images,
            patients=patients[images],
            search=build_search(first, self._scratch),
            second=second if len(second) else None,
        )
