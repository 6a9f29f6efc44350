"""Evaluate the rankings against a table of relevance judgments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.generators.explain.explain import distances, ranks_of
from medsanitize.generators.explain.explain_embeddings import EmbeddedCatalog
from medsanitize.generators.explain.ndcg import ndcg, ndcg_by_chance
from medsanitize.generators.quality.interval import Estimate, mean_of
from medsanitize.verifiers.reid.labels import read_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# p of nDCG@p as in Campos et al. 2024; a p is omitted if an image has fewer judgments.
CUTOFFS: Final = (4, 7, 10)
_COLUMNS: Final = ("file", "object_id", "relevance")
# A gain of 2^64 would outweigh all other judgments; no person means that.
_MAX_RELEVANCE: Final = 64.0


@dataclass(frozen=True, slots=True)
class RelevanceJudgments:
    """Relevance of objects by object id, for each image by file name, in the order of the table."""

    of: Mapping[str, Mapping[str, float]]

    def objects(self) -> frozenset[str]:
        """Return the ids of all judged objects."""
        return frozenset(name for judged in self.of.values() for name in judged)


@dataclass(frozen=True, slots=True)
class RankingQuality:
    """Mean nDCG@p over the images, with 95 % intervals.

    Attributes
    ----------
    p
        Number of ranks that count.
    features, structure
        Of the rankings by features and by SSIM.
    chance
        Of a random ranking.
    """

    p: int
    features: Estimate
    structure: Estimate
    chance: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Agreement of the rankings with the judgments.

    Attributes
    ----------
    model, model_digest
        The compared features.
    images, judgments
        Number of judged images and of judgments.
    at
        One entry per p.
    """

    model: str
    model_digest: str
    images: int
    judgments: int
    at: tuple[RankingQuality, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def read_judgments(table: Path) -> RelevanceJudgments:
    """Read a table with the columns ``file``, ``object_id`` and ``relevance``.

    Raises
    ------
    UsageError
        If the table cannot be read or lacks a column, a pair occurs twice, a relevance is not a number from 0
        to 64, or an image has fewer than four judgments or only judgments of 0.
    """
    texts = read_table(table)
    for name in _COLUMNS:
        if name not in texts:
            raise UsageError(
                f"The table of judgments has no column {name!r}",
                f"It needs the columns {', '.join(_COLUMNS)}",
            )
    found: dict[str, dict[str, float]] = {}
    for row, (file, object_id, said) in enumerate(zip(*(texts[name] for name in _COLUMNS), strict=True), 1):
        judged = found.setdefault(file, {})
        if not file or not object_id or object_id in judged:
            raise UsageError(
                f"Row {row} of the judgments has no image or object, or repeats a pair",
                "List each pair of image and object once",
            )
        judged[object_id] = _relevance(said, row)
    fewest = min((len(judged) for judged in found.values()), default=0)
    if fewest < CUTOFFS[0]:
        raise UsageError(
            f"An image has {fewest} judgments; at least {CUTOFFS[0]} are required",
            "Judge more objects of the catalog",
        )
    if any(not any(judged.values()) for judged in found.values()):
        raise UsageError(
            "No object was judged relevant to an image", "Remove its rows: its rankings cannot be compared"
        )
    return RelevanceJudgments(found)


def rank(judgments: RelevanceJudgments, embedded: EmbeddedCatalog, model: str, digest: str) -> Ranking:
    """Compare both rankings with the judgments.

    Parameters
    ----------
    judgments
        The judgments.
    embedded
        The embedded catalog, with the images in the order of the judgments.
    model, digest
        Copied to the result.

    Raises
    ------
    UsageError
        If a judged object is not in the embedded catalog.
    """
    place = {entry.object_id: number for number, entry in enumerate(embedded.entries)}
    if missing := judgments.objects() - set(place):
        raise UsageError(
            f"{len(missing)} judged objects are not among the catalog's images that can be compared",
            "Pass the catalog that was judged; --all includes real images",
        )
    apart = distances(embedded)
    judged = [{place[name]: value for name, value in of.items()} for of in judgments.of.values()]
    fewest = min(len(of) for of in judged)
    return Ranking(
        model=model,
        model_digest=digest,
        images=len(judged),
        judgments=sum(len(of) for of in judged),
        at=tuple(_at(p, judged, apart, embedded.alike) for p in CUTOFFS if p <= fewest),
    )


def _at(
    p: int,
    judged: Sequence[Mapping[int, float]],
    apart: NDArray[np.float64],
    alike: NDArray[np.float64],
) -> RankingQuality:
    import numpy as np

    def mean(values: NDArray[np.float64]) -> Estimate:
        found = [ndcg(_in_order(of, row), p) for of, row in zip(judged, values, strict=True)]
        return mean_of(np.array(found), np.arange(len(found)))

    chance = [ndcg_by_chance(list(of.values()), p) for of in judged]
    # Negated: similarity is ranked from the highest, distance from the lowest.
    return RankingQuality(p, mean(apart), mean(-alike), float(np.mean(chance)))


def _in_order(judged: Mapping[int, float], values: NDArray[np.float64]) -> list[float]:
    """Relevance of the judged objects, lowest value first."""
    import numpy as np

    places = sorted(judged)
    # Ranked among the judged objects only: an unjudged one has no relevance.
    ranks = ranks_of(values[places])
    return [judged[places[one]] for one in np.argsort(ranks)]


def _relevance(said: str, row: int) -> float:
    try:
        value = float(said)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _MAX_RELEVANCE:
        raise UsageError(
            f"The relevance in row {row} of the judgments is not a number from 0 to {_MAX_RELEVANCE:g}",
            "Use higher numbers for more similar objects, such as 1 to 5.5",
        )
    return value
