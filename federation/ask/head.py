"""The learned part of a classifier as matrices that the two-party computation takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.models.packaged_head import PackagedHead

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_CLASSES: Final = 64
MOST_WIDTH: Final = 4096
# Mapped features are no longer than this: only their direction counts.
_LONGEST: Final = 8.0
# Logits beyond this do not fit into the numbers of the computation.
_MOST_LOGIT: Final = 500.0


@dataclass(frozen=True, slots=True, repr=False)
class SecretHead:
    """A classifier as its party gives it to the computation; it never leaves that party.

    Attributes
    ----------
    digest, features, classes
        Of the model, see `PackagedHead`.
    map, shift
        Map of the features, shapes (features, width) and (width,), scaled.
    scores, offset
        The class layer applied to that map, shapes (features, classes) and (classes,).
    bias
        Bias of the classes.
    """

    digest: str
    features: str
    classes: tuple[str, ...]
    map: NDArray[np.float32]
    shift: NDArray[np.float32]
    scores: NDArray[np.float32]
    offset: NDArray[np.float32]
    bias: NDArray[np.float32]

    @property
    def width(self) -> int:
        """Length of an embedding."""
        return len(self.shift)


def secret_head(head: PackagedHead) -> SecretHead:
    """Fold the class layer into the map, and scale both.

    The direction of the mapped features decides, so their scale is free: as features have unit length, the
    norm of the map bounds how long they can be.

    Raises
    ------
    UsageError
        There are too many classes or dimensions, or the weights are too large for the computation.
    """
    import numpy as np

    mapped, shift = head.map.astype(np.float64), head.shift.astype(np.float64)
    weight, bias = head.weight.astype(np.float64), head.bias.astype(np.float64)
    longest = float(np.linalg.norm(mapped, 2) + np.linalg.norm(shift))
    most = float((np.linalg.norm(weight, axis=1) + np.abs(bias)).max())
    # Negated, so that NaN is refused as well.
    fits = 0 < longest < np.inf and most <= _MOST_LOGIT
    if not fits or len(bias) > MOST_CLASSES or len(shift) > MOST_WIDTH:
        raise UsageError(
            f"The classifier has weights that are too large, more than {MOST_CLASSES} classes or more than"
            f" {MOST_WIDTH} dimensions",
            "Name another classifier of train classifier --recipe frozen",
        )
    scale = _LONGEST / longest
    mapped, shift = scale * mapped, scale * shift
    parts = (mapped.T, shift, (weight @ mapped).T, weight @ shift, bias)
    return SecretHead(
        head.digest, head.features, head.classes, *(np.ascontiguousarray(one, "<f4") for one in parts)
    )
