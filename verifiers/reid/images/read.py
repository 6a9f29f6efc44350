"""Reader of all image formats, chosen by the content of the file."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import UnreadablePicture
from medsanitize.verifiers.reid.images.image import ImageArray, Modality

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ImageRegion(StrEnum):
    """Region of an image that a model reads.

    WHOLE is the whole image. CROP leaves out the outline (cropped images of Holub et al. 2023): of a slide,
    224 x 224 pixels in the middle of the tissue; of a radiograph, the central half of the rows and columns.
    """

    WHOLE = "whole"
    CROP = "crop"


def read_image(
    path: Path, *, kind: Modality | None = None, part: ImageRegion = ImageRegion.WHOLE
) -> ImageArray:
    """Read one image as input of a model.

    The content decides on the format: DICOM (displayed middle frame), slide (DICOM of modality SM, or a
    format of OpenSlide), PNG, JPEG or TIFF (first page). Slides have a longer side of at most 512 pixels;
    other images keep their resolution.

    Parameters
    ----------
    path : Path
        The file; the main one of a slide with several files.
    kind : Modality, optional
        The kind that a table or a command states. A header that states another one wins; without either, the
        image has no kind, and no model reads it.
    part : ImageRegion
        Region of the image.

    Raises
    ------
    UnreadablePicture
        With location and rule, never the name of a file; see the readers of the formats.
    """
    from medsanitize.verifiers.reid.images.slide import central_crop

    try:
        picture = _whole(path, kind)
    except OSError:
        raise UnreadablePicture("file-not-readable") from None
    if min(picture.pixels.shape[:2]) < 1:
        raise UnreadablePicture("no-pixels", "pixels")
    if picture.modality is Modality.SLIDE:
        picture = replace(picture, pixels=_as_slide(picture.pixels))
    if part is ImageRegion.WHOLE:
        return picture
    if picture.modality is Modality.SLIDE:
        return replace(picture, pixels=central_crop(picture.pixels))
    return replace(picture, pixels=_central_half(picture.pixels))


def _whole(path: Path, kind: Modality | None) -> ImageArray:
    from medsanitize.sanitize.formats.dicom.file import looks_like_dicom
    from medsanitize.sanitize.formats.file_type import detect_format
    from medsanitize.verifiers.reid.images.dicom import read_dicom
    from medsanitize.verifiers.reid.images.raster import read_raster
    from medsanitize.verifiers.reid.images.slide import is_slide, read_slide

    with path.open("rb") as file:
        head = file.read(4096)
    form = detect_format(head)
    # The preamble of a DICOM file may be a TIFF header (PS3.10 7.1): DICOM must be tried first.
    if head[128:132] == b"DICM" or (form is None and looks_like_dicom(head)):
        picture = read_dicom(path, kind)
        return ImageArray(read_slide(path), Modality.SLIDE) if picture is None else picture
    # OpenSlide reads every tiled TIFF: a statement of another kind wins.
    if form != "png" and kind in (None, Modality.SLIDE) and is_slide(path):
        return ImageArray(read_slide(path), Modality.SLIDE)
    # A CZI slide that OpenSlide cannot read is reported as a slide, not as an unknown file.
    if head[:10] == b"ZISRAWFILE":
        raise UnreadablePicture("slide-not-readable", "slide")
    if form is None:
        raise UnreadablePicture("not-an-image")
    return read_raster(path, kind)


def _as_slide(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bring a slide from another format to the size and channels of slides."""
    import numpy as np
    from medsanitize.verifiers.reid.images.slide import EDGE, downscale

    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    if max(pixels.shape[:2]) <= EDGE:
        return pixels
    return downscale(np.rint(pixels * 255).astype(np.uint8))


def _central_half(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    rows, columns = pixels.shape[:2]
    top, left = rows // 4, columns // 4
    return np.ascontiguousarray(pixels[top : top + -(-rows // 2), left : left + -(-columns // 2)])
