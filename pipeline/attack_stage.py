"""The linking attack on what is about to be released: whom the look of the images alone gives away.

It attacks what the stage overlap saw: the release with itself, and with the earlier releases of the registry
that call patients the same. Of a large release it attacks a draw, and of fewer patients more are linked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from medsanitize.pipeline.overlap_stage import earlier, paths_of, registered, released_looks
from medsanitize.pipeline.state import State
from medsanitize.policies.model import Policy
from medsanitize.release.summary import Guideline
from medsanitize.verifiers.calibration import Rate
from medsanitize.verifiers.linkage.guidelines import guidelines_of

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.pictures.picture import Modality
    from numpy.typing import NDArray

MOST: Final = 2_000
"""Images of the release, and of earlier ones, that take part for each kind of image."""
_SEED: Final = 2023
_KEY: Final = "attacked"

Background = Literal["itself", "earlier releases"]


@dataclass(frozen=True, slots=True)
class Attacked:
    """An attack by whole images of one kind.

    Attributes
    ----------
    modality
        ``radiograph`` or ``slide``.
    background
        Where the attacker's images of known patients come from.
    rate
        Rs: the share of patients with an image that went to them, with exact bounds.
    """

    modality: str
    background: Background
    rate: Rate

    @property
    def told(self) -> str:
        """A public sentence."""
        who = "with two images or more" if self.background == "itself" else "who are in earlier releases too"
        return (
            f"Of {self.rate.of:,} patients {who}, {self.rate.errors:,} are linked by the look of a"
            f" {self.modality} (Rs {self.rate.share:.3f}, at most {self.rate.upper:.1%} at 95 % confidence)."
        )


def attack_release(state: State, policy: Policy) -> None:
    """Attack the released images, once for one set of them; without the section overlap nothing was seen."""
    if policy.overlap is None or state.get(_KEY) is not None:
        return
    found = [asdict(one) for one in _attacks(state, policy)]
    with state.transaction():
        state.put(_KEY, json.dumps(found))


def attacks_of(state: State) -> tuple[Attacked, ...]:
    """The attacks that were made."""
    found = json.loads(state.get(_KEY) or "[]")
    return tuple(Attacked(**{**one, "rate": Rate(**one["rate"])}) for one in found)


def guidelines_by(state: State, policy: Policy, staging: Path) -> tuple[Guideline, ...]:
    """The checklist of the staged release, by its attack with other data or else with itself."""
    found = attacks_of(state)
    others = [one.rate for one in found if one.background == "earlier releases"]
    rates = others or [one.rate for one in found]
    worst = max(rates, key=lambda rate: rate.share, default=None)
    return guidelines_of(policy, staging, worst, itself=not others)


def _attacks(state: State, policy: Policy) -> Iterator[Attacked]:
    import numpy as np
    from medsanitize.verifiers.linkage.attack import pool, rate

    ours = released_looks(state, policy)
    names = {name: number for number, name in enumerate(ours.names)}
    others = _earlier_images(policy, names) if ours.vectors else {}
    for modality, vectors in ours.vectors.items():
        rows = _drawn(vectors.patients, np.bincount(vectors.patients, minlength=len(names)) > 1)
        own = pool(vectors.first[rows], vectors.patients[rows], None, None)
        if len(own.patients):
            yield Attacked(modality.value, "itself", rate(own))
        if modality in others:
            background, whose = others[modality]
            rows = _drawn(vectors.patients, np.isin(np.arange(len(names)), whose))
            other = pool(vectors.first[rows], vectors.patients[rows], background, whose)
            if len(other.patients):
                yield Attacked(modality.value, "earlier releases", rate(other))


def _drawn(patients: NDArray[np.int64], sooner: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows of patients drawn at random, with all their images, up to `MOST`: those to be linked first."""
    import numpy as np

    counts = np.bincount(patients, minlength=len(sooner))
    order = np.random.default_rng(_SEED).permutation(np.flatnonzero(counts))
    order = order[np.argsort(~sooner[order], kind="stable")]
    fitting = int(np.searchsorted(np.cumsum(counts[order]), MOST, side="right"))
    return np.flatnonzero(np.isin(patients, order[: max(1, fitting)]))[:MOST]


def _earlier_images(
    policy: Policy, names: Mapping[str, int]
) -> dict[Modality, tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Images of earlier releases and who they show: `MOST` of patients in both, as many of others.

    Patients of this release have their numbers in it, and the others higher ones.
    """
    import numpy as np
    from medsanitize.verifiers.overlap.models import open_models

    if policy.overlap is None:
        return {}
    models = open_models(paths_of(policy.overlap))
    taken: Counter[tuple[Modality, bool]] = Counter()
    kept: dict[Modality, list[tuple[int, NDArray[np.float32]]]] = {}
    numbers = dict(names)
    for image, look in chain.from_iterable(registered(policy, models, entry) for entry in earlier(policy)):
        modality, shared = look.modality, image.patient in names
        if modality is not None and look.vector is not None and taken[modality, shared] < MOST:
            taken[modality, shared] += 1
            number = numbers.setdefault(image.patient, len(numbers))
            kept.setdefault(modality, []).append((number, look.vector))
    return {
        modality: (np.stack([vector for _, vector in rows]), np.array([number for number, _ in rows]))
        for modality, rows in kept.items()
    }
