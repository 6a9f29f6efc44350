"""Scores of the calibration patients of several sites, as counts on a fixed grid, in a file.

Each site makes the positive controls of its own calibration patients with the same generator and scores them
with the same models; only counts are added. The threshold and its bound follow from the sums as they do from
the scores of one site, each score rounded down: no bound becomes too small.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.generators.privacy_gate.confidence_bounds import lowest_scores
from medsanitize.generators.privacy_gate.positive_controls import control_kinds
from medsanitize.verifiers.reid.calibration import Calibration

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.training.sums import Arrays, Summed
    from numpy.typing import NDArray

_FORMAT: Final = 1
_LOWEST: Final = "controls.lowest"
_MEMBERS: Final = {"format", "lowest", "kinds", "strangers", "settings", "federation"}


@dataclass(frozen=True, slots=True)
class GateSettings:
    """What the scores depend on besides the images.

    Attributes
    ----------
    generator, retrieval, verification
        Digests of the models.
    strength
        Strength of the image-to-image controls.
    """

    generator: str
    retrieval: str
    verification: str
    strength: float


@dataclass(frozen=True, slots=True)
class PooledOrigin:
    """Whose patients calibrated a gate.

    Attributes
    ----------
    sites, patients
        Number of hospitals, and of their calibration patients.
    signer
        Name and fingerprint of the party that signed the file.
    """

    sites: int
    patients: int
    signer: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class PooledControls:
    """Scores of the calibration patients of several sites.

    Attributes
    ----------
    kinds
        Lowest score of each patient's copies with their originals, ascending, by kind of control.
    lowest
        The lowest of each patient over all kinds, ascending.
    strangers
        Scores of strangers within each site, and of images of one patient; ``genuine`` may be empty.
    settings
        The models.
    origin
        The sites.
    """

    kinds: Mapping[str, NDArray[np.float64]]
    lowest: NDArray[np.float64]
    strangers: Calibration
    settings: GateSettings
    origin: PooledOrigin

    def to_json(self) -> str:
        """Serialize as strict JSON with sorted keys: counts by score."""
        from dataclasses import asdict

        facts = {
            "format": _FORMAT,
            "lowest": _counted(self.lowest),
            "kinds": {name: _counted(scores) for name, scores in self.kinds.items()},
            "strangers": json.loads(self.strangers.to_json()),
            "settings": asdict(self.settings),
            "federation": {"sites": self.origin.sites},
        }
        return json.dumps(facts, sort_keys=True, allow_nan=False)

    def require_settings(self, wanted: GateSettings) -> None:
        """Raise UsageError where the scores are of other models than those of a gate."""
        if self.settings != wanted:
            raise UsageError(
                "The federated calibration was made with another generator, other models or another strength",
                "Use those it was made with, or calibrate again with medsanitize federation",
            )


def read_pooled_controls(text: str, signer: str) -> PooledControls:
    """Parse the output of `PooledControls.to_json`.

    Parameters
    ----------
    text : str
        Content of the file.
    signer : str
        Who has signed it.

    Raises
    ------
    IntegrityError
        If it is damaged.
    """
    try:
        facts = json.loads(text)
        if (
            facts.keys() != _MEMBERS
            or facts["format"] != _FORMAT
            or set(facts["kinds"]) != set(control_kinds())
        ):
            raise ValueError
        kinds = {name: _repeated(facts["kinds"][name]) for name in control_kinds()}
        lowest, sites = _repeated(facts["lowest"]), facts["federation"]["sites"]
        consistent = all(len(one) == len(lowest) for one in kinds.values()) and len(lowest) > 0
        # The lowest of all kinds: otherwise the threshold would miss what a kind says it finds.
        if not consistent or min(float(one[0]) for one in kinds.values()) != float(lowest[0]):
            raise ValueError
        if type(sites) is not int or sites < 1:
            raise TypeError
        strangers = Calibration.from_json(json.dumps(facts["strangers"]), genuine=False)
        settings = GateSettings(**facts["settings"])
        return PooledControls(kinds, lowest, strangers, settings, PooledOrigin(sites, len(lowest), signer))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise IntegrityError("The federated calibration is damaged", "Fetch it again") from None


def counted_controls(most: int) -> dict[str, Summed]:
    """Return what is summed; ``most`` bounds the number of patients."""
    from medsanitize.verifiers.reid.training.calibration_counts import counted_scores, score_grid
    from medsanitize.verifiers.reid.training.sums import Summed

    names = (_LOWEST, *(f"controls.{kind}" for kind in control_kinds()))
    return {
        **counted_scores(most, score_grid()),
        **{name: Summed((len(score_grid()),), float(most)) for name in names},
    }


def count_controls(controls: Mapping[str, NDArray[np.float64]]) -> Arrays:
    """Count the scores of a site's controls.

    Parameters
    ----------
    controls : mapping of str to array of float64
        One score for each patient, by kind of control.
    """
    from medsanitize.verifiers.reid.training.calibration_counts import counts_at, lowered, score_grid

    named = {
        _LOWEST: lowest_scores(controls),
        **{f"controls.{kind}": controls[kind] for kind in control_kinds()},
    }
    grid = score_grid()
    return {name: counts_at(lowered(scores, grid), grid) for name, scores in named.items()}


def pooled_controls(sums: Arrays, settings: GateSettings, sites: int) -> PooledControls:
    """Return the calibration that follows from the sums of all sites.

    Raises
    ------
    UsageError
        If the sites have no calibration patient, or none has two of them.
    """
    from medsanitize.verifiers.reid.training.calibration_counts import (
        repeated,
        score_grid,
        strangers_of,
        whole_counts,
    )

    def scores(name: str) -> NDArray[np.float64]:
        return repeated(whole_counts(sums[name]), score_grid())

    kinds = {kind: scores(f"controls.{kind}") for kind in control_kinds()}
    lowest, strangers = scores(_LOWEST), strangers_of(sums, score_grid())
    return PooledControls(kinds, lowest, strangers, settings, PooledOrigin(sites, len(lowest)))


def _counted(scores: NDArray[np.float64]) -> list[list[Any]]:
    import numpy as np

    values, counts = np.unique(scores, return_counts=True)
    return [[value, count] for value, count in zip(values.tolist(), counts.tolist(), strict=True)]


def _repeated(counted: list[list[Any]]) -> NDArray[np.float64]:
    import numpy as np
    from medsanitize.verifiers.reid.training.calibration_counts import MOST_PATIENTS

    values, counts = ([row[part] for row in counted] for part in (0, 1))
    # ``type() is`` and not isinstance: a JSON true would pass as an int.
    if any(type(one) is not float for one in values) or any(type(one) is not int for one in counts):
        raise TypeError
    if (
        any(count < 1 for count in counts)
        or sum(counts) > MOST_PATIENTS
        or values != sorted(set(values))
        or not 0 <= values[0] <= values[-1] <= 1
    ):
        raise ValueError
    return np.repeat(np.array(values, np.float64), counts)
