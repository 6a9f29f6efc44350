"""Attacks that a job requires: rounds after the training, in which every site attacks with its own patients.

First the gradient of one more step is summed, as in the training. Then every site scores its patients, by the
model and by that sum, and counts the scores by bin; the counts of all sites decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import ModelRefused
from medsanitize.verifiers.reid.membership.counted_scores import BINS, Recognized, count_patients, recognized

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from medsanitize.verifiers.reid.training.linear_sums import LinearSums
    from medsanitize.verifiers.reid.training.sums import Arrays, SiteImages, State, Summed, SummedTraining
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
    from numpy.typing import NDArray

MEMBERSHIP: Final = "membership"
GRADIENTS: Final = "gradients"
_SUM: Final = "attack.gradient."


@dataclass(frozen=True, slots=True)
class RequiredAttack:
    """The result of one attack, beside what the job permits."""

    name: str
    found: Recognized
    mistaken: float
    permitted: float

    @property
    def passed(self) -> bool:
        """Whether the bound of recognized members is small enough."""
        return self.found.upper <= self.permitted

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {
            **self.found.to_json(),
            "share_of_others": self.mistaken,
            "permitted": self.permitted,
            "passed": self.passed,
        }

    def sentence(self) -> str:
        """State the result for the model's card."""
        found = self.found
        return (
            f"- {self.name}: {found.recognized} of {found.members} training patients recognized"
            f" ({100 * found.share:.1f} %, at most {100 * found.upper:.1f} % at 95 % confidence), while"
            f" {found.mistaken} of {found.others} others are taken for them; permitted"
            f" {100 * self.permitted:g} %; p-value {found.chance:.2g}."
        )


@dataclass(frozen=True, slots=True)
class AttackRounds:
    """The rounds of a job's attacks.

    Attributes
    ----------
    terms
        Attacks of the job, by name; None for those that are not required.
    sums
        The training.
    most
        Most images of all sites together.
    """

    terms: Mapping[str, Mapping[str, float] | None]
    sums: SummedTraining
    most: float

    @property
    def names(self) -> list[str]:
        """Names of the required attacks."""
        return [name for name in (MEMBERSHIP, GRADIENTS) if self.terms.get(name)]

    def asked(self, state: State) -> Mapping[str, Summed]:
        """Return what is summed in the round of a state; nothing when all attacks are counted."""
        from medsanitize.verifiers.reid.training.linear_sums import GRADIENT
        from medsanitize.verifiers.reid.training.sums import Summed

        if GRADIENTS in self.names and not any(name.startswith(_SUM) for name in state):
            bound = float(state["fit_images"]) * GRADIENT
            return {
                f"{_SUM}{name}": Summed(one.shape, bound) for name, one in self._linear.best(state).items()
            }
        counts = {name: Summed((BINS,), self.most) for attack in self.names for name in _counts_of(attack)}
        return {} if set(counts) <= set(state) else counts

    def contribution(
        self, state: State, site: SiteImages, alike: Callable[[TrainingDataset], NDArray[np.float64]]
    ) -> Arrays:
        """Compute what a site adds: its gradient, or the counts of its patients' scores.

        Parameters
        ----------
        state
            Of the trained model.
        site
            The site.
        alike
            Scores of the patients of a part by a retrieval model.
        """
        import numpy as np
        from medsanitize.verifiers.reid.membership import site_scores
        from medsanitize.verifiers.reid.training.linear_sums import ClassifiedSite, site_features

        if not isinstance(site, ClassifiedSite):
            own, theirs = alike(site.fit), alike(site.validation)
            return _counted(MEMBERSHIP, (own, theirs), site_scores.DISTANCE)
        parameters = self._linear.best(state)
        total = {name.removeprefix(_SUM): one for name, one in state.items() if name.startswith(_SUM)}
        if GRADIENTS in self.names and not total:
            ones = np.ones(len(site.fit))
            features = site_features(site.fit, site)
            _, gradient = self._linear.gradient(parameters, features, site.fit_classes, ones)
            return {f"{_SUM}{name}": one for name, one in gradient.items()}
        found: dict[str, NDArray[np.float64]] = {}
        if MEMBERSHIP in self.names:
            scores = site_scores.likelihood_scores(self._linear, parameters, site)
            found |= _counted(MEMBERSHIP, scores, site_scores.LIKELIHOOD)
        if GRADIENTS in self.names:
            scores = site_scores.gradient_scores(self._linear, parameters, total, site)
            found |= _counted(GRADIENTS, scores, site_scores.COSINE)
        return found

    def results(self, state: State) -> tuple[RequiredAttack, ...]:
        """Judge the counts of all sites."""
        found = []
        for name in self.names:
            terms = self.terms[name] or {}
            own, theirs = (state[part] for part in _counts_of(name))
            mistaken = float(terms["mistaken"])
            found.append(
                RequiredAttack(name, recognized(own, theirs, mistaken), mistaken, float(terms["recognized"]))
            )
        return tuple(found)

    @property
    def _linear(self) -> LinearSums:
        from medsanitize.verifiers.reid.training.linear_sums import LinearSums

        if not isinstance(self.sums, LinearSums):
            raise TypeError("a training without gradients")
        return self.sums


def check_passed(results: tuple[RequiredAttack, ...]) -> None:
    """Raise ModelRefused if a model does not withstand what its job requires."""
    failed = [one for one in results if not one.passed]
    if failed:
        said = "; ".join(
            f"{one.name}: at most {100 * one.found.upper:.1f} % of {one.found.members} training patients,"
            f" where {100 * one.permitted:g} % are permitted"
            for one in failed
        )
        raise ModelRefused(
            f"The model is not written, because an attack may recognize its patients ({said})",
            "Train on more patients, with differential privacy in place of the attacks, or permit more",
        )


def _counts_of(attack: str) -> tuple[str, str]:
    return f"attack.{attack}.members", f"attack.{attack}.others"


def _counted(
    attack: str, scores: tuple[NDArray[np.float64], NDArray[np.float64]], extent: tuple[float, float]
) -> dict[str, NDArray[np.float64]]:
    return {
        name: count_patients(part, *extent) for name, part in zip(_counts_of(attack), scores, strict=True)
    }
