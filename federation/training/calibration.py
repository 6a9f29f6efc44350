"""A job that calibrates models that exist: one round, in which sites add counts of scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.federation.parties.identity import LocalParty
from medsanitize.federation.parties.signed_files import ENDING, signature_file
from medsanitize.federation.training.calibrated_models import GATE
from medsanitize.federation.training.job import check_only_round
from medsanitize.federation.training.summed_vectors import joined_vector, separated, vector_length
from medsanitize.release.atomic_io import storage_errors, write_atomic

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.federation.training.invitation import Invitation
    from medsanitize.verifiers.reid.training.sums import Arrays, State, Summed
    from numpy.typing import NDArray

FILE: Final = "calibration.json"
CARD: Final = "README.md"
_START: Final = "phase"


@dataclass(frozen=True, slots=True, repr=False)
class FederatedCalibration:
    """The round of a calibration, as `medsanitize.federation.training.job.FederatedJob`.

    Attributes
    ----------
    invitation
        The job.
    party
        Who signs the result; None where nothing is written.
    """

    invitation: Invitation
    party: LocalParty | None

    def start(self) -> State:
        """Return the state before the round."""
        import numpy as np

        return {_START: np.array(0.0)}

    def asked(self, state: State) -> Mapping[str, Summed]:
        """Return what is summed: counts by score; nothing afterwards."""
        from medsanitize.generators.privacy_gate.pooled_controls import counted_controls
        from medsanitize.verifiers.reid.training.calibration_counts import counted_scores

        if len(state) > 1:
            return {}
        most = int(self.invitation.terms["most_images"])
        return counted_controls(most) if self._is_gate else counted_scores(most, self._grid)

    def contribution(self, state: State, site: Any, number: int) -> NDArray[np.uint64]:
        """Count the scores of a site, in fixed point.

        Parameters
        ----------
        state
            State of the job.
        site : CalibrationSite
            The site.
        number
            Of the round, which must be the first.

        Raises
        ------
        IntegrityError
            The server asks for a second sum.
        """
        check_only_round(number)
        counts: Arrays = site.count_controls() if self._is_gate else site.count_pairs(self._grid)
        return joined_vector(counts, self.asked(state), len(self.invitation.sites))

    def length(self, state: State) -> int:
        """Return the length of the vector."""
        return vector_length(self.asked(state))

    def following(self, state: State, total: NDArray[np.uint64]) -> State:
        """Return the state with the sums."""
        return {**state, **separated(total, self.asked(state))}

    def save(self, state: State, output: Path, statement: str) -> str:
        """Write the calibration and its signature; the digest is that of the calibration and its page."""
        from medsanitize.verifiers.reid.models.model_folder import Names, write_folder

        content = self.document(state).encode("ascii") + b"\n"
        page = f"# Federated calibration\n\n{statement}\n".encode()
        if self.party is None:
            raise UsageError("A calibration is signed", "Name the folder of the party")
        with storage_errors():
            output.mkdir(parents=True, exist_ok=True)
        # First: the folder is complete when its list is there.
        write_atomic(output / f"{FILE}{ENDING}", signature_file(content, self.party))
        names = frozenset({FILE, CARD})
        return write_folder(output, {FILE: content, CARD: page}, Names(names, names))

    def document(self, state: State) -> str:
        """Return the content of the calibration file.

        Raises
        ------
        UsageError
            The patients of the sites do not suffice.
        """
        from medsanitize.federation.training.kinds import modality_of
        from medsanitize.generators.privacy_gate.pooled_controls import GateSettings, pooled_controls
        from medsanitize.verifiers.reid.overlap.calibration_file import CalibrationFile
        from medsanitize.verifiers.reid.training.calibration_counts import calibration_of

        terms, models = self.invitation.terms, self.invitation.terms["models"]
        sites = len(self.invitation.sites)
        if self._is_gate:
            settings = GateSettings(
                str(models["generator"]), str(models["retrieval"]), str(models["verification"]),
                float(terms["strength"]),
            )  # fmt: skip
            return pooled_controls(state, settings, sites).to_json()
        digests = "+".join(str(models[name]) for name in ("retrieval", "verification") if models[name])
        calibration = calibration_of(state, self._grid)
        return CalibrationFile(modality_of(terms), digests, calibration, sites).to_json()

    @property
    def _is_gate(self) -> bool:
        return bool(self.invitation.terms["recipe"] == GATE)

    @property
    def _grid(self) -> NDArray[np.float64]:
        from medsanitize.verifiers.reid.training.calibration_counts import distance_grid, score_grid

        return score_grid() if self.invitation.terms["models"]["verification"] else distance_grid()
