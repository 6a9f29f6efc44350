"""Check the macro image of a released slide: it is the recorded image, and black outside the kept part."""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Final

Part = tuple[float, float, float, float]
"""Left, top, right and bottom, as fractions of width and height."""

_MAX_DIFFERENCE: Final = 2
"""Maximum difference of two JPEG decoders per sample, of 255."""


def is_stated(main: Path, shown: Any, digest: str, part: Part | None) -> bool:
    """Whether the macro image of a viewer is the only strip of the file with the recorded digest.

    Parameters
    ----------
    main : Path
        The TIFF file.
    shown : PIL.Image.Image
        The macro image that OpenSlide returns.
    digest : str
        SHA-256 (hex) of the encoded image in the record.
    part : Part, optional
        The part that the policy keeps; everything outside must be black.
    """
    import numpy as np
    from PIL import Image

    found = [data for data in _strips(main) if sha256(data).hexdigest() == digest]
    if len(found) != 1:
        return False
    try:
        with Image.open(BytesIO(found[0]), formats=("JPEG",)) as image:
            stored = np.array(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False
    seen = np.array(shown.convert("RGB"))
    if seen.shape != stored.shape or int(np.abs(seen.astype(np.int16) - stored).max()) > _MAX_DIFFERENCE:
        return False
    return part is None or not (_around(stored, part).any() or _around(seen, part).any())


def _strips(main: Path) -> list[bytes]:
    """Return the encoded images of pages with a single strip."""
    import tifffile

    try:
        with tifffile.TiffFile(main) as tif, main.open("rb") as file:
            places = [
                (page.dataoffsets[0], page.databytecounts[0])
                for page in tif.pages
                if len(page.dataoffsets) == 1
            ]
            found = []
            for offset, length in places:
                file.seek(offset)
                found.append(file.read(length))
            return found
    except (tifffile.TiffFileError, OSError, ValueError, LookupError, RuntimeError):
        return []


def _around(picture: Any, part: Part) -> Any:
    """Return the samples outside a part; pixels on its border belong to the part."""
    import numpy as np

    rows, columns = picture.shape[:2]
    outside = np.ones((rows, columns), bool)
    # Rounded outwards: pixels on the border of the part may be kept.
    left, top = int(part[0] * columns), int(part[1] * rows)
    right, bottom = -int(-part[2] * columns // 1), -int(-part[3] * rows // 1)
    outside[top:bottom, left:right] = False
    return picture[outside]
