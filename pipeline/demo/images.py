"""Images of the demo export: rings on a dark ground, a chest phantom, and burned-in text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset

# A font of 3 x 5 dots, row by row, for burned-in text.
GLYPHS: Final = {
    "A": "010101111101101",
    "D": "110101101101110",
    "E": "111100110100111",
    "F": "111100110100100",
    "I": "111010010010111",
    "K": "101101110101101",
    "L": "100100100100111",
    "M": "101111111101101",
    "N": "111101101101101",
    "O": "111101101101111",
    "R": "110101110101101",
    "S": "111100111001111",
    "T": "111010010010010",
    "U": "101101101101111",
    "0": "111101101101111",
    "1": "010110010010111",
    "2": "110001010100111",
    "3": "111001011001111",
    "4": "101101111001001",
    "5": "111100111001111",
    "6": "111100111101111",
    "7": "111001010010010",
    "8": "111101111101111",
    "9": "111101111001111",
    "-": "000000111000000",
    " ": "000000000000000",
}


def scan(rows: int, columns: int) -> NDArray[Any]:
    """Return rings on a dark ground, 8 bits."""
    import numpy as np

    y, x = np.mgrid[0:rows, 0:columns]
    distance = np.hypot(y - rows / 2, x - columns / 2)
    rings: NDArray[Any] = ((np.cos(distance / 5) + 1) * 60 * (distance < rows / 2.2)).astype(np.uint8)
    return rings


# Number of the phantom in the export.
CHEST: Final = 5


def chest(patient: int, visit: int) -> NDArray[Any]:
    """Return a chest-like radiograph of a phantom, 8 bits."""
    import numpy as np
    from medsanitize.generators.phantoms.chest import chest_phantom

    shown: NDArray[Any] = np.rint(chest_phantom(patient, visit, size=CHEST_SIZE) * 255).astype(np.uint8)
    return shown


# Rows and columns of a chest image.
CHEST_SIZE: Final = 192


def frames(count: int, rows: int, columns: int) -> NDArray[Any]:
    """Return a loop in which the rings move."""
    import numpy as np

    return np.stack([np.roll(scan(rows, columns), 3 * frame, axis=1) for frame in range(count)])


def draw(pixels: NDArray[Any], text: str, top: int, left: int, size: int = 3) -> None:
    """Burn ``text`` into ``pixels`` in white, each dot ``size`` pixels wide."""
    for position, letter in enumerate(text):
        for dot, lit in enumerate(GLYPHS[letter]):
            if lit == "1":
                y, x = top + dot // 3 * size, left + (position * 4 + dot % 3) * size
                pixels[y : y + size, x : x + size] = 255


def set_pixels(data_set: Dataset, pixels: NDArray[Any]) -> None:
    """Set ``pixels`` (rows x columns or frames x rows x columns, 8 bits) as the image of a data set."""
    data_set.SamplesPerPixel, data_set.PhotometricInterpretation = 1, "MONOCHROME2"
    data_set.Rows, data_set.Columns = pixels.shape[-2:]
    data_set.BitsAllocated = data_set.BitsStored = 8
    data_set.HighBit, data_set.PixelRepresentation = 7, 0
    data_set.PixelData = pixels.tobytes()
    data_set["PixelData"].VR = "OB"


def marked(pixels: bytes, number: int) -> bytes:
    """Change the first sample of an image, so that no two images are equal."""
    return number.to_bytes(2, "little") + pixels[2:]
