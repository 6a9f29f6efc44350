"""What is said of a synthetic image, in whatever form it is released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medsanitize.policies.model import Pseudonyms
from medsanitize.sanitize.pseudonyms import SubKeys, keyed_mac, patient_pseudonym, remap_uid

Form = Literal["secondary-capture", "cr", "png"]
DESCRIPTION = (
    "Synthetic image, made by a generative model; it shows no person and derives from no single image."
)


@dataclass(frozen=True, slots=True)
class SyntheticIdentifiers:
    """Whose image it is: nobody's. Pseudonymous patient and UIDs of its own; a picture has no study."""

    patient: str
    study: str
    series: str
    instance: str


@dataclass(frozen=True, slots=True)
class SyntheticProvenance:
    """The facts that travel with a synthetic image.

    Attributes
    ----------
    label
        Class that it was asked for; empty where the generator takes none.
    model
        SHA-256 of the generator's folder, hexadecimal.
    verdict
        What the anonymity gate concluded: ``passed``, ``failed`` or ``insufficient_data``.
    bound
        Upper bound of the share of such images that match a training patient; None where there is none.
    version
        Of this program.
    """

    label: str
    model: str
    verdict: str
    bound: float | None
    version: str


def synthetic_identifiers(
    keys: SubKeys, pseudonyms: Pseudonyms, form: Form, *, model: str, label: int, seed: int
) -> SyntheticIdentifiers:
    """Names of the image that a model makes of a class and a seed: the same whenever it is made again.

    Nothing of a patient goes in, so nothing of one can come out.
    """
    key = f"synthetic/{model}/{label}/{seed}"
    root = pseudonyms.uid_root

    def uid(level: str) -> str:
        return remap_uid(keys, root, f"{key}/{level}")

    study, series = ("", "") if form == "png" else (uid("study"), uid("series"))
    return SyntheticIdentifiers(patient_pseudonym(keys, pseudonyms, key), study, series, uid("instance"))


def seed_of(keys: SubKeys, model: str, label: int, index: int) -> int:
    """The seed of a class's image ``index``, from 0 to 2 ** 63 - 1: only the key can make it."""
    return (
        int.from_bytes(keyed_mac(keys.dummy, "synthetic seed", model, str(label), str(index))[:8], "big") >> 1
    )
