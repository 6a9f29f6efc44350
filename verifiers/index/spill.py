"""Vectors that come a few at a time, kept on disk: those of a hundred thousand images fit into no memory."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING

from medsanitize.release.store import storage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Spill:
    """Takes vectors of one length, then gives them as one array.

    They lie in a file without a name: it is gone with the process, however that ends, because embeddings can
    be turned back into images.

    Parameters
    ----------
    folder : Path, optional
        Where the file may lie, by default where temporary files do.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._shape = (0, 0)

    def append(self, vector: NDArray[np.float32]) -> None:
        """Take the next vector.

        Raises
        ------
        EnvironmentFailure
            When the disk is full or fails.
        """
        import numpy as np

        with storage():
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  it lives as long as this
                weakref.finalize(self, self._file.close)
                self._shape = (0, len(vector))
            self._file.write(np.ascontiguousarray(vector, "<f4").tobytes())
        count, dimension = self._shape
        if len(vector) != dimension:
            raise ValueError("vectors of one model are of one length")
        self._shape = (count + 1, dimension)

    def array(self) -> NDArray[np.float32]:
        """Everything taken, ``(n, dimension)``, read from disk as it is needed.

        Raises
        ------
        EnvironmentFailure
            When the disk is full or fails.
        """
        import numpy as np

        if self._file is None:
            return np.empty((0, 0), np.float32)
        with storage():
            self._file.flush()
            return np.memmap(self._file, "<f4", mode="r", shape=self._shape)
