"""The worst-case probe attack success rate Rs of Holub et al. 2023, Eq. (1).

The attacker has a background of images of known patients, obtains probes, and knows that their patients are
in the background (prosecutor model). Each probe is assigned to the patient of the most similar background
image by cosine similarity; of equal ones the smallest index wins. Rs is the share of patients to whom at
least one of their probes was assigned.
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

# Random draws of each setting, as in the paper.
REPEATS: Final = 40
_PATIENTS: Final = (2, 5, 10, 20, 40, 80, 160, 320, 640, 1280)
_MAX_PROBES: Final = 6
# A fixed seed: the same images give the same report.
_SEED: Final = 2023


@dataclass(frozen=True, slots=True)
class SampledLinkage:
    """Rs over random draws (Holub et al. 2023, Fig. 6).

    Every draw takes one background image of each of ``patients``, and up to ``probes`` probes of each.

    Attributes
    ----------
    patients
        Number of patients of a draw.
    probes
        Number of probes of each patient; None for all of them.
    median, low_quartile, high_quartile, least, most, mean
        Statistics of Rs over the draws.
    interval
        95 % interval of the mean, by drawing patients with replacement.
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
    """Success of the attack.

    Attributes
    ----------
    rs
        Rs with all background images and all probes, with exact bounds over patients.
    interval
        95 % interval of Rs, by drawing patients with replacement.
    by_patients, by_probes
        Random draws, by number of patients and by number of probes of each.
    """

    rs: Rate
    interval: Interval
    by_patients: tuple[SampledLinkage, ...]
    by_probes: tuple[SampledLinkage, ...]


@dataclass(frozen=True, slots=True)
class SimilarityPool:
    """Cosine similarities of all probes to all background images.

    Attributes
    ----------
    similarity
        Shape (probes, background). If both are the same images, the diagonal is -inf: an image is never its
        own background.
    probes, background
        Patient of each probe and of each background image, in one numbering. Patients of only one of the two
        cannot be linked, but their images attract probes.
    same
        Whether probes and background are the same images.
    """

    similarity: NDArray[np.float64]
    probes: NDArray[np.intp]
    background: NDArray[np.intp]
    same: bool = False

    @property
    def patients(self) -> NDArray[np.intp]:
        """Patients who can be linked: in both, or with two images if both are the same images."""
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
    """Compute the cosine similarity of all probes and background images.

    This is one minus the cosine distance of Federated GestaltMatcher, Eq. (1).

    Parameters
    ----------
    probes : array of float32, shape (n, dimension)
        Embeddings of the probes.
    probe_patients : array of int, shape (n,)
        Patient of each probe.
    background : array of float32, shape (m, dimension), or None
        Embeddings of the background; without one, the probes are each other's background.
    background_patients : array of int, shape (m,), or None
        Patient of each background image, numbered like ``probe_patients``.
    """
    import numpy as np

    one = _unit(probes)
    other = one if background is None else _unit(background)
    # Rounded: the last bits depend on how a BLAS library blocks its sums, and no link may.
    similarity = (one @ other.T).round(12)
    if background_patients is not None:
        return SimilarityPool(similarity, probe_patients, background_patients)
    np.fill_diagonal(similarity, -np.inf)
    return SimilarityPool(similarity, probe_patients, probe_patients, same=True)


def linkage_attack(one: SimilarityPool) -> LinkageAttack:
    """Attack with all images, then by random draws.

    Raises
    ------
    UsageError
        If no patient can be linked.
    """
    import numpy as np

    patients = one.patients
    if not len(patients) and one.same:
        raise UsageError("There is nothing to link: no patient has two images", "Attack with another dataset")
    if not len(patients):
        raise UsageError(
            "There is nothing to link: no patient is in both",
            "Use releases made with one key (keys.scope: project), or tables with the same patient IDs",
        )
    hits, took = linked_patients(one).astype(np.float64), np.ones(len(patients))
    sizes = [size for size in _PATIENTS if size < len(patients)] + [len(patients)]
    return LinkageAttack(
        rs=linkage_rate(one),
        interval=_interval(hits, took),
        # From two patients on: with one, every probe is assigned to the right patient.
        by_patients=tuple(_draws(one, patients, size, None) for size in sizes if size > 1),
        by_probes=tuple(_by_probes(one, patients)),
    )


def linkage_rate(one: SimilarityPool) -> Rate:
    """Compute Rs with all background images and probes, and its exact bounds over linkable patients."""
    linked = linked_patients(one)
    errors = int(linked.sum())
    return Rate(errors / len(linked), errors, len(linked), *clopper_pearson(errors, len(linked)))


def linked_patients(one: SimilarityPool) -> NDArray[np.bool_]:
    """Find the linkable patients with a probe that was assigned to them."""
    import numpy as np

    # argmax returns the first of equal values: the smallest index.
    found = one.background[np.argmax(one.similarity, axis=1)]
    return np.isin(one.patients, one.probes[found == one.probes])


def _by_probes(one: SimilarityPool, patients: NDArray[np.intp]) -> Iterator[SampledLinkage]:
    """Random draws by number of probes, of the same patients each time, so that the draws are comparable."""
    import numpy as np

    # Of a dataset against itself, one image of each patient is the background.
    counts = np.array([np.sum(one.probes == patient) for patient in patients]) - int(one.same)
    # At least a quarter of the patients have this many probes.
    most = min(int(np.quantile(counts, 0.75, method="lower")), _MAX_PROBES)
    with_most = patients[counts >= most]
    if len(with_most) > 1:
        yield from (_draws(one, with_most, len(with_most), probes) for probes in range(1, most + 1))


def _draws(one: SimilarityPool, patients: NDArray[np.intp], size: int, probes: int | None) -> SampledLinkage:
    import numpy as np

    # A stream of its own for each setting, so that the others do not change when one is added.
    rng = np.random.default_rng((_SEED, size, probes or 0))
    hits, took = np.zeros(len(patients)), np.zeros(len(patients))
    rates = []
    own = [
        (np.flatnonzero(one.probes == patient), np.flatnonzero(one.background == patient))
        for patient in patients
    ]
    for _ in range(REPEATS):
        chosen = np.sort(rng.choice(len(patients), size, replace=False))
        pivots = np.array([rng.choice(own[patient][1]) for patient in chosen])
        given = [
            _probes_of(own[patient][0], pivot, one.same, probes, rng)
            for patient, pivot in zip(chosen, pivots, strict=True)
        ]
        owners = np.repeat(np.arange(size), [len(some) for some in given])
        found = np.argmax(one.similarity[np.ix_(np.concatenate(given), pivots)], axis=1)
        linked = np.zeros(size, dtype=bool)
        linked[owners[found == owners]] = True
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
    """At most ``most`` probes of a patient in a draw, without the image that is in the background."""
    left = images[images != pivot] if same else images
    return left if most is None else rng.choice(left, most, replace=False)


def _interval(hits: NDArray[np.float64], took: NDArray[np.float64]) -> Interval:
    return intervals(len(hits), lambda drawn: {"rs": ratio(drawn @ hits, drawn @ took)})["rs"]


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    import numpy as np

    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    # A zero vector is similar to nothing.
    return exact / np.where(lengths > 0, lengths, 1)
