"""The linking attack on what is about to be released: whom the look of the images alone gives away.

It attacks what the stage overlap saw: the release with itself, and with the earlier releases of the registry
that call patients the same. Of a large release it attacks a draw, and of fewer patients more are linked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.pipeline.stages.overlap import earlier, paths_of, registered, released_looks
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import Attacked, Attacks
from medsanitize.pipeline.state.stage_results import ATTACKS
from medsanitize.policies.model import Policy
from medsanitize.release.summary import Guideline
from medsanitize.verifiers.reid.calibration import Rate
from medsanitize.verifiers.reid.linkage.holub_guidelines import guidelines_of

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint
    from numpy.typing import NDArray

MOST: Final = 2_000
"""Images of each kind that take part, of the release and of strangers in earlier ones."""
_SEED: Final = 2023


def attack_release(state: State, policy: Policy) -> None:
    """Attack the released images, once for one set of them; without the section overlap nothing was seen."""
    if policy.overlap is None or ATTACKS.is_stored(state):
        return
    ours = released_looks(state, policy)
    images = {modality.value: len(vectors.images) for modality, vectors in ours.vectors.items()}
    found = Attacks(tuple(_attacks(policy, ours)), images, sum(ours.unread.values()))
    with state.transaction():
        ATTACKS.store(state, found)


def attacks_of(state: State) -> Attacks:
    """The attacks that were made."""
    return ATTACKS.load(state) or Attacks()


def guidelines_by(state: State, policy: Policy, staging: Path) -> tuple[Guideline, ...]:
    """The checklist of the staged release, by the attacks that were made."""
    found = attacks_of(state)
    others = found.with_others()
    slides = [one.rate for one in found.made if one.modality == "slide"]
    left = found.left(others)
    return guidelines_of(policy, staging, _worst(others.values()), _worst(slides), left=left)


def _worst(rates: Iterable[Rate]) -> Rate | None:
    """Who links anybody is worse than who links nobody; then the one that may link more."""
    return max(rates, key=lambda rate: (rate.errors > 0, rate.upper), default=None)


def _attacks(policy: Policy, ours: DatasetFingerprint) -> Iterator[Attacked]:
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
    for modality, (background, whose) in _earlier_images(policy, known, everybody).items():
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
    policy: Policy, known: Mapping[Modality, Mapping[str, int]], first_free: int
) -> dict[Modality, tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Images of earlier releases and who they show: all of patients who are known, and `MOST` of others.

    Whoever is known has that number, the others have higher ones.
    """
    import numpy as np
    from medsanitize.verifiers.reid.overlap.models import open_models

    if policy.overlap is None or not known:
        return {}
    models = open_models(paths_of(policy.overlap))
    strangers: Counter[Modality] = Counter()
    numbers: dict[str, int] = {}
    kept: dict[Modality, list[tuple[int, NDArray[np.float32]]]] = {}
    for image, look in chain.from_iterable(registered(policy, models, entry) for entry in earlier(policy)):
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
