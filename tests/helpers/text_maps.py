"""Text maps for tests in which nothing may be found."""

from __future__ import annotations

import numpy as np
from medsanitize.sanitize.burned_in.text_map import CELL, Chances
from numpy.typing import NDArray


def no_text(values: NDArray[np.float32]) -> Chances:
    """A text map without text."""
    return np.zeros((-(-values.shape[0] // CELL), -(-values.shape[1] // CELL)), np.float32)
