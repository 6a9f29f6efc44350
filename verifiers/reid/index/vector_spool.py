"""Spool for vectors that are computed in small batches and do not fit in memory together."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from medsanitize.release.atomic_io import storage_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Below 8 MiB no file is created: most releases are small.
_IN_MEMORY: Final = 8 << 20


class VectorSpool:
    """Collects vectors of one length and returns them as one array.

    Few vectors stay in memory. Many are stored in an unnamed file, which disappears with the process however
    it ends, because embeddings can be inverted.

    Parameters
    ----------
    folder : Path, optional
        Folder of the file; the folder for temporary files by default.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._blocks: list[bytes] = []
        self._file: IO[bytes] | None = None
        self._shape = (0, 0)

    def append(self, vector: NDArray[np.float32]) -> None:
        """Append a vector.

        Raises
        ------
        EnvironmentFailure
            If the disk is full or fails.
        """
        import numpy as np

        count, dimension = self._shape
        if count and len(vector) != dimension:
            raise ValueError("vectors differ in length")
        self._shape = (count + 1, len(vector))
        self._blocks.append(np.ascontiguousarray(vector, "<f4").tobytes())
        if len(self._blocks) * len(self._blocks[-1]) > _IN_MEMORY:
            self._write()

    def array(self) -> NDArray[np.float32]:
        """Return all vectors, shape (n, dimension); memory-mapped if they are in the file.

        Raises
        ------
        EnvironmentFailure
            If the disk is full or fails.
        """
        import numpy as np

        if self._file is None:
            return np.frombuffer(b"".join(self._blocks), "<f4").reshape(self._shape)
        self._write()
        with storage_errors():
            # The memory map does not show what is still buffered.
            self._file.flush()
            return np.memmap(self._file, "<f4", mode="r", shape=self._shape)

    def _write(self) -> None:
        with storage_errors():
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  it lives as long as this
                weakref.finalize(self, self._file.close)
            self._file.writelines(self._blocks)
        self._blocks.clear()
