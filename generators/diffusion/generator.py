"""What the rest of the product asks of a generator, and how one is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import Modality
    from numpy.typing import NDArray

UNKNOWN = "unknown"


class Generator(Protocol):
    """Makes images of people who do not exist, as squares of grey; dense is bright."""

    @property
    def digest(self) -> str:
        """SHA-256 of the model folder's content: which model it was."""
        ...

    @property
    def modality(self) -> Modality:
        """What kind of images it makes."""
        ...

    @property
    def size(self) -> int:
        """Side of an image, pixels."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the labels it can be asked for, by number; empty where it takes none."""
        ...

    def sample(self, classes: Sequence[int], seeds: Sequence[int]) -> NDArray[np.uint8]:
        """New images, ``(n, size, size)``; each depends on its own class and seed alone.

        Parameters
        ----------
        classes
            Number of each image's class, ``n`` of them; zeros where the generator takes none.
        seeds
            From 0 to 2 ** 63 - 1, ``n`` of them.

        Raises
        ------
        UsageError
            If the lengths differ, or a class or a seed is none.
        """
        ...

    def reconstruct(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Images through the autoencoder and back, ``(n, size, size)``.

        Raises
        ------
        UsageError
            If they are of another size.
        """
        ...

    def vary(
        self, images: NDArray[np.uint8], classes: Sequence[int], strength: float, seeds: Sequence[int]
    ) -> NDArray[np.uint8]:
        """Image to image: noise added up to a share of the way and taken away again, ``(n, size, size)``.

        Parameters
        ----------
        strength
            In (0, 1]: 1 leaves nothing of the image, 0.1 little but its detail is new.

        Raises
        ------
        UsageError
            As ``sample`` and ``reconstruct``, or if the strength is outside its range.
        """
        ...


def open_generator(folder: Path, device: str = "cpu") -> Generator:
    """Open a generator: what ``train generator`` wrote, or a folder that diffusers wrote.

    Parameters
    ----------
    folder
        A model folder, every byte compared with its digest; or the folder of a diffusers pipeline of an
        AutoencoderKL, a UNet2DModel and a scheduler, weights in safetensors.
    device
        Where torch computes: ``cpu``, ``cuda``, ``cuda:1``...

    Raises
    ------
    UsageError
        If the folder holds no generator, a pipeline of another kind, or pickled weights.
    IntegrityError
        If anything in it was changed, is missing or was added, or the weights are of another architecture.
    """
    from medsanitize.generators.diffusion.load import open_latent_generator

    return open_latent_generator(folder, device)


def training_of(folder: Path) -> Mapping[str, Any]:
    """Where a generator comes from, as plain data; empty where nothing says it (a foreign pipeline).

    Among it ``images`` (the digest that ``verifiers.training.examples.gather`` gives the training images),
    ``images_before`` (such digests of what the networks it went on from had learned from, or ``unknown``),
    ``counts`` (``images``, ``patients``, ``fit_images``, ``fit_patients``, ``held_images``,
    ``held_patients``), ``classes`` (images by class), ``excluded`` and ``recipe``. No file and no patient is
    named.

    Raises
    ------
    UsageError, IntegrityError
        As ``open_generator``.
    """
    from medsanitize.generators.diffusion.load import papers

    return papers(folder)


def trained_on_dataset(training: Mapping[str, Any]) -> frozenset[str] | None:
    """Digests of all sets of images that a generator learned from, its start's too; None where unknown.

    Parameters
    ----------
    training
        What ``training_of`` says.
    """
    # A folder from before there was the field says it only where its weights were random at the start.
    unsaid = [] if training.get("start") == "random" else UNKNOWN
    images, before = training.get("images"), training.get("images_before", unsaid)
    if not isinstance(images, str) or not isinstance(before, list):
        return None
    return frozenset((images, *map(str, before)))
