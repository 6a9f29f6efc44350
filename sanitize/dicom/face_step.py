"""Recognizable Visual Features of one object: ignored, flagged, refused, or cut off (PS3.15 E.3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from medsanitize.policies.model import Limits
from medsanitize.sanitize.dicom.container import Container
from medsanitize.sanitize.dicom.geometry import Geometry
from medsanitize.sanitize.dicom.pixeldata import Pixels
from medsanitize.sanitize.dicom.refusal import Refused
from medsanitize.sanitize.dicom.stored import Stored, check_size
from medsanitize.sanitize.faces.face import VOLUMES, Cut, Face
from medsanitize.sanitize.record import Check, Finding

PHOTOGRAPHS = frozenset(
    "1.2.840.10008.5.1.4.1.1.77.1." + suffix for suffix in "4 4.1 5.1 5.2 5.5 5.6 7".split()
)
"""Photographs of a person in visible light: external, ophthalmic and dermoscopic ones."""
_PHOTOGRAPHIC = frozenset(["XC", "OP", "DMS"])


@dataclass(frozen=True, slots=True)
class Look:
    """What is said of one object: the check's result, the attribute's value (empty: none), what to cut."""

    check: Check
    features: Literal["", "YES", "NO"] = ""
    findings: tuple[Finding, ...] = ()
    cuts: tuple[Cut, ...] = ()


def look_for_face(texts: Mapping[str, str], has_pixels: bool, face: Face | None, wanted: str) -> Look:
    """Settle what the policy says of a face in this object.

    Parameters
    ----------
    texts : mapping
        SOPClassUID and Modality as the object states them.
    has_pixels : bool
    face : Face or None
        What is known of the object's series; None when nobody looked.
    wanted : str
        ``pixels.faces`` of the policy.

    Raises
    ------
    Refused
        ``recognizable-face``, ``photograph-of-person``, ``face-not-removed``, ``face-not-looked-for``.
    """
    photograph = texts["SOPClassUID"] in PHOTOGRAPHS or texts["Modality"].strip().upper() in _PHOTOGRAPHIC
    if not has_pixels or not (photograph or face is not None or texts["SOPClassUID"] in VOLUMES):
        return Look(Check.NOT_APPLICABLE)
    if wanted == "ignore":
        return Look(Check.NOT_MADE)
    strict = wanted in ("quarantine", "deface")
    if photograph:
        return _found("photograph-of-person", strict)
    if face is None:
        if strict:
            raise Refused("face-not-looked-for", "pixels")
        return Look(Check.NOT_MADE)
    if face.verdict == "projection":
        return Look(Check.NOT_APPLICABLE)
    if wanted == "deface" and face.cuts:
        return Look(Check.PASSED, "NO", (), face.cuts)
    if face.verdict == "none":
        return Look(Check.PASSED, "NO")
    return _found("face-not-removed" if wanted == "deface" else "recognizable-face", strict)


def _found(rule: str, strict: bool) -> Look:
    if strict:
        raise Refused(rule, "pixels")
    return Look(Check.FLAGGED, "YES", (Finding("pixels", rule),))


def without_face(
    container: Container,
    end: int,
    pixels: Pixels,
    geometry: Geometry,
    limits: Limits,
    cuts: tuple[Cut, ...],
    modality: str,
) -> Pixels:
    """The pixel data with the face cut off; the very same when the cuts meet no tissue of it.

    Raises
    ------
    Refused
        ``face-not-removed``, ``pixels-undecodable``, ``pixels-too-large`` ...
    """
    from medsanitize.sanitize.faces.cutting import cut_face

    check_size(geometry, limits)
    syntax = container.syntax
    stored = Stored(container.buf, pixels, syntax.layout, syntax, geometry)
    source = bytes(container.buf[container.start : end])
    if not cut_face(stored, source, syntax, geometry, cuts, is_ct=modality == "CT"):
        return pixels
    made = stored.finish()
    made.rules = [*pixels.rules, "face-defaced"]
    return made
