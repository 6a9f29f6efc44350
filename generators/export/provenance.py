"""Identifiers and provenance of synthetic images, for all forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medsanitize.policies.model import Pseudonyms
from medsanitize.sanitize.pseudonyms import SubKeys, keyed_mac, patient_pseudonym, remap_uid

Form = Literal["secondary-capture", "cr", "png"]
DESCRIPTION = (
    "Synthetic image, made by a generative model; it shows no person and derives from no single image."
)

_UNVETTED_DESCRIPTION = "Synthetic image, made by a generative model."
NOT_VETTED = "NOT VETTED: no privacy gate passed this image, which may show a patient. Do not release it. "


@dataclass(frozen=True, slots=True)
class SyntheticIdentifiers:
    """Pseudonym and UIDs of a synthetic image, derived from no patient; PNG files have no study or series."""

    patient: str
    study: str
    series: str
    instance: str


@dataclass(frozen=True, slots=True)
class SyntheticProvenance:
    """Facts that are released with a synthetic image.

    Attributes
    ----------
    label
        Class it was sampled for; empty for a generator without classes.
    model
        SHA-256 of the generator's folder, hexadecimal.
    verdict
        Verdict of the privacy gate: ``passed``, ``failed`` or ``insufficient_data``.
    bound
        Upper bound of the share of the generator's images that match a training patient, before matching ones
        are removed; None if there is none.
    version
        Version of medsanitize.
    residual
        Upper bound of the share of copies among the images that are left; None if there is none.
    """

    label: str
    model: str
    verdict: str
    bound: float | None
    version: str
    residual: float | None = None

    @property
    def vetted(self) -> bool:
        """Whether the privacy gate passed; images that it did not pass say so wherever they can."""
        return self.verdict == "passed"

    @property
    def description(self) -> str:
        """What the image is, in a sentence."""
        return DESCRIPTION if self.vetted else NOT_VETTED + _UNVETTED_DESCRIPTION


def synthetic_identifiers(
    keys: SubKeys, pseudonyms: Pseudonyms, form: Form, *, model: str, label: int, seed: int
) -> SyntheticIdentifiers:
    """Derive identifiers from model, class and seed; sampling an image again gives the same identifiers.

    No patient data goes into them.

    Parameters
    ----------
    keys, pseudonyms, form
        Keys of the release, pseudonym settings of the policy, form of the object.
    model
        SHA-256 of the generator's folder.
    label
        Class number.
    seed
        Seed of the image.
    """
    # The prefix separates these pseudonyms from those of real patients.
    key = f"synthetic/{model}/{label}/{seed}"
    root = pseudonyms.uid_root

    def uid(level: str) -> str:
        return remap_uid(keys, root, f"{key}/{level}")

    study, series = ("", "") if form == "png" else (uid("study"), uid("series"))
    return SyntheticIdentifiers(patient_pseudonym(keys, pseudonyms, key), study, series, uid("instance"))


def seed_of(keys: SubKeys, model: str, label: int, index: int) -> int:
    """Derive the seed of image ``index`` of a class, from 0 to 2 ** 63 - 1, from the release key."""
    return (
        # Keyed: with a guessable seed anyone with the model could sample the images again.
        int.from_bytes(keyed_mac(keys.dummy, "synthetic seed", model, str(label), str(index))[:8], "big") >> 1
    )
