"""Clean Recognizable Visual Features (PS3.15 E.3.2): face check of one object, and removal of a face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from medsanitize.policies.model import Limits, Policy
from medsanitize.sanitize.context import VOLUME_SOP_CLASSES, FaceCut, SeriesFace
from medsanitize.sanitize.dicom.assemble import put_element
from medsanitize.sanitize.formats.dicom.file import DicomFile
from medsanitize.sanitize.formats.dicom.frames import StoredFrames, check_image_size
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import TransferSyntax
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import CheckResult, Finding

PHOTOGRAPHS = frozenset(
    "1.2.840.10008.5.1.4.1.1.77.1." + suffix for suffix in "4 4.1 5.1 5.2 5.5 5.6 7".split()
)
"""Storage SOP classes of photographs of a person: external, ophthalmic and dermoscopic."""
_ICON = 0x00880200
_PHOTOGRAPHIC = frozenset(["XC", "OP", "DMS"])


@dataclass(frozen=True, slots=True)
class FaceCheck:
    """Result of the face check of one object.

    Attributes
    ----------
    check : CheckResult
    features : str
        Value of Recognizable Visual Features (0028,0302); empty to leave the attribute out.
    findings : tuple of Finding
    cuts : tuple of FaceCut
        What to remove from the pixels.
    """

    check: CheckResult
    features: Literal["", "YES", "NO"] = ""
    findings: tuple[Finding, ...] = ()
    cuts: tuple[FaceCut, ...] = ()


def check_face(texts: Mapping[str, str], has_pixels: bool, face: SeriesFace | None, wanted: str) -> FaceCheck:
    """Apply the face rule of the policy to one object.

    Parameters
    ----------
    texts : mapping
        SOPClassUID and Modality of the object.
    has_pixels : bool
    face : SeriesFace or None
        Result for the object's series; None when the face check did not run.
    wanted : str
        ``pixels.faces`` of the policy.

    Raises
    ------
    Quarantined
        ``recognizable-face``, ``photograph-of-person``, ``face-not-removed`` or ``face-not-looked-for``.
    """
    photograph = texts["SOPClassUID"] in PHOTOGRAPHS or texts["Modality"].strip().upper() in _PHOTOGRAPHIC
    if not has_pixels or not (photograph or face is not None or texts["SOPClassUID"] in VOLUME_SOP_CLASSES):
        return FaceCheck(CheckResult.NOT_APPLICABLE)
    if wanted == "ignore":
        return FaceCheck(CheckResult.NOT_RUN)
    strict = wanted in ("quarantine", "deface")
    # A photograph has no plane in which a face could be cut.
    if photograph:
        return _found("photograph-of-person", strict)
    if face is None:
        if strict:
            raise Quarantined("face-not-looked-for", "pixels")
        return FaceCheck(CheckResult.NOT_RUN)
    if face.verdict == "projection":
        return FaceCheck(CheckResult.NOT_APPLICABLE)
    # Before the verdict: cuts apply to all series of the frame of reference, also where no face was found.
    if wanted == "deface" and face.cuts:
        return FaceCheck(CheckResult.PASSED, "NO", (), face.cuts)
    if face.verdict == "none":
        return FaceCheck(CheckResult.PASSED, "NO")
    return _found("face-not-removed" if wanted == "deface" else "recognizable-face", strict)


def _found(rule: str, strict: bool) -> FaceCheck:
    if strict:
        raise Quarantined(rule, "pixels")
    return FaceCheck(CheckResult.FLAGGED, "YES", (Finding("pixels", rule),))


@dataclass(frozen=True, slots=True)
class DefacedPixels:
    """Pixels without a face, with their new transfer syntax and geometry."""

    pixels: WrittenPixels
    syntax: TransferSyntax
    geometry: Geometry


def remove_face(
    container: DicomFile,
    end: int,
    out: list[bytes],
    pixels: WrittenPixels,
    geometry: Geometry,
    policy: Policy,
    cuts: tuple[FaceCut, ...],
    modality: str,
) -> DefacedPixels:
    """Remove a face from the pixel data; pixels outside the cuts are returned unchanged.

    Parameters
    ----------
    container : DicomFile
        The source.
    end : int
        Where the header ends in the buffer of the container.
    out : list of bytes
        The rewritten elements; changed when the object has to be decompressed.
    pixels : WrittenPixels
    geometry : Geometry
    policy : Policy
    cuts : tuple of FaceCut
    modality : str

    Raises
    ------
    Quarantined
        ``face-not-removed``, ``pixels-undecodable``, ``pixels-too-large``, among others.
    """
    from medsanitize.sanitize.faces.apply_cut import apply_cuts, cuts_meet_image
    from medsanitize.sanitize.formats.dicom.decode import is_reversible

    check_image_size(geometry, policy.dicom.limits)
    source = bytes(container.buf[container.start : end])
    now = DefacedPixels(pixels, container.syntax, geometry)
    if not cuts_meet_image(source, container.syntax, cuts):
        return now
    if not is_reversible(container.syntax) and policy.pixels.lossy == "decompress":
        now = _decompressed(container, out, now, policy.dicom.limits)
    stored = StoredFrames(container.buf, now.pixels, now.syntax.layout, now.syntax, now.geometry)
    if not apply_cuts(stored, source, now.syntax, now.geometry, cuts, is_ct=modality == "CT"):
        return now
    # The icon would still show the face.
    put_element(out, now.syntax.layout, _ICON, None)
    made = stored.finish()
    made.rules = [*pixels.rules, "face-defaced"]
    return replace(now, pixels=made)


def _decompressed(
    container: DicomFile, out: list[bytes], old: DefacedPixels, limits: Limits
) -> DefacedPixels:
    """Decompress every frame, since a lossy frame cannot be changed pixel by pixel."""
    from medsanitize.sanitize.burned_in.clean import CleanedFrames
    from medsanitize.sanitize.burned_in.write_back import color_model, decompress_and_blank
    from medsanitize.sanitize.dicom.clean_pixel_data import NATIVE, decompressed_pixels

    geometry = old.geometry
    if geometry.samples != 1:
        raise Quarantined("face-not-removed", "pixels")
    if geometry.frame_bits // 8 * geometry.frames > limits.inflated_bytes:
        raise Quarantined("pixels-too-large", "pixels")
    stored = StoredFrames(container.buf, old.pixels, old.syntax.layout, old.syntax, geometry)
    first = stored.frame(0)
    made = [
        decompress_and_blank(stored.frame(i), (), old.syntax, geometry, None) for i in range(geometry.frames)
    ]
    # Bits Stored applies to all frames of the object.
    precision = max(bits for _, _, bits in made)
    cleaned = CleanedFrames(
        0, (), tuple(raw for raw, _, _ in made), color_model(first, old.syntax, geometry), precision
    )
    pixels = decompressed_pixels(out, old.pixels, geometry, cleaned, old.syntax)
    return DefacedPixels(pixels, NATIVE, replace(geometry, bits_stored=precision, high_bit=precision - 1))
