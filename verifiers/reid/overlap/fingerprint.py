"""The fingerprint of one image: digests, perceptual hash and embeddings, computed in one pass."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UnreadablePicture
from medsanitize.verifiers.leaks.dicom_reader import MalformedFile, Parsed, read
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.images.kinds import UNKNOWN_KIND, WITH_KINDS
from medsanitize.verifiers.reid.overlap.dataset import ImageFile
from medsanitize.verifiers.reid.overlap.models import Models
from medsanitize.verifiers.reid.overlap.perceptual_hash import perceptual_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Reports, plans, tables and texts. The bytes of tables and texts are not compared either.
NO_IMAGE: Final = "no-image"
# A modality that no model reads, such as PT: its images are compared byte by byte only.
OTHER_KIND: Final = "other-kind"
# Text where an image should be, such as a Git LFS pointer whose file was never fetched.
NOT_AN_IMAGE: Final = "not-an-image"
# Only the first page of the file was compared.
FURTHER_PAGES: Final = "further-pages"
CHANGED: Final = "changed"
# Stamps of an image whose files are missing, and of one whose files cannot be examined.
MISSING_FILE: Final = ""
UNKNOWN_STAMP: Final = "?"
_IMAGES: Final = (
    *(".dcm", ".dicom", ".png", ".jpg", ".jpeg", ".jp2", ".tif", ".tiff", ".btf"),
    *(".svs", ".ndpi", ".scn", ".bif", ".mrxs", ".vms", ".vmu", ".afi", ".czi", ".qptiff"),
)
# First bytes of Git LFS and git-annex pointers: the image that they name was never fetched.
_POINTERS: Final = (b"version https://git-lfs", b"/annex/objects/", b"../.git/annex/")
_HEAD: Final = 4096
_TABLE: Final = b"PAR1"
_ROWS: Final = 0x00280010
_MODALITY: Final = 0x00080060
_PATIENT: Final = 0x00100020


@dataclass(frozen=True, slots=True, repr=False)
class ImageFingerprint:
    """Fingerprint of one image. Contains PHI: embeddings can be inverted, digests link files.

    Attributes
    ----------
    digest
        SHA-256 of the bytes; None where they cannot be read.
    pixels
        SHA-256 of the decoded pixels, or of the tiles of a slide; None where there are no pixels.
    perceptual_hash
        Perceptual hash; None where there are no pixels or the image is flat.
    modality, embedding, verification_embedding
        Modality, embedding of the retrieval model and embedding of the verification model. None where no such
        model read the image.
    patient
        Patient ID from the header; empty where the header has none or the patient is known from a table.
    stamp
        Stamp of the files, see `file_stamp`.
    problem
        Rule by which the image was not compared in full; empty otherwise.
    series, position
        Series of a slice and its place along it; empty and 0 for other images and where unknown.
    """

    digest: bytes | None = None
    pixels: bytes | None = None
    perceptual_hash: bytes | None = None
    modality: Modality | None = None
    embedding: NDArray[np.float32] | None = None
    verification_embedding: NDArray[np.float32] | None = None
    patient: str = ""
    stamp: str = MISSING_FILE
    problem: str = ""
    series: str = ""
    position: float = 0.0

    def __repr__(self) -> str:
        return f"ImageFingerprint({self.problem or 'complete'})"


def fingerprint_images(images: Sequence[ImageFile], models: Models) -> list[ImageFingerprint]:
    """Fingerprint images, computing their embeddings as one batch per modality.

    Parameters
    ----------
    images : sequence of ImageFile
        The images.
    models : Models
        Models by modality.

    Returns
    -------
    list of ImageFingerprint
        In the order of ``images``. An image that cannot be read is reported in ``problem``; nothing is
        raised.
    """
    fingerprints, pictures = [], []
    for image in images:
        fingerprint, picture = _fingerprint_if_unchanged(image)
        fingerprints.append(fingerprint)
        pictures.append(picture)
    for modality in Modality:
        places = [n for n, one in enumerate(pictures) if one is not None and one.modality is modality]
        if places:
            seen = [picture for place in places if (picture := pictures[place]) is not None]
            first = models.retrieval[modality].embed(seen)
            verifier = models.verification.get(modality)
            second = verifier.embed(seen) if verifier else [None] * len(seen)
            for place, vector, other in zip(places, first, second, strict=True):
                fingerprints[place] = replace(
                    fingerprints[place], modality=modality, embedding=vector, verification_embedding=other
                )
    return fingerprints


def file_stamp(files: Iterable[Path]) -> str:
    """Digest sizes and times of an image's files, which change when one is written to or replaced.

    `MISSING_FILE` where none of the files exists, `UNKNOWN_STAMP` where only some of them can be examined.
    """
    found: list[tuple[int, int, int] | None] = []
    for path in files:
        try:
            one = path.stat()
        except FileNotFoundError:
            found.append(None)
        except OSError:
            return UNKNOWN_STAMP
        else:
            # The modification time can be copied from another file; the time of the last inode change cannot.
            found.append((one.st_size, one.st_mtime_ns, one.st_ctime_ns))
    if None in found:
        return UNKNOWN_STAMP if any(found) else MISSING_FILE
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _fingerprint_if_unchanged(image: ImageFile) -> tuple[ImageFingerprint, ImageArray | None]:
    """Fingerprint an image; an image that is written to meanwhile is reported as changed."""
    files = (image.path, *image.parts)
    before = file_stamp(files)
    fingerprint, picture = _fingerprint(image)
    # Part of what was read may be old, part of it new.
    if file_stamp(files) != before:
        return ImageFingerprint(problem=CHANGED), None
    return replace(fingerprint, stamp=before), picture


def _fingerprint(image: ImageFile) -> tuple[ImageFingerprint, ImageArray | None]:
    from medsanitize.verifiers.reid.images.read import read_image

    try:
        digests = [_digest(path) for path in (image.path, *image.parts)]
    except OSError:
        return ImageFingerprint(problem="file-not-readable"), None
    if image.expected_sha256 and [one.hex() for one in digests] != list(image.expected_sha256):
        return ImageFingerprint(problem=CHANGED), None
    digest = digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
    head = _head(image.path)
    # Not for slides with several files: their main file may be text (VMS, AFI).
    if not image.parts and (is_text(head) or head[:4] == _TABLE):
        missing = _should_show(image) or head.startswith(_POINTERS)
        return (
            ImageFingerprint(digest, problem=NOT_AN_IMAGE) if missing else ImageFingerprint(problem=NO_IMAGE)
        ), None
    parsed = _parsed(image.path, head)
    fingerprint = ImageFingerprint(
        digest, patient="" if image.patient or parsed is None else _text(parsed, _PATIENT)
    )
    if parsed is not None and parsed.value(_ROWS) is None:
        return replace(fingerprint, problem=NO_IMAGE), None
    if parsed is not None:
        fingerprint = replace(fingerprint, pixels=_pixels(image, parsed, None))
    try:
        picture = read_image(_shown(image), kind=image.kind)
    except UnreadablePicture as problem:
        return replace(fingerprint, problem=problem.rule), None
    if parsed is None:
        fingerprint = replace(fingerprint, pixels=_pixels(image, None, picture))
    fingerprint = replace(fingerprint, perceptual_hash=perceptual_hash(picture.pixels))
    fingerprint = replace(fingerprint, series=image.series or picture.series, position=picture.position)
    # Under a model of another kind, distances mean nothing.
    if picture.modality is None:
        known = parsed is None or _text(parsed, _MODALITY) in WITH_KINDS
        return replace(fingerprint, problem=UNKNOWN_KIND if known else OTHER_KIND), None
    if picture.further:
        # The first page still takes part in the comparison, so that its matches count.
        return replace(fingerprint, problem=FURTHER_PAGES), picture
    return fingerprint, picture


def _should_show(image: ImageFile) -> bool:
    """Whether a table or the name of the file says that it is an image."""
    return bool(image.patient) or image.path.suffix.lower() in _IMAGES


def _shown(image: ImageFile) -> Path:
    """The file that shows the image: the main file, or the first scan of an AFI list."""
    return image.parts[0] if image.parts and image.path.suffix.lower() == ".afi" else image.path


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def is_text(head: bytes) -> bool:
    """Whether a file starts like text: UTF-8 without the control characters of binary formats."""
    if not head or min(head) < 9 or any(one in head for one in (b"\x0e", b"\x1a", b"\x7f")):
        return False
    # The head may end within a character of up to four bytes.
    return any(_is_utf8(head[: len(head) - cut]) for cut in range(4))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _parsed(path: Path, head: bytes) -> Parsed | None:
    """The header of a DICOM object; None for other files and for files that the strict reader refuses."""
    from medsanitize.sanitize.formats.dicom.file import looks_like_dicom

    if head[128:132] != b"DICM" and not looks_like_dicom(head):
        return None
    try:
        return read(path)
    except (MalformedFile, struct.error, OSError):
        return None


def _text(parsed: Parsed, tag: int) -> str:
    return (parsed.value(tag) or b"").decode("utf-8", "replace").strip(" \0")


def _pixels(image: ImageFile, parsed: Parsed | None, picture: ImageArray | None) -> bytes | None:
    from medsanitize.verifiers.leaks.pixel_digest import pixel_digest
    from medsanitize.verifiers.leaks.raster_files import raster_digest
    from medsanitize.verifiers.leaks.slide_audit import tile_digest

    # The files equal their digests by now, so that their pixels do as well.
    if image.expected_pixels_sha256:
        return bytes.fromhex(image.expected_pixels_sha256)
    if parsed is not None:
        found = pixel_digest(parsed)
    elif picture is not None and picture.modality is Modality.SLIDE:
        found = tile_digest(image.path, image.parts)
    else:
        found = raster_digest(image.path)
    return bytes.fromhex(found) if found else None
