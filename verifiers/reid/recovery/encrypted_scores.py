"""Scores under CKKS: a hospital sends encrypted queries, and decrypts their inner products with a gallery.

The hospital that asks learns every score, which is the purpose of such schemes. CKKS adds errors of about
1e-8, which hide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from importlib.util import find_spec
from operator import add
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# 128 bits of security, one product of a plain and an encrypted vector.
_RING: Final = 8192
_MODULI: Final = (60, 40, 60)
_SCALE: Final = 2.0**40
_SLOTS: Final = _RING // 2
# Standard deviation of the errors of tenseal 0.3.18 with these parameters, for 128 numbers of unit length.
NOISE: Final = 2e-8
_SEED: Final = 2025


@dataclass(frozen=True, slots=True, repr=False)
class DecryptedScores:
    """What the hospital that asks has decrypted.

    Attributes
    ----------
    values
        Inner products, shape (gallery, queries).
    library
        The library that encrypted; empty if only its errors were simulated.
    """

    values: NDArray[np.float64]
    library: str


def decrypted_scores(gallery: NDArray[np.float64], queries: NDArray[np.float64]) -> DecryptedScores:
    """Compute the scores under encryption if tenseal is installed, otherwise with errors of that size.

    Parameters
    ----------
    gallery : array of float64, shape (n, dimension)
        Embeddings of the hospital that is asked; they need not be encrypted.
    queries : array of float64, shape (k, dimension)
        Embeddings of the hospital that asks, at most 4,096.
    """
    import numpy as np

    if find_spec("tenseal") is not None:
        return _encrypted(gallery, queries)
    errors = np.random.default_rng(_SEED).normal(0, NOISE, (len(gallery), len(queries)))
    return DecryptedScores(gallery @ queries.T + errors, "")


def _encrypted(gallery: NDArray[np.float64], queries: NDArray[np.float64]) -> DecryptedScores:
    """One ciphertext holds one number of every query, repeated for as many gallery rows as fit."""
    import numpy as np
    import tenseal

    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, _RING, coeff_mod_bit_sizes=list(_MODULI))
    context.global_scale = _SCALE
    count, at_once = len(queries), _SLOTS // len(queries)
    encrypted = [tenseal.ckks_vector(context, np.tile(numbers, at_once).tolist()) for numbers in queries.T]
    values = np.empty((len(gallery), count))
    for start in range(0, len(gallery), at_once):
        some = gallery[start : start + at_once]
        rows = np.zeros((at_once, gallery.shape[1]))
        rows[: len(some)] = some
        products = (
            vector * np.repeat(numbers, count).tolist()
            for vector, numbers in zip(encrypted, rows.T, strict=True)
        )
        total = reduce(add, products)
        decrypted = np.array(total.decrypt()).reshape(at_once, count)
        values[start : start + at_once] = decrypted[: len(some)]
    return DecryptedScores(values, f"tenseal {tenseal.__version__}")
