"""The stage attack: linkage attacks (Holub 2023) on the images that are about to be released.

The attacks use the fingerprints of the stage overlap. They link images within the release, and with earlier
releases that use the same pseudonyms. A large release is sampled; with fewer patients, more are linked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Final

from medsanitize.pipeline.stages.earlier_releases import EarlierReleases
from medsanitize.pipeline.stages.overlap import paths_of, registered, release_fingerprint
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import Attacked, Attacks
from medsanitize.pipeline.state.stage_results import ATTACKS
from medsanitize.policies.model import Overlap
from medsanitize.release.summary import GateResult, GateSummary
from medsanitize.verifiers.reid.calibration import Rate
from medsanitize.verifiers.reid.linkage.holub_guidelines import MOST_LINKED

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint
    from numpy.typing import NDArray

MAX_IMAGES: Final = 2_000
"""Maximum number of images per modality: of the release, and of other patients in earlier releases."""
# Fixed, so that the same release gives the same sample and the same report.
_SEED: Final = 2023


@dataclass(frozen=True, slots=True)
class LinkageAttackStage(Stage):
    """Run the linkage attack of Holub et al. 2023 on the released images."""

    section: Overlap | None
    earlier: EarlierReleases

    name: ClassVar = "attack"
    phase: ClassVar[Phase] = "set"
    invalidated_by: ClassVar = frozenset({"sanitize", "overlap", "synthesize"})

    def pending(self, state: State) -> int | None:
        """Return 0 without the section ``overlap``, which makes fingerprints, or if attacks are stored."""
        return 0 if self.section is None or ATTACKS.is_stored(state) else None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Run the attacks and store their results."""
        if self.section is not None:
            attack_release(context, self.section, self.earlier)

    @staticmethod
    def reset(state: State) -> None:
        """Remove the results of the attacks."""
        ATTACKS.remove(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Whether an attack links released images."""
        return (attack_gate(judged.state),)


def attack_release(context: RunContext, section: Overlap, earlier: EarlierReleases) -> None:
    """Run the linkage attacks on the released images and store the results.

    Parameters
    ----------
    context : RunContext
        The context of the run; the stage overlap must have made the fingerprints.
    section : Overlap
        The section ``overlap`` of the policy.
    earlier : EarlierReleases
        The registry of earlier releases.
    """
    state = context.state
    ours = release_fingerprint(state, context.workspace.state)
    images = {modality.value: len(vectors.images) for modality, vectors in ours.vectors.items()}
    found = Attacks(tuple(_attacks(section, earlier, ours)), images, sum(ours.unread.values()))
    with state.transaction():
        ATTACKS.store(state, found)


_NOT_RUN: Final = GateSummary(
    "linkage attack",
    "not_run",
    "No linkage attack was run on the released images. The policy section overlap or the command"
    " attack linkage runs one.",
)
_NO_LINKS: Final = GateSummary(
    "linkage attack",
    "not_run",
    "There is no link to find: no patient has two images with an embedding, or is in an earlier release that"
    " uses the same pseudonyms.",
)


def attacks_of(state: State) -> Attacks:
    """Return the stored results of the attacks."""
    return ATTACKS.load(state) or Attacks()


def worst_links(state: State) -> tuple[Rate | None, Rate | None, int]:
    """Return the linkage rates that the guidelines of Holub 2023 ask for.

    Returns
    -------
    others, slides : Rate or None
        Highest linkage rate with other datasets, and among slides; None without such an attack.
    left : int
        Number of images in no attack.
    """
    found = attacks_of(state)
    others = found.with_others()
    slides = [one.rate for one in found.made if one.modality == "slide"]
    return _highest_rate(others.values()), _highest_rate(slides), found.left(others)


def _highest_rate(rates: Iterable[Rate]) -> Rate | None:
    """Return the highest rate: any link ranks above no link, then the higher upper bound."""
    return max(rates, key=lambda rate: (rate.errors > 0, rate.upper), default=None)


def _attacks(section: Overlap, earlier: EarlierReleases, ours: DatasetFingerprint) -> Iterator[Attacked]:
    import numpy as np
    from medsanitize.verifiers.reid.linkage.attack import linkage_rate, pool_similarities

    everybody = len(ours.names)
    for modality, vectors in ours.vectors.items():
        # Only a patient with two images can be linked within the release.
        rows = _sample_patients(vectors.patients, np.bincount(vectors.patients, minlength=everybody) > 1)
        own = pool_similarities(vectors.first[rows], vectors.patients[rows], None, None)
        if len(own.patients):
            yield Attacked(modality.value, "itself", linkage_rate(own))
    drawn = {
        modality: _sample_patients(vectors.patients, np.zeros(everybody, bool))
        for modality, vectors in ours.vectors.items()
    }
    known = {
        modality: {ours.names[number]: number for number in ours.vectors[modality].patients[rows].tolist()}
        for modality, rows in drawn.items()
    }
    for modality, (background, whose) in _earlier_images(section, earlier, known, everybody).items():
        vectors, rows = ours.vectors[modality], drawn[modality]
        other = pool_similarities(vectors.first[rows], vectors.patients[rows], background, whose)
        if len(other.patients):
            yield Attacked(modality.value, "earlier releases", linkage_rate(other))


def _sample_patients(patients: NDArray[np.int64], sooner: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Sample patients with all their images, up to `MAX_IMAGES` images.

    Parameters
    ----------
    patients : ndarray of int64, shape (n_images,)
        Patient number of each image.
    sooner : ndarray of bool, shape (n_patients,)
        Patients that are sampled before the others.

    Returns
    -------
    ndarray of int64
        Row numbers of the sampled images, ascending.
    """
    import numpy as np

    counts = np.bincount(patients, minlength=len(sooner))
    order = np.random.default_rng(_SEED).permutation(np.flatnonzero(counts))
    # Stable, so that the random order holds within both groups.
    order = order[np.argsort(~sooner[order], kind="stable")]
    fitting = int(np.searchsorted(np.cumsum(counts[order]), MAX_IMAGES, side="right"))
    return np.flatnonzero(np.isin(patients, order[: max(1, fitting)]))[:MAX_IMAGES]


def _earlier_images(
    section: Overlap,
    earlier: EarlierReleases,
    known: Mapping[Modality, Mapping[str, int]],
    first_free: int,
) -> dict[Modality, tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Return vectors and patient numbers of images in earlier releases, by modality.

    All images of the patients in ``known`` are returned, with the numbers given there, and up to `MAX_IMAGES`
    images of other patients, with numbers from ``first_free`` on.
    """
    import numpy as np
    from medsanitize.verifiers.reid.overlap.models import open_models

    if not known:
        return {}
    models = open_models(paths_of(section))
    strangers: Counter[Modality] = Counter()
    numbers: dict[str, int] = {}
    kept: dict[Modality, list[tuple[int, NDArray[np.float32]]]] = {}
    for image, fingerprint in chain.from_iterable(
        registered(earlier, models, entry) for entry in earlier.others()
    ):
        modality = fingerprint.modality
        if modality is None or fingerprint.embedding is None or modality not in known:
            continue
        number = known[modality].get(image.patient)
        if number is None:
            # Images of other patients are distractors: without them linking would look too easy.
            strangers[modality] += 1
            if strangers[modality] > MAX_IMAGES:
                continue
            number = first_free + numbers.setdefault(image.patient, len(numbers))
        kept.setdefault(modality, []).append((number, fingerprint.embedding))
    return {
        modality: (np.stack([vector for _, vector in rows]), np.array([number for number, _ in rows]))
        for modality, rows in kept.items()
    }


def attack_gate(state: State) -> GateSummary:
    """Decide the gate ``linkage attack``: passed if no image is linked and every image was attacked."""
    found = attacks_of(state)
    if not found.made:
        return _NO_LINKS if found.images else _NOT_RUN
    bounded = all(not one.rate.errors and one.rate.upper <= MOST_LINKED for one in found.made)
    told, left = [one.sentence for one in found.made], found.left({one.modality for one in found.made})
    told += [f"Images in no attack: {left:,}."] if left else []
    told.append("Another attack may link more.")
    images = sum(found.images.values()) + found.unread
    result: GateResult = "passed" if bounded and not left else "flagged"
    return GateSummary("linkage attack", result, " ".join(told), images - left, images, "images")
