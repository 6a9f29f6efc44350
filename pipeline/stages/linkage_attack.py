"""The linking attack on what is about to be released: whom the look of the images alone gives away.

It attacks what the stage overlap saw: the release with itself, and with the earlier releases of the registry
that call patients the same. Of a large release it attacks a draw, and of fewer patients more are linked.
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
from medsanitize.release.summary import GateSummary
from medsanitize.verifiers.reid.calibration import Rate
from medsanitize.verifiers.reid.linkage.holub_guidelines import MOST_LINKED

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint
    from numpy.typing import NDArray

MOST: Final = 2_000
"""Images of each kind that take part, of the release and of strangers in earlier ones."""
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
        """0 without the section ``overlap``, which makes the fingerprints, and once the attacks are made."""
        return 0 if self.section is None or ATTACKS.is_stored(state) else None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Attack them."""
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
    """Attack the released images, once for one set of them; without the section overlap nothing was seen."""
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
    """The attacks that were made."""
    return ATTACKS.load(state) or Attacks()


def worst_links(state: State) -> tuple[Rate | None, Rate | None, int]:
    """What the guidelines ask of the attacks.

    Returns
    -------
    others, slides : Rate or None
        Worst linkage rate with other datasets, and among slides.
    left : int
        Images that took part in no attack.
    """
    found = attacks_of(state)
    others = found.with_others()
    slides = [one.rate for one in found.made if one.modality == "slide"]
    return _worst(others.values()), _worst(slides), found.left(others)


def _worst(rates: Iterable[Rate]) -> Rate | None:
    """Who links anybody is worse than who links nobody; then the one that may link more."""
    return max(rates, key=lambda rate: (rate.errors > 0, rate.upper), default=None)


def _attacks(section: Overlap, earlier: EarlierReleases, ours: DatasetFingerprint) -> Iterator[Attacked]:
    import numpy as np
    from medsanitize.verifiers.reid.linkage.attack import linkage_rate, pool_similarities

    everybody = len(ours.names)
    for modality, vectors in ours.vectors.items():
        rows = _drawn(vectors.patients, np.bincount(vectors.patients, minlength=everybody) > 1)
        own = pool_similarities(vectors.first[rows], vectors.patients[rows], None, None)
        if len(own.patients):
            yield Attacked(modality.value, "itself", linkage_rate(own))
    drawn = {
        modality: _drawn(vectors.patients, np.zeros(everybody, bool))
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


def _drawn(patients: NDArray[np.int64], sooner: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows of patients drawn at random, some sooner, with all their images, up to `MOST` images."""
    import numpy as np

    counts = np.bincount(patients, minlength=len(sooner))
    order = np.random.default_rng(_SEED).permutation(np.flatnonzero(counts))
    order = order[np.argsort(~sooner[order], kind="stable")]
    fitting = int(np.searchsorted(np.cumsum(counts[order]), MOST, side="right"))
    return np.flatnonzero(np.isin(patients, order[: max(1, fitting)]))[:MOST]


def _earlier_images(
    section: Overlap,
    earlier: EarlierReleases,
    known: Mapping[Modality, Mapping[str, int]],
    first_free: int,
) -> dict[Modality, tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Images of earlier releases and who they show: all of patients who are known, and `MOST` of others.

    Whoever is known has that number, the others have higher ones.
    """
    import numpy as np
    from medsanitize.verifiers.reid.overlap.models import open_models

    if not known:
        return {}
    models = open_models(paths_of(section))
    strangers: Counter[Modality] = Counter()
    numbers: dict[str, int] = {}
    kept: dict[Modality, list[tuple[int, NDArray[np.float32]]]] = {}
    for image, look in chain.from_iterable(registered(earlier, models, entry) for entry in earlier.others()):
        modality = look.modality
        if modality is None or look.vector is None or modality not in known:
            continue
        number = known[modality].get(image.patient)
        if number is None:
            strangers[modality] += 1
            if strangers[modality] > MOST:
                continue
            number = first_free + numbers.setdefault(image.patient, len(numbers))
        kept.setdefault(modality, []).append((number, look.vector))
    return {
        modality: (np.stack([vector for _, vector in rows]), np.array([number for number, _ in rows]))
        for modality, rows in kept.items()
    }


def attack_gate(state: State) -> GateSummary:
    """Whom the look of the released images gives away, as far as the run attacked them."""
    found = attacks_of(state)
    if not found.made:
        return _NO_LINKS if found.images else _NOT_RUN
    bounded = all(not one.rate.errors and one.rate.upper <= MOST_LINKED for one in found.made)
    told, left = [one.told for one in found.made], found.left({one.modality for one in found.made})
    told += [f"Images in no attack: {left:,}."] if left else []
    told.append("Another attack may link more.")
    return GateSummary("linkage attack", "passed" if bounded and not left else "flagged", " ".join(told))
