"""What was seen of all images of a side, as arrays that can be compared at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.verifiers.overlap.look import NO_IMAGE, Look
from medsanitize.verifiers.overlap.side import Image, Side
from medsanitize.verifiers.pictures.picture import Modality

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class Vectors:
    """Embeddings of one modality: row n belongs to image ``images[n]`` of patient ``patients[n]``.

    ``first`` is of the retrieval model, ``second`` of the verification model or None.
    """

    images: NDArray[np.int64]
    patients: NDArray[np.int64]
    first: NDArray[np.float32]
    second: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True, repr=False)
class Seen:
    """A side after every image was visited.

    Attributes
    ----------
    title, images
        As in the side.
    patients
        Number of each image's patient; an image whose patient is unknown is a patient of its own, and what
        is no data of anybody (texts, tables) has -1.
    names
        What each patient is called; empty where unknown. For the holder alone.
    digests, pixels, prints
        Digests of bytes and of pixels, and fingerprints, by image; None where there is none.
    vectors
        Embeddings by modality.
    unread
        Images of which not everything was compared, by reason.
    no_images
        Objects that are no images: they were compared byte by byte, and there is nothing else to compare.
    """

    title: str
    images: tuple[Image, ...]
    patients: NDArray[np.int64]
    names: tuple[str, ...]
    digests: tuple[bytes | None, ...]
    pixels: tuple[bytes | None, ...]
    prints: tuple[bytes | None, ...]
    vectors: Mapping[Modality, Vectors]
    unread: Mapping[str, int]
    no_images: int


def gather(side: Side, looks: Iterable[Look]) -> Seen:
    """Put together what was seen, in the order of the side's images.

    Raises
    ------
    UsageError
        When the side has no image at all.
    """
    found = list(looks)
    if not any(one.trouble != NO_IMAGE for one in found) and not side.unread:
        raise UsageError(f"{side.title} holds no image", "Name a release, or a folder of images")
    return seen_of(side.title, side.images, found, side.unread)


def seen_of(title: str, images: Sequence[Image], found: Sequence[Look], left: Mapping[str, int]) -> Seen:
    """Put together images and what was seen of each; ``left`` counts what could not even be looked at."""
    import numpy as np

    numbers: dict[str, int] = {}
    names: list[str] = []
    patients = []
    for image, look in zip(images, found, strict=True):
        name = image.patient or look.patient
        if look.digest is None and look.trouble == NO_IMAGE:
            patients.append(-1)
            continue
        if not name or name not in numbers:
            numbers[name] = len(names)
            names.append(name)
        patients.append(numbers[name])
    unread = Counter(left)
    unread.update(one.trouble for one in found if one.trouble and one.trouble != NO_IMAGE)
    codes = np.array(patients, np.int64)
    return Seen(
        title=title,
        images=tuple(images),
        patients=codes,
        names=tuple(names),
        digests=tuple(one.digest for one in found),
        pixels=tuple(one.pixels for one in found),
        prints=tuple(one.print for one in found),
        vectors={
            modality: _vectors(found, codes, modality)
            for modality in Modality
            if any(one.modality is modality for one in found)
        },
        unread=dict(sorted(unread.items())),
        no_images=sum(one.trouble == NO_IMAGE for one in found),
    )


def _vectors(looks: Sequence[Look], patients: NDArray[np.int64], modality: Modality) -> Vectors:
    import numpy as np

    rows = [n for n, one in enumerate(looks) if one.modality is modality]
    second = [looks[n].second for n in rows]
    return Vectors(
        images=np.array(rows, np.int64),
        patients=patients[rows],
        first=np.stack([np.asarray(looks[n].vector, np.float32) for n in rows]),
        second=None if second[0] is None else np.stack([np.asarray(one, np.float32) for one in second]),
    )
