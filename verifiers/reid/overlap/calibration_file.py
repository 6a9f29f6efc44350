"""A calibration in a file of its own, bound to the models whose scores it describes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.calibration import Calibration
from medsanitize.verifiers.reid.images.image import Modality

_MEMBERS: Final = {"calibration", "modality", "models"}
_FEDERATION: Final = "federation"


@dataclass(frozen=True, slots=True)
class CalibrationFile:
    """Content of a calibration file.

    Attributes
    ----------
    modality
        Modality of the scored images.
    models
        Digest of the retrieval model, followed by a plus sign and the digest of the verification model if
        that made the scores; see `medsanitize.verifiers.reid.overlap.models.Models.digest`.
    calibration
        Calibration of the score of the verification model, or of the negated distance without one.
    sites
        Number of hospitals whose patients were counted in a federation; 0 of a calibration of own images.
    """

    modality: Modality
    models: str
    calibration: Calibration
    sites: int = 0

    def require_models(self, wanted: str) -> None:
        """Raise UsageError where the scores are those of other models."""
        # A calibration holds for the scores of exactly these models.
        if self.models != wanted:
            raise UsageError(
                "The calibration was made with other models, or for distances although a verifier decides",
                "Use the models it was made with, or calibrate these with medsanitize evaluate --output",
            )

    def to_json(self) -> str:
        """Serialize as strict JSON with sorted keys."""
        facts: dict[str, Any] = {
            "calibration": json.loads(self.calibration.to_json()),
            "modality": str(self.modality),
            "models": self.models,
        }
        if self.sites:
            facts[_FEDERATION] = {"sites": self.sites}
        return json.dumps(facts, sort_keys=True, allow_nan=False)


def read_calibration_file(text: str) -> CalibrationFile:
    """Parse the output of `CalibrationFile.to_json`.

    Raises
    ------
    UsageError
        If it names no models, as the calibration within a model folder, which is used without being named.
    IntegrityError
        If it is damaged.
    """
    try:
        facts = json.loads(text)
        # "genuine" is a member of a bare calibration, as it is stored in a model folder.
        if not isinstance(facts, dict) or not _MEMBERS & facts.keys() or "genuine" in facts:
            raise UsageError(
                "The calibration does not name its models",
                "Create one with medsanitize evaluate --output and the models of the comparison; the file"
                " in a model's folder is used automatically",
            )
        federation = facts.pop(_FEDERATION, {"sites": 0})
        if facts.keys() != _MEMBERS or federation.keys() != {"sites"} or type(federation["sites"]) is not int:
            raise ValueError
        if not isinstance(facts["models"], str):
            raise ValueError
        calibration = Calibration.from_json(json.dumps(facts["calibration"]))
        return CalibrationFile(Modality(facts["modality"]), facts["models"], calibration, federation["sites"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # RecursionError: json raises it for deeply nested input.
        raise IntegrityError("The calibration is damaged", "Make it again") from None
