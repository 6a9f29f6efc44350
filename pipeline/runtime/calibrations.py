"""Calibrations that a command or policy names: of own images, or of a federation, which are signed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.overlap.calibration_file import CalibrationFile, read_calibration_file

if TYPE_CHECKING:
    from medsanitize.federation.parties.identity import Identity
    from medsanitize.generators.privacy_gate.pooled_controls import PooledControls


@dataclass(frozen=True, slots=True)
class GivenCalibration:
    """A calibration of scores.

    Attributes
    ----------
    file
        Its content.
    signer
        Name and fingerprint of the party that signed it; empty for one of own images.
    """

    file: CalibrationFile
    signer: str = ""

    @property
    def statement(self) -> str:
        """What a federated calibration is, and what its use assumes; empty for one of own images."""
        if not self.file.sites:
            return ""
        counted = self.file.calibration
        return (
            f"The calibration is that of {counted.patients:,} patients of {self.file.sites:,} hospitals,"
            f" {len(counted.genuine):,} of them with two images, counted in a federation and signed by"
            f" {self.signer}. It is used only where strangers do not score otherwise here than there, and"
            " assumes that patients do not either."
        )


def read_given_calibration(path: Path) -> GivenCalibration:
    """Read a calibration file; one of a federation needs its signature beside it.

    Raises
    ------
    UsageError
        The file cannot be read, is none, or lacks its signature.
    IntegrityError
        It is damaged, or was changed after it was signed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError("The calibration cannot be read", "Give the path of a calibration file") from None
    found = read_calibration_file(text)
    if not found.sites:
        return GivenCalibration(found)
    signed, signer = _signed_text(path)
    return GivenCalibration(read_calibration_file(signed), signer)


def read_gate_calibration(path: Path) -> PooledControls:
    """Read the federated calibration of a privacy gate; raises like `read_given_calibration`."""
    from medsanitize.generators.privacy_gate.pooled_controls import read_pooled_controls

    return read_pooled_controls(*_signed_text(path))


def _signed_text(path: Path) -> tuple[str, str]:
    from medsanitize.federation.parties.signed_files import read_signed

    content, signer = read_signed(path)
    try:
        return content.decode("utf-8"), _named(signer)
    except UnicodeDecodeError:
        raise IntegrityError("The calibration is damaged", "Fetch it again") from None


def _named(signer: Identity) -> str:
    return f"{signer.name} (fingerprint {signer.fingerprint[:16]})"
