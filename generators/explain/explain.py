"""Rank a catalog by similarity to an image, in the features of a classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.generators.explain.catalog import CatalogEntry
from medsanitize.generators.explain.explain_embeddings import EmbeddedCatalog

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Classification
    from numpy.typing import NDArray


# Correlation of small pictures from which two images count as one picture: above all 192,028 pairs of
# radiographs of different patients (at most 0.945), below JPEG, noise and other contrast.
ONE_PICTURE: Final = 0.98


@dataclass(frozen=True, slots=True)
class Prediction:
    """A class with its predicted probability."""

    name: str
    probability: float


@dataclass(frozen=True, slots=True)
class SimilarCase:
    """One image of the catalog, compared with the explained image.

    Attributes
    ----------
    rank, structure_rank
        Rank by feature distance and by SSIM; 1 is the most similar.
    object_id, path, synthetic, label, match_bound
        From the manifest of the catalog.
    distance
        Euclidean distance of the features.
    ssim
        Structural similarity.
    answer
        Prediction of the classifier; None without a classifier.
    repeats
        Number of less similar catalog images that show nearly the same picture and are not listed.
    """

    rank: int
    structure_rank: int
    object_id: str
    path: str
    synthetic: bool
    label: str
    match_bound: float | None
    distance: float
    ssim: float
    answer: Prediction | None
    repeats: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of an image by similar cases.

    Attributes
    ----------
    model, model_digest
        The compared features: ``a trained classifier`` or ``packaged ImageNet features``.
    answers
        Predictions for the image, most probable first; empty without a classifier.
    images, synthetic
        Number of compared catalog images, and of the synthetic ones among them.
    excluded
        Number of excluded catalog entries by reason.
    by_features
        Most similar cases by features, nearest first: the explanation. Each picture is listed once.
    by_structure
        Most similar cases by SSIM, for comparison.
    """

    model: str
    model_digest: str
    answers: tuple[Prediction, ...]
    images: int
    synthetic: int
    excluded: Mapping[str, int]
    by_features: tuple[SimilarCase, ...]
    by_structure: tuple[SimilarCase, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data; of the explained image only the predictions."""
        return asdict(self)


def explain(
    embedded: EmbeddedCatalog, count: int, model: str, digest: str, classifier: Classification | None
) -> Explanation:
    """Rank a catalog for the first of the embedded images.

    Equal distances keep the order of the catalog. Of nearly identical pictures the first is listed and the
    others are counted; ranks count all.

    Parameters
    ----------
    embedded
        From `embed_catalog`.
    count
        Maximum number of cases.
    model, digest
        Copied to the explanation.
    classifier
        The model, if it has classes.
    """
    import numpy as np

    apart, alike = distances(embedded)[0], embedded.alike[0]
    ranks, structure_ranks = ranks_of(apart), ranks_of(-alike)
    answers = [None] * len(apart) if classifier is None else _answers(classifier, embedded.vectors)

    def case(place: int, repeats: int) -> SimilarCase:
        entry: CatalogEntry = embedded.entries[place]
        return SimilarCase(
            int(ranks[place]),
            int(structure_ranks[place]),
            entry.object_id,
            entry.path,
            entry.synthetic,
            entry.label,
            entry.bound,
            float(apart[place]),
            float(alike[place]),
            answers[place],
            repeats,
        )

    def cases(values: NDArray[np.int64]) -> tuple[SimilarCase, ...]:
        return tuple(case(*one) for one in distinct(np.argsort(values), embedded.small, count))

    return Explanation(
        model=model,
        model_digest=digest,
        answers=() if classifier is None else _all_answers(classifier, embedded.queries[:1]),
        images=len(embedded.entries),
        synthetic=sum(entry.synthetic for entry in embedded.entries),
        excluded=embedded.excluded,
        by_features=cases(ranks),
        by_structure=cases(structure_ranks),
    )


def distinct(order: NDArray[np.intp], small: NDArray[np.float32], count: int) -> tuple[tuple[int, int], ...]:
    """Return the first ``count`` distinct pictures in an order, each with the number of its repeats.

    Parameters
    ----------
    order
        Places of the catalog, most similar first.
    small
        As in `EmbeddedCatalog`.
    count
        Maximum number of pictures.
    """
    import numpy as np

    shown: list[int] = []
    repeats: list[int] = []
    for place in order.tolist():
        near = small[shown] @ small[place] if shown else np.zeros(0)
        if len(near) and float(near.max()) >= ONE_PICTURE:
            repeats[int(near.argmax())] += 1
        elif len(shown) < count:
            shown.append(place)
            repeats.append(0)
    return tuple(zip(shown, repeats, strict=True))


def distances(embedded: EmbeddedCatalog) -> NDArray[np.float64]:
    """Euclidean distances of the images to the catalog, ``(q, n)``."""
    import numpy as np

    # Float64: near-equal distances must not change their order by rounding.
    catalog = embedded.vectors.astype(np.float64)
    return np.stack([np.linalg.norm(catalog - one, axis=1) for one in embedded.queries.astype(np.float64)])


def ranks_of(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank of each value in ascending order, from 1; equal values keep their order."""
    import numpy as np

    ranks = np.empty(len(values), np.int64)
    # Stable, so that ties keep the order of the catalog and the result is deterministic.
    ranks[np.argsort(values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks


def _answers(classifier: Classification, vectors: NDArray[np.float32]) -> list[Prediction | None]:
    shares = classifier.probabilities(vectors)
    return [Prediction(classifier.classes[int(row.argmax())], float(row.max())) for row in shares]


def _all_answers(classifier: Classification, vector: NDArray[np.float32]) -> tuple[Prediction, ...]:
    (shares,) = classifier.probabilities(vector)
    found: Sequence[Prediction] = [
        Prediction(name, float(share)) for name, share in zip(classifier.classes, shares, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: -one.probability))
