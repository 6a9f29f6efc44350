"""A calibration in a file of its own, and which models' scores it is of: it says nothing of others'."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.calibration import Calibration
from medsanitize.verifiers.reid.images.image import Modality

_MEMBERS: Final = {"calibration", "modality", "models"}


@dataclass(frozen=True, slots=True)
class CalibrationFile:
    """What a file says.

    Attributes
    ----------
    modality
        Of the images that were scored.
    models
        Digest of the retrieval model, and after a plus sign that of the verification model if it made the
        scores; see `medsanitize.verifiers.reid.overlap.models.Models.digest`.
    calibration
        Of the verification model's score, else of the negated distance.
    """

    modality: Modality
    models: str
    calibration: Calibration

    def to_json(self) -> str:
        """Return strict JSON, keys sorted."""
        facts = {
            "calibration": json.loads(self.calibration.to_json()),
            "modality": str(self.modality),
            "models": self.models,
        }
        return json.dumps(facts, sort_keys=True, allow_nan=False)


def read_calibration_file(text: str) -> CalibrationFile:
    """Read what `CalibrationFile.to_json` wrote.

    Raises
    ------
    UsageError
        When it does not say which models it is of, as the file inside a model's folder, which is used anyway.
    IntegrityError
        When it is damaged.
    """
    try:
        facts = json.loads(text)
        if not isinstance(facts, dict) or not _MEMBERS & facts.keys() or "genuine" in facts:
            raise UsageError(
                "The calibration does not say which models it is of",
                "Make one by medsanitize evaluate --output with the models of the comparison; the file inside"
                " a model's folder is used without being named",
            )
        if facts.keys() != _MEMBERS or not isinstance(facts["models"], str):
            raise ValueError
        calibration = Calibration.from_json(json.dumps(facts["calibration"]))
        return CalibrationFile(Modality(facts["modality"]), facts["models"], calibration)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise IntegrityError("The calibration is damaged", "Make it again") from None
