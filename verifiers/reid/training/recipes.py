"""The recipes of the papers: every hyper-parameter in one place."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.models.config import ModelKind
from medsanitize.verifiers.reid.training.frozen_backbone import FrozenRecipe
from medsanitize.verifiers.reid.training.region_matching import MatchRecipe
from medsanitize.verifiers.reid.training.second_order_pooling import MomentsRecipe


@dataclass(frozen=True, slots=True)
class Augmentation:
    """How much an image may be changed at random while training; the defaults change nothing.

    Attributes
    ----------
    shift
        Up to this share of the side, in either direction.
    scale
        Larger or smaller by up to this share.
    degrees
        Turned by up to so many.
    contrast, brightness
        Values times up to ``1 +- contrast``, plus up to ``brightness`` of the range.
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
    """Siamese retrieval (Packhäuser et al. 2022): contrastive loss with a memory of earlier batches.

    Attributes
    ----------
    size
        Side of the square, pixels.
    head_epochs, all_epochs
        With the backbone frozen, then with everything; one cycle of the learning rate each.
    rate
        Largest of the cycle; it begins at a 25th of that: 0.0063.
    margin
        Of the contrastive loss, on vectors of unit length.
    memory
        Vectors of earlier images that a batch is compared with as well: four batches.
    together
        Up to so many images of one patient are kept in one batch, and never one alone.
    patience
        Epochs of the second cycle without a better validation mAP@R after which it ends; 0: never.
    """

    name: str
    size: int
    dimension: int = 128
    grid: int = 5
    hidden: int = 2048
    depths: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    batch: int = 32
    head_epochs: int = 30
    all_epochs: int = 50
    rate: float = 0.1584
    decay: float = 1e-5
    margin: float = 1.0
    memory: int = 128
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
        At most; the paper names no number, its patience ends the training.
    patience
        Epochs without a lower validation loss.
    """

    name: str
    size: int = 256
    dimension: int = 128
    depths: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    batch: int = 32
    epochs: int = 100
    rate: float = 1e-4
    patience: int = 5
    augmentation: Augmentation = Augmentation()
    seed: int = 0


Recipe = MomentsRecipe | MatchRecipe | FrozenRecipe | RetrievalRecipe | VerificationRecipe

_ONE_EACH = (1, 1, 1, 1)
RETRIEVAL: dict[str, Recipe] = {
    "moments": MomentsRecipe(),
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
    """The recipe of a name; without one the paper's where a GPU and weights to start from are there.

    Without either it is the first: moments, match.

    Raises
    ------
    UsageError
        If there is no recipe of that name.
    """
    import torch

    known = RETRIEVAL if kind is ModelKind.RETRIEVAL else VERIFICATION
    name = name or ("paper" if weights and torch.cuda.is_available() else next(iter(known)))
    if name not in known:
        raise UsageError("There is no recipe of that name", f"Use one of {', '.join(known)}")
    return known[name]
