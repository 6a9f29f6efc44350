"""Vectors that come a few at a time, kept on disk: those of a hundred thousand images fit into no memory."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from medsanitize.release.atomic_io import storage_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_IN_MEMORY: Final = 8 << 20


class VectorSpool:
    """Takes vectors of one length, then gives them as one array.

    Few of them stay in memory, as a release of two hundred images is no reason for a file. Many lie in a file
    without a name: it is gone with the process, however that ends, because embeddings can be turned back into
    images.

    Parameters
    ----------
    folder : Path, optional
        Where the file may lie, by default where temporary files do.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._blocks: list[bytes] = []
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

        count, dimension = self._shape
        if count and len(vector) != dimension:
            raise ValueError("vectors of one model are of one length")
        self._shape = (count + 1, len(vector))
        self._blocks.append(np.ascontiguousarray(vector, "<f4").tobytes())
        if len(self._blocks) * len(self._blocks[-1]) > _IN_MEMORY:
            self._write()

    def array(self) -> NDArray[np.float32]:
        """Everything taken, ``(n, dimension)``, read from disk as it is needed.

        Raises
        ------
        EnvironmentFailure
            When the disk is full or fails.
        """
        import numpy as np

        if self._file is None:
            return np.frombuffer(b"".join(self._blocks), "<f4").reshape(self._shape)
        self._write()
        with storage_errors():
            self._file.flush()
            return np.memmap(self._file, "<f4", mode="r", shape=self._shape)

    def _write(self) -> None:
        with storage_errors():
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  it lives as long as this
                weakref.finalize(self, self._file.close)
            self._file.writelines(self._blocks)
        self._blocks.clear()
