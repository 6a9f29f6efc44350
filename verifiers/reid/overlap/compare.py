"""Comparison of two datasets: every match with its evidence, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.compare_pairs import PairScores, score_pairs, score_within
from medsanitize.verifiers.reid.overlap.connected_components import connected_components
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, Embeddings
from medsanitize.verifiers.reid.overlap.exact_matches import (
    equal_digests,
    is_hash_discriminative,
    near_duplicate_pairs,
)
from medsanitize.verifiers.reid.overlap.excess import Excess
from medsanitize.verifiers.reid.overlap.models import Models
from medsanitize.verifiers.reid.overlap.permutation_test import PermutationTest, permutation_p_value
from medsanitize.verifiers.reid.overlap.raw_matches import excess_between
from medsanitize.verifiers.reid.overlap.thresholds import Thresholds
from medsanitize.verifiers.reid.overlap.verdict import Evidence, OverlapVerdict, conclude

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Verification
    from numpy.typing import NDArray

Basis = Literal["bytes", "pixels", "perceptual_hash", "id", "score"]
Decision = Literal["same_image", "same_patient", "possibly_same_patient", "different", "undecided"]
_BY_SCORE: Final = ("same_patient", "possibly_same_patient")
# Number of the most similar pairs below the threshold that are reported for manual review.
CLOSEST_NON_MATCHES: Final = 50


@dataclass(frozen=True, slots=True, repr=False)
class ImagePair:
    """A pair of images from two datasets.

    Attributes
    ----------
    datasets
        Numbers of the datasets.
    images
        Numbers of the images within their datasets.
    patients
        Numbers of the patients within their datasets.
    basis
        The kind of evidence behind the decision.
    decision
        The decision on the pair.
    modality, distance, score
        Output of the models; None where they did not score the pair.
    bits
        Hamming distance of the perceptual hashes of near-duplicates; None for other pairs.
    group
        Connected component of the match graph, from 1; 0 if the pair is not a match.
    """

    datasets: tuple[int, int]
    images: tuple[int, int]
    patients: tuple[int, int]
    basis: Basis
    decision: Decision
    modality: Modality | None = None
    distance: float | None = None
    score: float | None = None
    bits: int | None = None
    group: int = 0

    @property
    def matched(self) -> bool:
        """Whether the pair is a match, at the permissive threshold at least."""
        return self.decision == "same_image" or self.decision in _BY_SCORE

    @property
    def nodes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Both patients, each with its dataset."""
        return (self.datasets[0], self.patients[0]), (self.datasets[1], self.patients[1])


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two datasets.

    Attributes
    ----------
    titles
        Titles of the datasets.
    numbers
        Their numbers among all datasets.
    evidence, verdict
        Counts, and the verdict that follows from them.
    """

    titles: tuple[str, str]
    numbers: tuple[int, int]
    evidence: Evidence
    verdict: OverlapVerdict


def compare(
    datasets: tuple[DatasetFingerprint, DatasetFingerprint],
    numbers: tuple[int, int],
    models: Models,
    limits: Mapping[Modality, Thresholds],
    *,
    same_ids: bool,
) -> tuple[Comparison, tuple[ImagePair, ...]]:
    """Compare two datasets.

    Parameters
    ----------
    datasets : (DatasetFingerprint, DatasetFingerprint)
        Fingerprints of the datasets.
    numbers : (int, int)
        Their numbers among all datasets.
    models : Models
        The models that made the fingerprints.
    limits : mapping of Modality to Thresholds
        Pairs of a modality without thresholds stay undecided.
    same_ids : bool
        Whether equal patient IDs mean the same patient in both datasets (they come from one table).

    Returns
    -------
    Comparison
        Counts and verdict.
    tuple of ImagePair
        Matches and the most similar non-matches; no pair of images occurs twice.
    """
    # Where different patients of a dataset have nearly equal hashes, such hashes prove no copy.
    trusted = is_hash_discriminative(datasets[0]) and is_hash_discriminative(datasets[1])
    named = tuple(_ids(datasets, numbers)) if same_ids else ()
    equal_or_named: dict[tuple[int, int], ImagePair] = {}
    for pair in (*_copies(datasets, numbers, trusted=trusted), *named):
        # Stronger evidence comes first and wins: bytes, then pixels, perceptual hash, patient ID.
        equal_or_named.setdefault(pair.images, pair)
    results = {
        modality: _by_model(
            datasets, numbers, modality, models.verification.get(modality), limits.get(modality)
        )
        for modality in Modality
        if all(modality in dataset.vectors for dataset in datasets)
    }
    evidence = _evidence(datasets, equal_or_named.values(), len(named), results, limits)
    found = dict(equal_or_named)
    for one in results.values():
        for pair in one.pairs:
            found[pair.images] = _joined(found.get(pair.images), pair)
    titles = (datasets[0].title, datasets[1].title)
    ordered = tuple(found[places] for places in sorted(found))
    return Comparison(titles, numbers, evidence, conclude(*titles, evidence)), ordered


def _evidence(
    datasets: tuple[DatasetFingerprint, DatasetFingerprint],
    without_models: Iterable[ImagePair],
    named: int,
    results: Mapping[Modality, _ModelResult],
    limits: Mapping[Modality, Thresholds],
) -> Evidence:
    """Count the evidence that the verdict rests on."""
    decided = Counter((pair.decision, pair.basis) for pair in without_models)
    # Without thresholds the output of a model is no evidence.
    judged = {modality: one for modality, one in results.items() if modality in limits}
    unread = Counter(datasets[0].unread) + Counter(datasets[1].unread)
    return Evidence(
        copies={basis: decided["same_image", basis] for basis in ("bytes", "pixels", "perceptual_hash")},
        ids=named,
        matched={modality: len(one.matched) for modality, one in judged.items()},
        strict={modality: len(one.strict) for modality, one in judged.items()},
        compared={modality: one.compared for modality, one in results.items()},
        thresholds=dict(limits),
        unread=dict(sorted(unread.items())),
        not_comparable=_not_comparable(datasets, frozenset(results)),
        undecided_near_duplicates=decided["undecided", "perceptual_hash"],
        complete=all(one.complete for one in judged.values()),
        permutation={modality: one.permutation[0] for modality, one in judged.items() if one.matched},
        strict_permutation={modality: one.permutation[1] for modality, one in judged.items() if one.matched},
        excess={modality: one.excess for modality, one in judged.items()},
    )


def assign_groups(pairs: tuple[ImagePair, ...]) -> tuple[ImagePair, ...]:
    """Number the connected components of the match graph and sort the pairs, best evidence first."""
    groups = connected_components(pair.nodes for pair in pairs if pair.matched)
    known = (replace(pair, group=groups.get(pair.nodes[0], 0) if pair.matched else 0) for pair in pairs)
    return tuple(sorted(known, key=_rank))


def _rank(pair: ImagePair) -> tuple[object, ...]:
    order = ("same_image", *_BY_SCORE, "undecided", "different").index(pair.decision)
    basis = ("bytes", "pixels", "perceptual_hash", "id", "score").index(pair.basis)
    return order, basis, -(pair.score if pair.score is not None else 0.0), pair.datasets, pair.images


def _copies(
    datasets: tuple[DatasetFingerprint, DatasetFingerprint], numbers: tuple[int, int], *, trusted: bool
) -> Iterator[ImagePair]:
    one, other = datasets
    for basis, places in (
        ("bytes", equal_digests(one.digests, other.digests)),
        ("pixels", equal_digests(one.pixels, other.pixels)),
    ):
        for images in places:
            yield _pair(datasets, numbers, images, basis, "same_image")  # type: ignore[arg-type]
    for images, bits in near_duplicate_pairs(one, other).items():
        decision: Decision = "same_image" if trusted else "undecided"
        yield replace(_pair(datasets, numbers, images, "perceptual_hash", decision), bits=bits)


def _ids(
    datasets: tuple[DatasetFingerprint, DatasetFingerprint], numbers: tuple[int, int]
) -> Iterator[ImagePair]:
    """Yield one pair per patient that is in both datasets: the first image in each."""
    firsts = [_first_images(dataset) for dataset in datasets]
    for name in sorted(firsts[0].keys() & firsts[1].keys()):
        yield _pair(datasets, numbers, (firsts[0][name], firsts[1][name]), "id", "same_patient")


def _first_images(dataset: DatasetFingerprint) -> dict[str, int]:
    found: dict[str, int] = {}
    for image, patient in enumerate(dataset.patients.tolist()):
        if patient >= 0 and dataset.names[patient]:
            found.setdefault(dataset.names[patient], image)
    return found


def _pair(
    datasets: tuple[DatasetFingerprint, DatasetFingerprint],
    numbers: tuple[int, int],
    images: tuple[int, int],
    basis: Basis,
    decision: Decision,
) -> ImagePair:
    patients = (int(datasets[0].patients[images[0]]), int(datasets[1].patients[images[1]]))
    return ImagePair(numbers, images, patients, basis, decision)


@dataclass(frozen=True, slots=True, repr=False)
class _ModelResult:
    """Model results of one modality, with the counts that `Evidence` needs.

    ``matched`` and ``strict`` are pairs of patients; ``permutation`` holds the permutation test of each, and
    ``excess`` the test that needs no threshold.
    """

    pairs: tuple[ImagePair, ...]
    matched: frozenset[tuple[int, int]]
    strict: frozenset[tuple[int, int]]
    compared: int
    complete: bool
    permutation: tuple[PermutationTest, PermutationTest]
    excess: Excess


def _by_model(
    datasets: tuple[DatasetFingerprint, DatasetFingerprint],
    numbers: tuple[int, int],
    modality: Modality,
    verifier: Verification | None,
    limit: Thresholds | None,
) -> _ModelResult:
    """Compare the images of one modality by the models."""
    one, other = (dataset.vectors[modality] for dataset in datasets)
    # Without thresholds every pair stays undecided, so that no search distance has to be covered.
    scored = score_pairs(one, other, verifier, within=limit.within if limit is not None else 0.0)
    excess = excess_between(datasets, modality, verifier) if limit and limit.both_sides else Excess()
    pairs = tuple(_scored(scored, (one, other), numbers, modality, limit, _standing_out(excess)))
    matched = frozenset(pair.patients for pair in pairs if pair.decision in _BY_SCORE)
    strict = frozenset(pair.patients for pair in pairs if pair.decision == "same_patient")
    permutation = (
        _permutation_tests((matched, strict), (one, other), verifier, limit) if limit and matched else None
    )
    return _ModelResult(
        pairs,
        matched,
        strict,
        # Pairs beyond the search distance count as compared: the search decided that they do not match.
        compared=len(set(one.patients.tolist())) * len(set(other.patients.tolist())),
        complete=scored.complete,
        permutation=permutation or (PermutationTest(), PermutationTest()),
        excess=excess,
    )


def _scored(
    scored: PairScores,
    vectors: tuple[Embeddings, Embeddings],
    numbers: tuple[int, int],
    modality: Modality,
    limit: Thresholds | None,
    standing_out: frozenset[tuple[int, int]],
) -> Iterator[ImagePair]:
    """Yield matches by score, pairs that stand out, and the most similar non-matches."""
    for place in _chosen(scored, limit, standing_out).tolist():
        i, j = int(scored.first[place]), int(scored.second[place])
        score = float(scored.score[place])
        decision: Decision = "undecided"
        if limit is not None:
            decision = "possibly_same_patient" if score >= limit.permissive.threshold else "different"
            # Whom the verdict rests on is for review, whatever the threshold.
            decision = "possibly_same_patient" if (i, j) in standing_out else decision
            if limit.both_sides and limit.is_strict_match(score, float(scored.distance[place])):
                decision = "same_patient"
        yield ImagePair(
            datasets=numbers,
            images=(int(vectors[0].images[i]), int(vectors[1].images[j])),
            patients=(int(vectors[0].patients[i]), int(vectors[1].patients[j])),
            basis="score",
            decision=decision,
            modality=modality,
            distance=float(scored.distance[place]),
            score=score,
        )


def _permutation_tests(
    across: tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]],
    vectors: tuple[Embeddings, Embeddings],
    verifier: Verification | None,
    limit: Thresholds,
) -> tuple[PermutationTest, PermutationTest]:
    """Run the permutation tests of all matches and of the strict ones."""
    inside: tuple[list[set[tuple[int, int]]], ...] = ([], [])
    complete = True
    for one in vectors:
        scored = score_within(one, verifier, within=limit.within)
        complete = complete and scored.complete
        permissive = scored.score >= limit.permissive.threshold
        strict = (scored.score >= limit.strict.threshold) & (scored.distance <= limit.strict_max_distance)
        for found, matched in zip(inside, (permissive, strict), strict=True):
            places = (one.patients[rows[matched]].tolist() for rows in (scored.first, scored.second))
            found.append({(min(a, b), max(a, b)) for a, b in zip(*places, strict=True)})
    sizes = (len(set(vectors[0].patients.tolist())), len(set(vectors[1].patients.tolist())))
    results = []
    for pairs, (first, second) in zip(across, inside, strict=True):
        # Unscored pairs may hide matches within a dataset, whose absence would make the p-value too small.
        chance = permutation_p_value(pairs, (first, second), sizes) if complete else 1.0
        results.append(PermutationTest(len(first) + len(second), chance))
    return results[0], results[1]


def _standing_out(excess: Excess) -> frozenset[tuple[int, int]]:
    return frozenset(excess.pairs) if excess.significant else frozenset()


def _chosen(
    scored: PairScores, limit: Thresholds | None, standing_out: frozenset[tuple[int, int]]
) -> NDArray[np.int64]:
    import numpy as np

    # Ties are ordered by row, so that the report does not depend on the order of the search.
    order = np.lexsort((scored.second, scored.first, -scored.score))
    matches = int((scored.score >= limit.permissive.threshold).sum()) if limit is not None else 0
    chosen = order[: matches + CLOSEST_NON_MATCHES]
    if not standing_out:
        return chosen
    places = {
        pair: n for n, pair in enumerate(zip(scored.first.tolist(), scored.second.tolist(), strict=True))
    }
    more = np.array(sorted(places[pair] for pair in standing_out if pair in places), np.int64)
    return np.concatenate([chosen, more[~np.isin(more, chosen)]])


def _joined(before: ImagePair | None, pair: ImagePair) -> ImagePair:
    """Merge two results for one pair of images: keep the stronger evidence, add the output of the models."""
    if before is None:
        return pair
    # The model decides a near-duplicate that its hash could not.
    if before.decision == "undecided":
        return replace(pair, bits=before.bits)
    return replace(before, modality=pair.modality, distance=pair.distance, score=pair.score)


def _not_comparable(
    datasets: tuple[DatasetFingerprint, DatasetFingerprint], modalities: frozenset[Modality]
) -> int:
    """Count patients without an image that a model could compare with the other dataset."""
    count = 0
    for dataset in datasets:
        # -1 marks files that are no patient data.
        all_of = set(dataset.patients.tolist()) - {-1}
        for modality in modalities:
            all_of -= set(dataset.vectors[modality].patients.tolist())
        count += len(all_of)
    return count
