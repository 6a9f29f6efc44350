"""Training recipes: the hyperparameters of each, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.models.config import ModelKind
from medsanitize.verifiers.reid.training.frozen_backbone import FrozenRecipe
from medsanitize.verifiers.reid.training.second_order_pooling import MomentsRecipe
from medsanitize.verifiers.reid.training.train_copies import CopyRecipe
from medsanitize.verifiers.reid.training.train_region_matching import MatchRecipe


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Largest random changes of a training image; the defaults change nothing.

    Attributes
    ----------
    shift
        Share of the image size, in both directions.
    scale
        Relative change of size, up and down.
    degrees
        Rotation, in degrees.
    contrast, brightness
        Factor of up to ``1 +- contrast``, and offset of up to ``brightness`` of the range.
    """

    shift: float = 0.0
    scale: float = 0.0
    degrees: float = 0.0
    contrast: float = 0.0
    brightness: float = 0.0


PLAIN = Augmentation()
MILD = Augmentation(shift=0.05, scale=0.1, degrees=7.0, contrast=0.2, brightness=0.1)


@dataclass(frozen=True, slots=True)
class RetrievalRecipe:
    """Siamese retrieval (Packhäuser et al. 2022): contrastive loss with cross-batch memory.

    Attributes
    ----------
    size
        Input size, pixels.
    head_epochs, all_epochs
        Epochs with a frozen backbone, then of the whole network; one learning rate cycle each.
    rate
        Largest learning rate of a cycle, which starts at 1/25 of it: 0.0063.
    margin
        Margin of the contrastive loss for embeddings of unit length.
    memory
        Embeddings of earlier batches that take part in the loss: four batches.
    together
        Largest number of images of one patient in sequence; at least two.
    patience
        Epochs of the second cycle without a better validation mAP@R after which it ends; 0 for no limit.
    """

    name: str
    size: int
    dimension: int = 128
    grid: int = 5
    hidden: int = 2048
    depths: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    # From here to ``memory``: the values of the paper.
    batch: int = 32
    head_epochs: int = 30
    all_epochs: int = 50
    rate: float = 0.1584
    decay: float = 1e-5
    margin: float = 1.0
    memory: int = 128
    # The paper does not say how it samples; a batch without mates has no genuine pair.
    together: int = 8
    patience: int = 0
    augmentation: Augmentation = Augmentation()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class VerificationRecipe:
    """Siamese verification (Packhäuser et al. 2022): cross entropy of the score of pairs.

    Attributes
    ----------
    epochs
        Largest number of epochs; the paper names none and stops by its patience.
    patience
        Epochs without a lower validation loss after which the training ends.
    """

    name: str
    size: int = 256
    dimension: int = 128
    depths: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    batch: int = 32
    epochs: int = 100
    # Learning rate of the best model in Table 1 of the paper.
    rate: float = 1e-4
    patience: int = 5
    augmentation: Augmentation = Augmentation()
    seed: int = 0


Recipe = MomentsRecipe | MatchRecipe | CopyRecipe | FrozenRecipe | RetrievalRecipe | VerificationRecipe

_ONE_EACH = (1, 1, 1, 1)
RETRIEVAL: dict[str, Recipe] = {
    "moments": MomentsRecipe(),
    # For small images and little time: a few seconds of statistics instead of minutes.
    "moments-256": MomentsRecipe(
        "moments-256",
        (256,),
        groups=(2, 4),
        kept=(24, 32),
        regions=4,
        products=256,
        scrambled=1024,
        coarse=64,
    ),
    "frozen": FrozenRecipe(),
    "paper": RetrievalRecipe("paper", 1024),
    "paper-224": RetrievalRecipe("paper-224", 224),
    "augmented-512": RetrievalRecipe("augmented-512", 512, augmentation=MILD),
    "tiny": RetrievalRecipe(
        "tiny",
        size=64,
        dimension=16,
        grid=2,
        hidden=32,
        depths=_ONE_EACH,
        width=8,
        batch=8,
        head_epochs=1,
        all_epochs=2,
        rate=0.02,
        memory=16,
        augmentation=MILD,
    ),
}
VERIFICATION: dict[str, Recipe] = {
    "match": MatchRecipe(),
    "copies": CopyRecipe(),
    "frozen": FrozenRecipe(),
    "paper": VerificationRecipe("paper"),
    "augmented-512": VerificationRecipe("augmented-512", 512, augmentation=MILD),
    "tiny": VerificationRecipe(
        "tiny",
        size=64,
        dimension=16,
        depths=_ONE_EACH,
        width=8,
        batch=8,
        epochs=2,
        rate=1e-3,
        augmentation=MILD,
    ),
}


def recipe_for(kind: ModelKind, name: str | None, weights: str | None = None) -> Recipe:
    """Find a recipe by name.

    Parameters
    ----------
    kind : ModelKind
        Retrieval or verification.
    name : str or None
        Without a name: ``paper`` if there are a GPU and initial weights, else ``moments`` or ``match``.
    weights : str, optional
        Initial weights.

    Raises
    ------
    UsageError
        If there is no recipe of that name.
    """
    import torch

    known = RETRIEVAL if kind is ModelKind.RETRIEVAL else VERIFICATION
    name = name or ("paper" if weights and torch.cuda.is_available() else next(iter(known)))
    if name not in known:
        raise UsageError("The recipe is unknown", f"Use one of {', '.join(known)}")
    return known[name]
