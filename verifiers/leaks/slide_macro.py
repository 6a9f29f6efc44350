"""The picture of the whole glass in a released slide: the very one that is stated, black but for its part."""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Final

Part = tuple[float, float, float, float]
"""Left, top, right and bottom, as shares of a picture's width and height."""

_CLOSE: Final = 2
"""How far two decoders of one JPEG may differ, of 255."""


def is_stated(main: Path, shown: Any, digest: str, part: Part | None) -> bool:
    """Whether a viewer's macro is the one strip of the file that has its digest.

    Parameters
    ----------
    main : Path
        The TIFF.
    shown : PIL.Image.Image
        What OpenSlide shows.
    digest : str
        SHA-256 in hex of the encoded picture that may be there.
    part : Part, optional
        Where the policy keeps the picture: all around it must be black.
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
    if seen.shape != stored.shape or int(np.abs(seen.astype(np.int16) - stored).max()) > _CLOSE:
        return False
    return part is None or not (_around(stored, part).any() or _around(seen, part).any())


def _strips(main: Path) -> list[bytes]:
    """The encoded pictures of pages in one piece."""
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
    """The samples of a picture outside a part of it, but for pixels on its border."""
    import numpy as np

    rows, columns = picture.shape[:2]
    outside = np.ones((rows, columns), bool)
    left, top = int(part[0] * columns), int(part[1] * rows)
    right, bottom = -int(-part[2] * columns // 1), -int(-part[3] * rows // 1)
    outside[top:bottom, left:right] = False
    return picture[outside]
