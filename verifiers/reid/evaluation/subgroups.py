"""Metrics by subgroup: time between two images, view and finding.

Queries of a subgroup search the whole gallery, and its genuine pairs are compared with all impostor pairs, so
that subgroups are comparable.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.reid.evaluation.bootstrap import Interval, intervals, ratio
from medsanitize.verifiers.reid.evaluation.retrieval_metrics import Queries, summarize

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.evaluation.pairwise_auc import AllPairs
    from medsanitize.verifiers.reid.labels import Labels
    from numpy.typing import NDArray

_MAX_ROWS: Final = 12
_YEAR: Final = 365.25
_TIMES: Final = (
    (0.0, "same day"),
    (30.0, "up to 30 days"),
    (_YEAR, "up to 1 year"),
    (2 * _YEAR, "1 to 2 years"),
    (5 * _YEAR, "2 to 5 years"),
    (10 * _YEAR, "5 to 10 years"),
    (math.inf, "over 10 years"),
)
_UNKNOWN: Final = "not stated"
_OTHERS: Final = "others"


@dataclass(frozen=True, slots=True)
class Subgroup:
    """Metrics of one subgroup; a metric that does not apply is None.

    Attributes
    ----------
    kind, name
        What it is grouped by (``time between the images``, ...), and its value.
    count
        Number of queries or of genuine pairs.
    precision_at_1, map_at_r
        Retrieval metrics of the queries of the subgroup.
    auc, recall
        AUC of the genuine pairs of the subgroup against all impostor pairs, and their recall at the
        threshold.
    intervals
        95 % intervals by name of the metric.
    """

    kind: str
    name: str
    count: int
    precision_at_1: float | None
    map_at_r: float | None
    auc: float | None
    recall: float | None
    intervals: dict[str, Interval]


def measure_subgroups(
    labels: Labels,
    patients: NDArray[np.intp],
    queries: Queries,
    pairs: AllPairs,
    matched: NDArray[np.bool_] | None,
) -> tuple[Subgroup, ...]:
    """Measure every subgroup that the labels allow.

    Parameters
    ----------
    labels : Labels
        Views, days and findings of the images.
    patients : array of int, shape (images,)
        Patients, numbered from 0.
    queries : Queries
        Metrics of each query.
    pairs : AllPairs
        Sums over all pairs.
    matched : array of bool, shape (genuine pairs,), or None
        Which genuine pairs reach the threshold.
    """
    found = list(_of_pairs("time between the images", _times(labels, pairs), pairs, matched))
    if any(labels.views):
        views = [view or _UNKNOWN for view in labels.views]
        found += _of_queries("view of the query", views, queries, patients)
        found += _of_pairs("views of the pair", _both(views, pairs, joined=True), pairs, matched)
    if any(labels.extra.get("finding", ())):
        findings = [finding or _UNKNOWN for finding in labels.extra["finding"]]
        found += _of_queries("finding of the query", findings, queries, patients)
        found += _of_pairs("finding of the pair", _both(findings, pairs, joined=False), pairs, matched)
    return tuple(found)


def _of_queries(
    kind: str, names: Sequence[str], queries: Queries, patients: NDArray[np.intp]
) -> Iterator[Subgroup]:
    import numpy as np

    every = np.array(names)
    for name, chosen in _parts(every, every[queries.images].tolist()):
        found = summarize(queries.of(chosen), patients)
        if found is not None:
            bounds = {one: found.intervals[one] for one in ("precision_at_1", "map_at_r")}
            numbers = (found.precision_at_1, found.map_at_r)
            yield Subgroup(kind, name, found.queries, *numbers, None, None, bounds)


def _of_pairs(
    kind: str, names: Sequence[str], pairs: AllPairs, matched: NDArray[np.bool_] | None
) -> Iterator[Subgroup]:
    import numpy as np

    people = len(pairs.sizes)
    for name, chosen in _parts(np.array(names), list(names)):
        patients = pairs.genuine.patients[chosen]
        values = {"auc": pairs.genuine.wins[chosen] / pairs.impostors}
        if matched is not None:
            values["recall"] = matched[chosen].astype(np.float64)
        counts = np.bincount(patients, minlength=people).astype(np.float64)
        sums = {one: np.bincount(patients, weights=each, minlength=people) for one, each in values.items()}
        bounds = intervals(people, lambda drawn, s=sums, c=counts: _means(drawn, s, c))  # type: ignore[misc]
        recall = float(values["recall"].mean()) if matched is not None else None
        auc = float(values["auc"].mean())
        yield Subgroup(kind, name, len(patients), None, None, auc, recall, bounds)


def _means(
    drawn: NDArray[np.float64], sums: dict[str, NDArray[np.float64]], counts: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    return {name: ratio(drawn @ one, drawn @ counts) for name, one in sums.items()}


def _parts(names: NDArray[np.str_], counted: list[str]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """The most frequent values, and all others as one subgroup; times in their order."""
    import numpy as np

    order = {name: place for place, (_, name) in enumerate(_TIMES)}
    ranked = sorted(Counter(counted).items(), key=lambda one: (-one[1], one[0]))
    kept = [name for name, _ in ranked[: _MAX_ROWS if len(ranked) <= _MAX_ROWS else _MAX_ROWS - 1]]
    for name in sorted(kept, key=lambda one: (order.get(one, len(order)), kept.index(one))):
        yield name, names == name
    rest = {name for name, _ in ranked} - set(kept)
    if rest:
        yield _OTHERS, np.isin(names, sorted(rest))


def _times(labels: Labels, pairs: AllPairs) -> list[str]:
    apart = abs(labels.offset_days[pairs.genuine.first] - labels.offset_days[pairs.genuine.second])
    # An unknown time (NaN) is not below any limit.
    return [next((name for most, name in _TIMES if days <= most), _UNKNOWN) for days in apart.tolist()]


def _both(names: Sequence[str], pairs: AllPairs, *, joined: bool) -> list[str]:
    """Combined value of the two images of each genuine pair.

    Different values are joined if ``joined``, otherwise they become ``differs``.
    """
    both = []
    for first, second in zip(pairs.genuine.first.tolist(), pairs.genuine.second.tolist(), strict=True):
        one, other = sorted((names[first], names[second]))
        both.append(f"{one} and {other}" if joined else (one if one == other else "differs"))
    return both
