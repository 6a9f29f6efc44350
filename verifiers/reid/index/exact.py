"""Exact nearest-neighbor search in chunks, so that the vectors need not fit in memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A product of 4,096 vectors and 1,024 queries takes 16 MiB, which hardly leaves the cache.
_VECTORS: Final = 4_096
_QUERIES: Final = 1_024
_ROWS: Final = 1_024
# With more candidates than this for one query, only the nearest so far are kept.
_MAX_CANDIDATES: Final = 4_096
# Unit roundoff of float32; the error bound holds between its smallest normal number and 1e37.
_ROUNDING: Final = 2.0**-24
_SMALLEST_NORMAL: Final = 2.0**-126
_MAX_PRODUCT: Final = 1e37


def distances(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute Euclidean distances of one query in float64, independent of the blocking of a BLAS library."""
    import numpy as np

    near = np.empty(len(vectors))
    for start in range(0, len(vectors), _ROWS):
        apart = vectors[start : start + _ROWS].astype(np.float64) - query.astype(np.float64)
        near[start : start + _ROWS] = np.sqrt((apart * apart).sum(axis=1))
    return near


def nearest(
    vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Find the ``k`` nearest vectors of every query.

    Float32 matrix products select every vector that rounding could place among the nearest; these are ranked
    by their float64 distance.

    Parameters
    ----------
    vectors : array of float32, shape (n, dimension)
        The vectors.
    queries : array of float32, shape (m, dimension)
        The queries.
    k : int
        Number of neighbors.

    Returns
    -------
    tuple of arrays, shape (m, min(k, n)) each
        Euclidean distances, ascending, and rows; equal distances are ordered by row.
    """
    import numpy as np

    k = min(k, len(vectors))
    near, found = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries) if k else 0, _QUERIES):
        some = np.asarray(queries[start : start + _QUERIES])
        candidates = _candidates(vectors, some, k)
        ends = np.searchsorted(candidates.of, np.arange(len(some) + 1))
        for number, (begin, end) in enumerate(pairwise(ends)):
            rows, exact = _ranked(vectors, some[number], candidates.rows[begin:end], k)
            near[start + number], found[start + number] = exact, rows
    return near, found


@dataclass(frozen=True, slots=True, repr=False)
class _Candidates:
    """Candidate pairs: query numbers, ascending, candidate rows and their products."""

    of: NDArray[np.int64]
    rows: NDArray[np.int64]
    values: NDArray[np.float32]

    def at(self, places: NDArray[np.int64]) -> _Candidates:
        """Select candidates."""
        return _Candidates(self.of[places], self.rows[places], self.values[places])

    def and_also(
        self, of: NDArray[np.int64], rows: NDArray[np.int64], values: NDArray[np.float32]
    ) -> _Candidates:
        """Append candidates."""
        import numpy as np

        return _Candidates(
            np.hstack([self.of, of]), np.hstack([self.rows, rows]), np.hstack([self.values, values])
        )


def _candidates(vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> _Candidates:
    """Every vector that may be among the ``k`` nearest of a query.

    The nearest vector v of a query q has the largest q.v - |v|^2 / 2, which is one product of (q, 1) and
    (v, -|v|^2 / 2). Both are centered first, which changes no distance: far from the origin the products
    would lose all precision.
    """
    import numpy as np

    center = vectors[:_VECTORS].mean(axis=0, dtype=np.float64).astype(np.float32)
    padded = np.hstack([queries - center, np.ones((len(queries), 1), np.float32)])
    lengths = np.linalg.norm(padded[:, :-1].astype(np.float64), axis=1)
    found = _Candidates(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    least, longest, kept = np.full(len(queries), -np.inf), 0.0, 0
    for start in range(0, len(vectors), _VECTORS):
        chunk = np.asarray(vectors[start : start + _VECTORS]) - center
        squares = np.einsum("nd,nd->n", chunk, chunk, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            products = padded @ np.hstack([chunk, (-squares / 2).astype(np.float32)[:, None]]).T
        longest = max(longest, float(squares.max()) ** 0.5)
        slack = _slack(padded.shape[1], lengths, longest)
        if start == 0 and len(chunk) >= k:
            least = np.partition(products, -k, axis=1)[:, -k].astype(np.float64)
        # Negated, so that NaN from an overflow keeps a vector among the candidates.
        places = np.flatnonzero(~(products < _floor(least, slack).astype(np.float32)[:, None]))
        of, rows = places // len(chunk), places % len(chunk) + start
        found = found.and_also(of, rows, products.reshape(-1)[places])
        crowded = np.bincount(found.of, minlength=1).max() > 2 * max(_MAX_CANDIDATES, 4 * k)
        if crowded or len(found.of) > 2 * kept or start + _VECTORS >= len(vectors):
            best, least = _best(found, k, slack)
            found = _thinned(vectors, queries, found.at(best), k)
            kept = len(found.of)
    return found


def _slack(terms: int, lengths: NDArray[np.float64], longest: float) -> NDArray[np.float64]:
    """Twice the largest rounding error of a product of ``terms`` terms, whose factors were rounded once."""
    import numpy as np

    found = 2 * (terms + 8) * (_ROUNDING * longest * (lengths + longest / 2) + _SMALLEST_NORMAL)
    return np.where(longest * (lengths + longest) < _MAX_PRODUCT, found, np.inf)


def _floor(least: NDArray[np.float64], slack: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lowest product that may be among the largest; NaN where an overflow leaves that unknown."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        return least - slack


def _best(
    found: _Candidates, k: int, slack: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Indices of the ``k`` largest products per query and those within rounding; the k-th largest."""
    import numpy as np

    order = np.lexsort((found.rows, -found.values, found.of))
    of, values = found.of[order], found.values[order].astype(np.float64)
    starts = np.searchsorted(of, np.arange(len(slack)))
    full = np.bincount(of, minlength=len(slack)) >= k
    least = np.full(len(slack), -np.inf)
    least[full] = values[starts[full] + k - 1]
    near = (np.arange(len(of)) - starts[of] < k) | ~(values < _floor(least, slack)[of])
    return order[near], least


def _thinned(
    vectors: NDArray[np.float32], queries: NDArray[np.float32], found: _Candidates, k: int
) -> _Candidates:
    """If rounding leaves too many candidates of a query, keep the nearest so far by exact distance."""
    import numpy as np

    ends = np.searchsorted(found.of, np.arange(len(queries) + 1))
    crowded = np.flatnonzero(np.diff(ends) > max(_MAX_CANDIDATES, 4 * k))
    kept = np.ones(len(found.of), bool)
    for number in crowded.tolist():
        part = slice(ends[number], ends[number + 1])
        rows, _ = _ranked(vectors, queries[number], found.rows[part], k)
        kept[part] = np.isin(found.rows[part], rows)
    return found.at(np.flatnonzero(kept))


def _ranked(
    vectors: NDArray[np.float32], query: NDArray[np.float32], rows: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The ``k`` nearest of these rows with their distances."""
    import numpy as np

    rows = np.sort(rows)
    exact = distances(vectors[rows], query)
    first = np.argsort(exact, kind="stable")[:k]
    return rows[first], exact[first]
