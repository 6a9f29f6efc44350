"""The interface of generators to other packages, and how to open one."""

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
    """A model that samples synthetic grayscale images; dense tissue is bright."""

    @property
    def digest(self) -> str:
        """SHA-256 over the content of the model folder."""
        ...

    @property
    def modality(self) -> Modality:
        """Modality of the images."""
        ...

    @property
    def size(self) -> int:
        """Width and height of an image in pixels."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in order of their numbers; empty for a generator without classes."""
        ...

    @property
    def privacy(self) -> Mapping[str, Any] | None:
        """Statement of differential privacy, from ``PrivacyPlan.facts``; None for a model without."""
        ...

    def sample(self, classes: Sequence[int], seeds: Sequence[int]) -> NDArray[np.uint8]:
        """Sample images, ``(n, size, size)``; each depends on its own class and seed only.

        Parameters
        ----------
        classes
            Class number of each image; zeros for a generator without classes.
        seeds
            From 0 to 2 ** 63 - 1, one per image.

        Raises
        ------
        UsageError
            If the lengths differ, or a class or seed is out of range.
        """
        ...

    def reconstruct(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Encode and decode images with the autoencoder, ``(n, size, size)``.

        Raises
        ------
        UsageError
            If the images have another size.
        """
        ...

    def vary(
        self, images: NDArray[np.uint8], classes: Sequence[int], strength: float, seeds: Sequence[int]
    ) -> NDArray[np.uint8]:
        """Image-to-image: add noise for a share of the schedule and remove it, ``(n, size, size)``.

        Parameters
        ----------
        images
            ``(n, size, size)``.
        classes, seeds
            As in ``sample``.
        strength
            In (0, 1]: 1 ignores the image, 0.1 changes fine detail only.

        Raises
        ------
        UsageError
            As ``sample`` and ``reconstruct``, or if the strength is out of range.
        """
        ...


def open_generator(folder: Path, device: str = "cpu") -> Generator:
    """Open a model folder written by ``train generator`` or a pipeline folder written by diffusers.

    Parameters
    ----------
    folder
        A model folder, verified against its digests; or a diffusers pipeline of an AutoencoderKL, a
        UNet2DModel and a scheduler with safetensors weights.
    device
        Device for torch: ``cpu``, ``cuda``, ``cuda:1``...

    Raises
    ------
    UsageError
        If the folder contains no generator, another kind of pipeline, or pickled weights.
    IntegrityError
        If files were changed, removed or added, or the weights do not fit the configuration.
    """
    # Loaded on use: the interface is imported by packages that run without torch and diffusers.
    from medsanitize.generators.diffusion.load import open_latent_generator

    return open_latent_generator(folder, device)


def training_of(folder: Path) -> Mapping[str, Any]:
    """Return the provenance of a generator as plain data; empty for a foreign pipeline.

    The keys include ``images`` (digest of the training images, from
    ``verifiers.reid.training.training_dataset.gather_images``), ``images_before`` (such digests for the
    initial weights, or ``unknown``), ``counts`` (``images``, ``patients``, ``fit_images``, ``fit_patients``,
    ``held_images``, ``held_patients``), ``classes`` (number of images by class), ``excluded`` and ``recipe``.
    It contains no file names and no patients.

    Raises
    ------
    UsageError, IntegrityError
        As ``open_generator``.
    """
    from medsanitize.generators.diffusion.load import papers

    return papers(folder)


def trained_on_dataset(training: Mapping[str, Any]) -> frozenset[str] | None:
    """Digests of all datasets that a generator learned from, initial weights included; None if unknown.

    Parameters
    ----------
    training
        From ``training_of``.
    """
    # Folders without this field are of known origin only if they started from random weights.
    unsaid = [] if training.get("start") == "random" else UNKNOWN
    images, before = training.get("images"), training.get("images_before", unsaid)
    if not isinstance(images, str) or not isinstance(before, list):
        return None
    return frozenset((images, *map(str, before)))
