"""Everything that a comparison wants to know of one image, found in one visit."""

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
from medsanitize.verifiers.reid.overlap.dataset import ImageFile
from medsanitize.verifiers.reid.overlap.models import Models
from medsanitize.verifiers.reid.overlap.perceptual_hash import perceptual_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_IMAGE: Final = "no-image"
"""Of what is no image at all: reports, plans; tables and texts, whose bytes do not count either."""
OTHER_KIND: Final = "other-kind"
"""An image of a kind that no model here is made for, such as CT: it is compared byte by byte only."""
NOT_AN_IMAGE: Final = "not-an-image"
"""Of text where an image should be, such as a pointer to a file that was never fetched."""
FURTHER_PAGES: Final = "further-pages"
"""Of a file whose first page alone was compared."""
CHANGED: Final = "changed"
MISSING_FILE: Final = ""
UNKNOWN_STAMP: Final = "?"
"""Stamps of an image whose files are not there, and of one of which that cannot be told."""
_IMAGES: Final = (
    *(".dcm", ".dicom", ".png", ".jpg", ".jpeg", ".jp2", ".tif", ".tiff", ".btf"),
    *(".svs", ".ndpi", ".scn", ".bif", ".mrxs", ".vms", ".vmu", ".afi", ".czi", ".qptiff"),
)
_POINTERS: Final = (b"version https://git-lfs", b"/annex/objects/", b"../.git/annex/")
"""How files begin that stand for others which were never fetched."""
_RADIOGRAPHS: Final = frozenset({"CR", "DX", "RG"})
_HEAD: Final = 4096
_TABLE: Final = b"PAR1"
_ROWS: Final = 0x00280010
_MODALITY: Final = 0x00080060
_PATIENT: Final = 0x00100020


@dataclass(frozen=True, slots=True, repr=False)
class ImageFingerprint:
    """What one visit to an image found; embeddings and digests are PHI.

    Attributes
    ----------
    digest
        SHA-256 of the bytes; None where they could not be read.
    pixels
        SHA-256 of the decoded pixels, or of the tiles of a slide; None where there is none.
    print
        Perceptual hash; None where there is none, or the picture is flat.
    modality, vector, second
        What the models see: embedding of the retrieval model and, where there is one, of the verification
        model. None where no model looked.
    patient
        Who the header says it shows; empty where it does not, or the patient is known anyway.
    stamp
        Of its files, as `file_stamp` gives it.
    trouble
        Rule by which the image was not compared in full; empty where it was.
    """

    digest: bytes | None = None
    pixels: bytes | None = None
    print: bytes | None = None
    modality: Modality | None = None
    vector: NDArray[np.float32] | None = None
    second: NDArray[np.float32] | None = None
    patient: str = ""
    stamp: str = MISSING_FILE
    trouble: str = ""

    def __repr__(self) -> str:
        return f"ImageFingerprint({self.trouble or 'complete'})"


def fingerprint_images(images: Sequence[ImageFile], models: Models) -> list[ImageFingerprint]:
    """Visit images: bytes, pixels, perceptual hash, and the models' embeddings, a batch of them at a time.

    What cannot be read is said of the image (``trouble``), never raised.
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
                    fingerprints[place], modality=modality, vector=vector, second=other
                )
    return fingerprints


def file_stamp(files: Iterable[Path]) -> str:
    """Digest of sizes and times of an image's files, which shows that one was written to or replaced.

    `MISSING_FILE` where none of them is there, `UNKNOWN_STAMP` where not all of them can be asked.
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
            # Who copies the time of a file along cannot copy that of its inode.
            found.append((one.st_size, one.st_mtime_ns, one.st_ctime_ns))
    if None in found:
        return UNKNOWN_STAMP if any(found) else MISSING_FILE
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _fingerprint_if_unchanged(image: ImageFile) -> tuple[ImageFingerprint, ImageArray | None]:
    """Look at one image, if nobody writes to it meanwhile."""
    files = (image.path, *image.parts)
    before = file_stamp(files)
    fingerprint, picture = _fingerprint(image)
    if file_stamp(files) != before:
        return ImageFingerprint(trouble=CHANGED), None
    return replace(fingerprint, stamp=before), picture


def _fingerprint(image: ImageFile) -> tuple[ImageFingerprint, ImageArray | None]:
    from medsanitize.verifiers.reid.images.read import read_image

    try:
        digests = [_digest(path) for path in (image.path, *image.parts)]
    except OSError:
        return ImageFingerprint(trouble="file-not-readable"), None
    if image.expected_sha256 and [one.hex() for one in digests] != list(image.expected_sha256):
        return ImageFingerprint(trouble=CHANGED), None
    digest = digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
    head = _head(image.path)
    # The main file of a slide of several may be text.
    if not image.parts and (is_text(head) or head[:4] == _TABLE):
        missing = _should_show(image) or head.startswith(_POINTERS)
        return (
            ImageFingerprint(digest, trouble=NOT_AN_IMAGE) if missing else ImageFingerprint(trouble=NO_IMAGE)
        ), None
    parsed = _parsed(image.path, head)
    fingerprint = ImageFingerprint(
        digest, patient="" if image.patient or parsed is None else _text(parsed, _PATIENT)
    )
    if parsed is not None and parsed.value(_ROWS) is None:
        return replace(fingerprint, trouble=NO_IMAGE), None
    if parsed is not None:
        fingerprint = replace(fingerprint, pixels=_pixels(image, parsed, None))
    try:
        picture = read_image(_shown(image))
    except UnreadablePicture as problem:
        return replace(fingerprint, trouble=problem.rule), None
    if parsed is None:
        fingerprint = replace(fingerprint, pixels=_pixels(image, None, picture))
    fingerprint = replace(fingerprint, print=perceptual_hash(picture.pixels))
    radiograph = picture.modality is Modality.RADIOGRAPH
    if picture.further:
        # What it shows is compared all the same, and a match of it is one.
        return replace(fingerprint, trouble=FURTHER_PAGES), picture
    if parsed is not None and radiograph and _text(parsed, _MODALITY) not in _RADIOGRAPHS:
        return replace(fingerprint, trouble=OTHER_KIND), None
    return fingerprint, picture


def _should_show(image: ImageFile) -> bool:
    """Whether a table or the file's name says that it is an image, as of a pointer left in its place."""
    return bool(image.patient) or image.path.suffix.lower() in _IMAGES


def _shown(image: ImageFile) -> Path:
    """What shows the image: the main file, or the first scan of a list of scans (AFI)."""
    return image.parts[0] if image.parts and image.path.suffix.lower() == ".afi" else image.path


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def is_text(head: bytes) -> bool:
    """Whether a file begins as text does: letters in UTF-8 and nothing that only machines read."""
    if not head or min(head) < 9 or any(one in head for one in (b"\x0e", b"\x1a", b"\x7f")):
        return False
    # A letter of several bytes may be cut at the end of what was read.
    return any(_is_utf8(head[: len(head) - cut]) for cut in range(4))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _parsed(path: Path, head: bytes) -> Parsed | None:
    """The header of a DICOM object; None for everything else, and for what the strict reader refuses."""
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

    if image.expected_pixels_sha256:
        return bytes.fromhex(image.expected_pixels_sha256)
    if parsed is not None:
        found = pixel_digest(parsed)
    elif picture is not None and picture.modality is Modality.SLIDE:
        found = tile_digest(image.path, image.parts)
    else:
        found = raster_digest(image.path)
    return bytes.fromhex(found) if found else None
