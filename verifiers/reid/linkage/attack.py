"""The worst-case probe attack success rate Rs (Holub et al. 2023).

The attacker holds a background of images of known patients, gets probes, and knows that their patients
are in the background. Each probe goes to the patient of the most similar background image: cosine
similarity, of equal ones the smallest index. Rs is the share of patients with at least one probe that went
to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import Rate, clopper_pearson
from medsanitize.verifiers.reid.evaluation.bootstrap import Interval, intervals, ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REPEATS: Final = 40
"""Random draws of a setting, as in the paper."""
_PATIENTS: Final = (2, 5, 10, 20, 40, 80, 160, 320, 640, 1280)
_PROBES: Final = 6
_SEED: Final = 2023


@dataclass(frozen=True, slots=True)
class SampledLinkage:
    """Rs over random draws: one background image of each of ``patients``, up to ``probes`` probes each.

    Attributes
    ----------
    patients
        Patients of a draw.
    probes
        Probes of each; None is all there are.
    median, low_quartile, high_quartile, least, most, mean
        Of the draws.
    interval
        95 % of the mean, from draws of patients with replacement.
    """

    patients: int
    probes: int | None
    median: float
    low_quartile: float
    high_quartile: float
    least: float
    most: float
    mean: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class LinkageAttack:
    """What the attack reaches.

    Attributes
    ----------
    rs
        With everything the attacker has: all background images, all probes. Exact bounds over patients.
    interval
        95 % of it, from draws of patients with replacement.
    by_patients, by_probes
        Random draws, by number of patients and by number of probes of each.
    """

    rs: Rate
    interval: Interval
    by_patients: tuple[SampledLinkage, ...]
    by_probes: tuple[SampledLinkage, ...]


@dataclass(frozen=True, slots=True)
class SimilarityPool:
    """Similarities of all probes to all background images, and who they show.

    Attributes
    ----------
    similarity
        ``(probes, background)``. Where both are the same images, an image is never its own background.
    probes, background
        Patients, numbered alike; those in only one of the two do harm as bystanders.
    same
        Whether probes and background are the same images.
    """

    similarity: NDArray[np.float64]
    probes: NDArray[np.intp]
    background: NDArray[np.intp]
    same: bool = False

    @property
    def patients(self) -> NDArray[np.intp]:
        """Who could be linked: in both, or with two images where both are the same images."""
        import numpy as np

        if not self.same:
            return np.intersect1d(self.probes, self.background)
        found, counts = np.unique(self.probes, return_counts=True)
        return found[counts > 1]


def pool_similarities(
    probes: NDArray[np.float32],
    probe_patients: NDArray[np.intp],
    background: NDArray[np.float32] | None,
    background_patients: NDArray[np.intp] | None,
) -> SimilarityPool:
    """Compare all vectors; without a background the probes are each other's."""
    import numpy as np

    one = _unit(probes)
    other = one if background is None else _unit(background)
    # The last bits depend on how a library blocks its sums; nobody may be linked by them.
    similarity = (one @ other.T).round(12)
    if background_patients is not None:
        return SimilarityPool(similarity, probe_patients, background_patients)
    np.fill_diagonal(similarity, -np.inf)
    return SimilarityPool(similarity, probe_patients, probe_patients, same=True)


def linkage_attack(one: SimilarityPool) -> LinkageAttack:
    """Attack with everything, then by random draws.

    Raises
    ------
    UsageError
        When no patient could be linked.
    """
    import numpy as np

    patients = one.patients
    if not len(patients) and one.same:
        raise UsageError("There is nothing to link: no patient has two images", "Attack with another dataset")
    if not len(patients):
        raise UsageError(
            "There is nothing to link: no patient is in both",
            "Give releases under one key (keys.scope: project), or tables that call patients the same",
        )
    hits, took = linked_patients(one).astype(np.float64), np.ones(len(patients))
    sizes = [size for size in _PATIENTS if size < len(patients)] + [len(patients)]
    return LinkageAttack(
        rs=linkage_rate(one),
        interval=_interval(hits, took),
        by_patients=tuple(_draws(one, patients, size, None) for size in sizes if size > 1),
        by_probes=tuple(_by_probes(one, patients)),
    )


def linkage_rate(one: SimilarityPool) -> Rate:
    """Rs with everything the attacker has, and its exact bounds; of somebody who could be linked."""
    linked = linked_patients(one)
    errors = int(linked.sum())
    return Rate(errors / len(linked), errors, len(linked), *clopper_pearson(errors, len(linked)))


def linked_patients(one: SimilarityPool) -> NDArray[np.bool_]:
    """Which of the patients who could be linked have a probe that went to them."""
    import numpy as np

    found = one.background[np.argmax(one.similarity, axis=1)]
    return np.isin(one.patients, one.probes[found == one.probes])


def _by_probes(one: SimilarityPool, patients: NDArray[np.intp]) -> Iterator[SampledLinkage]:
    """By number of probes, always of the same patients: the quarter or more that has as many."""
    import numpy as np

    counts = np.array([np.sum(one.probes == patient) for patient in patients]) - int(one.same)
    most = min(int(np.quantile(counts, 0.75, method="lower")), _PROBES)
    with_most = patients[counts >= most]
    if len(with_most) > 1:
        yield from (_draws(one, with_most, len(with_most), probes) for probes in range(1, most + 1))


def _draws(one: SimilarityPool, patients: NDArray[np.intp], size: int, probes: int | None) -> SampledLinkage:
    import numpy as np

    rng = np.random.default_rng((_SEED, size, probes or 0))
    hits, took = np.zeros(len(patients)), np.zeros(len(patients))
    rates = []
    own = [(np.flatnonzero(one.probes == who), np.flatnonzero(one.background == who)) for who in patients]
    for _ in range(REPEATS):
        chosen = np.sort(rng.choice(len(patients), size, replace=False))
        pivots = np.array([rng.choice(own[who][1]) for who in chosen])
        given = [
            _probes_of(own[who][0], pivot, one.same, probes, rng)
            for who, pivot in zip(chosen, pivots, strict=True)
        ]
        whose = np.repeat(np.arange(size), [len(some) for some in given])
        found = np.argmax(one.similarity[np.ix_(np.concatenate(given), pivots)], axis=1)
        linked = np.zeros(size, dtype=bool)
        linked[whose[found == whose]] = True
        hits[chosen] += linked
        took[chosen] += 1
        rates.append(float(linked.mean()))
    quartiles = [float(value) for value in np.quantile(rates, [0, 0.25, 0.5, 0.75, 1])]
    return SampledLinkage(
        patients=size,
        probes=probes,
        median=quartiles[2],
        low_quartile=quartiles[1],
        high_quartile=quartiles[3],
        least=quartiles[0],
        most=quartiles[4],
        mean=float(np.mean(rates)),
        interval=_interval(hits, took),
    )


def _probes_of(
    images: NDArray[np.intp], pivot: int, same: bool, most: int | None, rng: np.random.Generator
) -> NDArray[np.intp]:
    """A patient's probes of one draw: not the image that went into the background, and so many at most."""
    left = images[images != pivot] if same else images
    return left if most is None else rng.choice(left, most, replace=False)


def _interval(hits: NDArray[np.float64], took: NDArray[np.float64]) -> Interval:
    return intervals(len(hits), lambda drawn: {"rs": ratio(drawn @ hits, drawn @ took)})["rs"]


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    import numpy as np

    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return exact / np.where(lengths > 0, lengths, 1)
