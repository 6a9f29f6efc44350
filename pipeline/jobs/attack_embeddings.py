"""The command ``attack embeddings``: embeddings of a cohort, the schemes that share them, and the attacks."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.federation.psi.process import open_psi
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import LabelColumns, Labels, read_labels
from medsanitize.verifiers.reid.overlap.score_images import progress_callback
from medsanitize.verifiers.reid.recovery.recovered import Recovered
from medsanitize.verifiers.reid.recovery.schemes import (
    ANSWERING,
    ASKING,
    PARTIES,
    Scheme,
    attack_flake,
    attack_masks,
    attack_points,
    attack_scores,
)

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Retrieval
    from numpy.typing import NDArray

# The phantoms of the demo of synthetic images: three hospitals with one image of each patient, and another.
_PATIENTS: Final = 180
_OTHERS: Final = 60
_SIDE: Final = 128
# Longer embeddings are projected to this length; it is also that of the models that `train` makes.
DIMENSION: Final = 128
_FEWEST: Final = 20
_SEED: Final = 8_128


@dataclass(frozen=True, slots=True)
class EmbeddingAttackRequest:
    """The arguments of the command ``attack embeddings``; without ``images`` phantoms are made."""

    schemes: tuple[Scheme, ...]
    images: Path | None
    labels: Path | None
    columns: LabelColumns
    split: str | None
    model: Path | None
    kind: Modality | None
    library: Path | None


@dataclass(frozen=True, slots=True)
class EmbeddingAttack:
    """Result of the attacks; it names no image and no patient.

    Attributes
    ----------
    cohort
        ``phantoms`` or ``images``.
    modality, model, model_digest
        Modality, name and digest of the model of the embeddings.
    embeddings, dimension, parties
        Number and length of the attacked embeddings, and of the parties that hold them.
    others
        Number of embeddings of other patients, which the attacker has.
    excluded
        Number of images left out, by reason.
    encrypted_by
        The library that encrypted the scores; empty if its errors were simulated, or none were attacked.
    attacks
        One row per scheme, attacker and number of known embeddings.
    """

    cohort: str
    modality: str
    model: str
    model_digest: str
    embeddings: int
    dimension: int
    parties: int
    others: int
    excluded: Mapping[str, int]
    encrypted_by: str
    attacks: tuple[Recovered, ...]

    @property
    def broken_comparisons(self) -> int:
        """Number of attacks on the product's own private comparison that exceed chance."""
        own = [one for one in self.attacks if one.scheme == "private-overlap"]
        return sum(one.is_above_chance(len(own)) for one in own)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        facts = {**asdict(self), "attacks": [one.to_json() for one in self.attacks]}
        return {**facts, "broken_comparisons": self.broken_comparisons}


@dataclass(frozen=True, slots=True, repr=False)
class _Embedded:
    """Embeddings of unit length, their images, and what was excluded."""

    vectors: NDArray[np.float64]
    paths: tuple[Path, ...]
    kinds: tuple[Modality | None, ...]
    excluded: Mapping[str, int]


def run_embedding_attack(
    request: EmbeddingAttackRequest, progress: Progress, cancellation: Cancellation
) -> EmbeddingAttack:
    """Embed the images, run the schemes, and attack what each participant sees.

    Raises
    ------
    UsageError
        There are too few images, or the library of private comparisons is not installed.
    IntegrityError
        The model was changed.
    """
    check_extra("verify")
    if "private-overlap" in request.schemes and request.library is None:
        raise UsageError(
            "The private comparison can be attacked only where its library is installed",
            "Name a party's folder with --party: medsanitize party init, then party install",
        )
    if request.library is not None:
        # A missing library is told before images are read.
        with open_psi(request.library):
            pass
    with _cohort(request) as (attacked, known_to_attacker):
        model = _model(request, attacked)
        progress.stage("embedding", len(attacked) + len(known_to_attacker))
        ours = _embed(attacked, model, progress, cancellation)
        others = _embed(known_to_attacker, model, progress, cancellation)
        rows = len(ours.paths) - len(ours.paths) % PARTIES
        if min(rows, len(others.paths)) < _FEWEST:
            raise UsageError(
                f"There are too few images to attack: at least {_FEWEST} are needed, and as many of other"
                " patients",
                "Name a table of more patients; a quarter of them are the attacker's",
            )
        progress.stage("attacking", None)
        attacks, library = _attacks(request, ours, others.vectors, rows)
    return EmbeddingAttack(
        cohort="phantoms" if request.images is None else "images",
        modality=str(model.modality),
        model="packaged ImageNet features" if request.model is None else "a trained model",
        model_digest=model.digest,
        embeddings=rows,
        dimension=ours.vectors.shape[1],
        parties=PARTIES,
        others=len(others.paths),
        excluded=dict(sorted((Counter(ours.excluded) + Counter(others.excluded)).items())),
        encrypted_by=library,
        attacks=tuple(attacks),
    )


def _attacks(
    request: EmbeddingAttackRequest, ours: _Embedded, others: NDArray[np.float64], rows: int
) -> tuple[list[Recovered], str]:
    """Attack the chosen schemes; also the library that encrypted the scores."""
    import numpy as np

    parties, library = np.split(ours.vectors[:rows], PARTIES), ""
    found: list[Recovered] = []
    if "flake" in request.schemes:
        found += attack_flake(parties, others)
    if "masks" in request.schemes:
        found += attack_masks(parties, others)
    if "ckks-scores" in request.schemes:
        scores, library = attack_scores(ours.vectors[:rows], others)
        found += scores
    if "private-overlap" in request.schemes and request.library is not None:
        found += _attack_comparison(ours, others, request.library)
    return found, library


def _attack_comparison(ours: _Embedded, others: NDArray[np.float64], library: Path) -> Iterator[Recovered]:
    """Attack both sides of a recorded private comparison of the images' pixels."""
    from medsanitize.pipeline.jobs.recorded_overlap import record_overlap

    # Images with equal pixels are one item.
    places = {digest: place for place, digest in enumerate(_digests(ours))}
    recorded = record_overlap(list(places), library)
    rows = list(places.values())
    for seen, truth, attacker in (
        (recorded.seen_by_asking, recorded.asking_truth, ASKING),
        (recorded.seen_by_answering, recorded.answering_truth, ANSWERING),
    ):
        yield from attack_points(seen, ours.vectors[[rows[item] for item in truth]], others, attacker)


def _digests(ours: _Embedded) -> Iterator[bytes]:
    from medsanitize.verifiers.reid.images.read import read_image

    for path, kind in zip(ours.paths, ours.kinds, strict=True):
        pixels = read_image(path, kind=kind).pixels
        yield hashlib.sha256(str(pixels.shape).encode("ascii") + pixels.tobytes()).digest()


@contextmanager
def _cohort(request: EmbeddingAttackRequest) -> Iterator[tuple[Labels, Labels]]:
    """Images whose embeddings are attacked, and images of other patients for the attacker."""
    if request.images is not None and request.labels is not None:
        labels = read_labels(request.labels, request.images, request.columns, request.split)
        yield _by_patient(labels.of_kind(request.kind))
        return
    with tempfile.TemporaryDirectory() as folder:
        yield _phantoms(Path(folder))


def _phantoms(folder: Path) -> tuple[Labels, Labels]:
    from medsanitize.generators.phantoms.cohorts import write_chests

    found = []
    for name, patients, visits in (
        ("hospitals", range(_PATIENTS), (1, 1)),
        ("others", range(_PATIENTS, _PATIENTS + _OTHERS), (2, 3)),
    ):
        table = write_chests(folder / name, patients, visits=visits, size=_SIDE)
        found.append(read_labels(table, folder / name, LabelColumns()).of_kind(Modality.RADIOGRAPH))
    return found[0], found[1]


def _by_patient(labels: Labels) -> tuple[Labels, Labels]:
    """Give the attacker a quarter of the patients."""
    import numpy as np

    patients = np.array(sorted(set(labels.patients)))
    theirs = set(np.random.default_rng(_SEED).permutation(patients)[: len(patients) // 4])
    other = np.array([patient in theirs for patient in labels.patients], dtype=bool)
    return labels.keep(np.flatnonzero(~other)), labels.keep(np.flatnonzero(other), {})


def _model(request: EmbeddingAttackRequest, attacked: Labels) -> Retrieval:
    from medsanitize.verifiers.reid.evaluation.embed import modality_of
    from medsanitize.verifiers.reid.models.load import open_retrieval
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

    if request.model is not None:
        return open_retrieval(request.model)
    return packaged_retrieval(modality_of(attacked.paths, attacked.kinds))


def _embed(labels: Labels, model: Retrieval, progress: Progress, cancellation: Cancellation) -> _Embedded:
    from medsanitize.verifiers.reid.evaluation.embed import embed_files, middle_slices

    told = progress_callback(progress, cancellation)
    embedded = embed_files(labels.paths, [model], kinds=labels.kinds, done=told)
    if model.modality.is_sliced:
        embedded = middle_slices(embedded, labels.patients, labels.series)
    kept = labels.keep(embedded.places, embedded.excluded)
    return _Embedded(_shortened(embedded.vectors[0]), kept.paths, kept.kinds, kept.excluded)


def _shortened(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Project long embeddings to `DIMENSION` numbers, in directions that depend on no image."""
    import numpy as np

    rows = vectors.astype(np.float64)
    if rows.shape[1] > DIMENSION:
        drawn = np.random.default_rng(_SEED).standard_normal((rows.shape[1], DIMENSION))
        rows = rows @ np.linalg.qr(drawn)[0]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float64] = rows / np.where(lengths > 0, lengths, 1)
    return unit
