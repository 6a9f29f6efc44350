"""The masks of Federated GestaltMatcher (Ünal et al.), written from the paper's description.

Section 5.2, FLAKE: all parties derive one mask matrix from a shared seed, each with a left inverse of its
own. The aggregator multiplies the masked matrices of two parties and gets the inner products of their
embeddings, the Gram matrix. Section 5.1, masks that do not sum to zero: the parties add values from the
shared seed to model parameters, so that the aggregator sees neither a party's parameters nor their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The mask matrix has more rows than columns, so that it has more than one left inverse.
_FURTHER_ROWS: Final = 32
# The paper states no size of the masks; large ones hide best.
_MASK_SIZE: Final = 100.0


@dataclass(frozen=True, slots=True, repr=False)
class FlakeUpload:
    """What a party sends to the aggregator.

    Attributes
    ----------
    left
        The embeddings times the party's left inverse, shape (rows, width).
    right
        The mask matrix times the embeddings, shape (width, rows).
    """

    left: NDArray[np.float64]
    right: NDArray[np.float64]


def mask_matrix(seed: int, dimension: int) -> NDArray[np.float64]:
    """Derive the mask matrix from the seed that all parties share, shape (width, dimension)."""
    import numpy as np

    return np.random.default_rng(seed).standard_normal((dimension + _FURTHER_ROWS, dimension))


def flake_upload(embeddings: NDArray[np.float64], seed: int, party: np.random.Generator) -> FlakeUpload:
    """Mask the embeddings of a party.

    Parameters
    ----------
    embeddings : array of float64, shape (rows, dimension)
        Embeddings of the party.
    seed : int
        The seed that all parties share.
    party : Generator
        The party's own randomness, which selects its left inverse.
    """
    import numpy as np

    mask = mask_matrix(seed, embeddings.shape[1])
    inverse = np.linalg.pinv(mask)
    # Whatever is added here is orthogonal to the columns of the mask.
    free = party.standard_normal(inverse.shape)
    inverse = inverse + free - free @ mask @ np.linalg.pinv(mask)
    return FlakeUpload(embeddings @ inverse, mask @ embeddings.T)


def gram_matrix(uploads: Sequence[FlakeUpload]) -> NDArray[np.float64]:
    """Compute the inner products of all parties' embeddings, as the aggregator does."""
    import numpy as np

    left = np.concatenate([one.left for one in uploads])
    right = np.concatenate([one.right for one in uploads], axis=1)
    gram: NDArray[np.float64] = left @ right
    # Rounding: the product of two embeddings does not depend on their order.
    return (gram + gram.T) / 2


def unmask_flake(upload: FlakeUpload, seed: int) -> NDArray[np.float64]:
    """Recover a party's embeddings from its upload with the seed that every other party has."""
    import numpy as np

    mask = mask_matrix(seed, len(upload.right) - _FURTHER_ROWS)
    found = np.linalg.lstsq(mask, upload.right, rcond=None)[0]
    return np.asarray(found.T, np.float64)


def mask_parameters(parameters: Sequence[NDArray[np.float64]], seed: int) -> list[NDArray[np.float64]]:
    """Mask the parameters of all parties.

    Every party but the last adds its random values. The last one subtracts those of the others and adds its
    own, which hide the sum.

    Parameters
    ----------
    parameters : sequence of arrays of float64
        The parameters of each party, of one shape.
    seed : int
        The seed that all parties share.
    """
    masks = _masks(seed, len(parameters), parameters[0].shape)
    return [one + mask for one, mask in zip(parameters, masks, strict=True)]


def unmask_parameters(masked: Sequence[NDArray[np.float64]], seed: int) -> list[NDArray[np.float64]]:
    """Recover the parameters of all parties with the seed that every party has."""
    masks = _masks(seed, len(masked), masked[0].shape)
    return [one - mask for one, mask in zip(masked, masks, strict=True)]


def _masks(seed: int, parties: int, shape: tuple[int, ...]) -> list[NDArray[np.float64]]:
    import numpy as np

    values = np.random.default_rng(seed).standard_normal((parties, *shape)) * _MASK_SIZE
    return [*values[:-1], values[-1] - values[:-1].sum(axis=0)]
