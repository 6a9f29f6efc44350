"""The command ``attack decoder``: images from embeddings, by a decoder trained on other people's images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.attacked_images import (
    ImageTable,
    Squares,
    new_private_folder,
    pictures_of,
    rows_of,
    squares_of,
    write_pairs,
    write_report,
)
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.labels import LabelColumns, Labels

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.quality.reconstructions import Resemblance
    from medsanitize.verifiers.reid.inversion.reidentified import Reidentified
    from medsanitize.verifiers.reid.models.protocols import Retrieval
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
    from numpy.typing import NDArray

Known = Literal["patients", "phantoms"]
_PHANTOMS: Final = 240
_SIDE: Final = 128
_SEED: Final = 14_142
# Another population than that of the attacked phantoms.
_PUBLIC_SEED: Final = 31_415
_AT_ONCE: Final = 16
# At most this share of the patients is attacked; the others are the attacker's.
_ATTACKED: Final = 1 / 3
_FEWEST: Final = 10


@dataclass(frozen=True, slots=True)
class DecoderAttackRequest:
    """The arguments of the command ``attack decoder``."""

    table: ImageTable
    known: Known
    epochs: int
    model: Path | None
    output: Path | None


@dataclass(frozen=True, slots=True)
class DecoderAttack:
    """Result of the attack; it names no image and no patient.

    Attributes
    ----------
    cohort, known
        ``phantoms`` or ``images``; whose images trained the decoder: other ``patients`` or ``phantoms``.
    model, model_digest, dimension
        Model of the embeddings, and their length.
    trained_on
        Number of images that trained the decoder.
    size
        Width and height of the reconstructions in pixels.
    patients
        Patients among whom the verifier searches.
    decoded, genuine
        Whether the reconstruction, and the original at the same size, find another image of the patient.
    resemblance
        SSIM with the originals, beside two guesses.
    excluded
        Number of images left out, by reason.
    """

    cohort: str
    known: Known
    model: str
    model_digest: str
    dimension: int
    trained_on: int
    size: int
    patients: int
    decoded: Reidentified
    genuine: Reidentified
    resemblance: Resemblance
    excluded: Mapping[str, int] = field(default_factory=dict)

    @property
    def chance(self) -> float:
        """Share of patients that a guess finds."""
        return 1 / self.patients

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {
            "attack": "decoder",
            "cohort": self.cohort,
            "known": self.known,
            "model": self.model,
            "model_digest": self.model_digest,
            "dimension": self.dimension,
            "trained_on": self.trained_on,
            "size": self.size,
            "patients": self.patients,
            "decoded": self.decoded.to_json(),
            "genuine": self.genuine.to_json(),
            "chance": self.chance,
            "ssim": {**asdict(self.resemblance), "above_chance": self.resemblance.above_chance},
            "excluded": dict(self.excluded),
        }


@dataclass(frozen=True, slots=True, repr=False)
class _Embedded:
    """Squares and the embeddings of their images."""

    squares: Squares
    vectors: NDArray[np.float32]

    def part(self, places: NDArray[np.intp]) -> _Embedded:
        squares = Squares(self.squares.pixels[places], self.squares.patients[places], self.squares.modality)
        return _Embedded(squares, self.vectors[places])


def run_decoder_attack(
    request: DecoderAttackRequest, progress: Progress, cancellation: Cancellation
) -> DecoderAttack:
    """Train a decoder on some people's images, and decode the embeddings of others.

    Raises
    ------
    UsageError
        If there are too few patients with two images, or the output exists.
    """
    check_extra("verify")
    from medsanitize.generators.quality.reconstructions import resemblance
    from medsanitize.verifiers.reid.inversion.image_decoder import train_decoder
    from medsanitize.verifiers.reid.training.training_dataset import gather_images

    if request.output is not None:
        new_private_folder(request.output)
    with rows_of(request.table, _PHANTOMS, _SIDE) as labels:
        examples, excluded = gather_images(labels, progress, cancellation)
        model = _model(request, examples.modality)
        every = _embedded(examples, model, progress, cancellation)
    attacked, gallery, others = _cohort(every.squares.patients)
    known = every.part(others)
    if request.known == "phantoms":
        with _public_phantoms() as labels:
            public, _ = gather_images(labels, progress, cancellation)
            known = _embedded(public, model, progress, cancellation)
    progress.stage("train decoder", request.epochs)

    def done(epochs: int) -> None:
        progress.advance(epochs)
        cancellation.check()

    decoder = train_decoder(known.vectors, known.squares.pixels, request.epochs, _SEED, done)
    shown, searched = every.part(attacked), every.part(gallery)
    made = decoder.decode(shown.vectors)
    progress.stage("search", None)
    decoded, genuine = (
        _searched(pixels, shown.squares, searched.squares, model, cancellation)
        for pixels in (made, shown.squares.pixels)
    )
    steps = [(original[None], one[None]) for original, one in zip(shown.squares.pixels, made, strict=True)]
    result = DecoderAttack(
        cohort="phantoms" if request.table.images is None else "images",
        known=request.known,
        model="packaged ImageNet features" if request.model is None else "a trained model",
        model_digest=model.digest,
        dimension=every.vectors.shape[1],
        trained_on=len(known.vectors),
        size=made.shape[1],
        patients=len(set(searched.squares.patients.tolist())),
        decoded=decoded,
        genuine=genuine,
        resemblance=resemblance(steps, known.squares.pixels),
        excluded=excluded,
    )
    if request.output is not None:
        write_pairs(request.output / "decoded.png", shown.squares.pixels, made)
        write_report(request.output, result.to_json())
    return result


def _model(request: DecoderAttackRequest, modality: Modality) -> Retrieval:
    from medsanitize.verifiers.reid.models.load import open_retrieval
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

    return open_retrieval(request.model) if request.model else packaged_retrieval(modality)


def _searched(
    pixels: NDArray[np.float32],
    shown: Squares,
    gallery: Squares,
    model: Retrieval,
    cancellation: Cancellation,
) -> Reidentified:
    """Search pictures of the shown patients among the gallery."""
    from medsanitize.verifiers.reid.inversion.reidentified import reidentified

    own, theirs = (
        _embed(pictures_of(one, shown.modality), model, cancellation) for one in (pixels, gallery.pixels)
    )
    return reidentified(own, shown.patients, theirs, gallery.patients)


def _embedded(
    examples: TrainingDataset, model: Retrieval, progress: Progress, cancellation: Cancellation
) -> _Embedded:
    """Embed the images as they are; in memory only."""
    from medsanitize.verifiers.reid.inversion.image_decoder import SIZE

    squares = squares_of(examples, SIZE, progress, cancellation)
    progress.stage("embedding", None)
    pictures = (examples.picture(place) for place in range(len(examples)))
    return _Embedded(squares, _embed(pictures, model, cancellation))


def _embed(
    pictures: Iterable[ImageArray], model: Retrieval, cancellation: Cancellation
) -> NDArray[np.float32]:
    import numpy as np

    parts, left = [], iter(pictures)
    while batch := list(islice(left, _AT_ONCE)):
        cancellation.check()
        parts.append(model.embed(batch))
    return np.concatenate(parts)


def _cohort(
    patients: NDArray[np.int64],
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Places of an image of each attacked patient, of their other images, and of all images of the others."""
    import numpy as np

    numbers, first, counts = np.unique(patients, return_index=True, return_counts=True)
    several = np.flatnonzero(counts > 1)
    count = min(len(several), int(len(numbers) * _ATTACKED))
    if count < _FEWEST:
        raise UsageError(
            f"There are too few patients with two or more images: {len(several)} of {len(numbers)}",
            f"At least {_FEWEST} are attacked, and twice as many others train the decoder",
        )
    chosen = np.random.default_rng(_SEED).permutation(several)[:count]
    theirs = np.isin(patients, numbers[chosen])
    theirs[first[chosen]] = False
    return first[chosen], np.flatnonzero(theirs), np.flatnonzero(~np.isin(patients, numbers[chosen]))


@contextmanager
def _public_phantoms() -> Iterator[Labels]:
    """Rows of phantoms of another population."""
    import tempfile

    from medsanitize.generators.phantoms.cohorts import write_chests
    from medsanitize.verifiers.reid.labels import read_labels

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "phantoms"
        table = write_chests(root, range(2 * _PHANTOMS), visits=(1, 1), size=_SIDE, seed=_PUBLIC_SEED)
        yield read_labels(table, root, LabelColumns()).of_kind(Modality.RADIOGRAPH)
