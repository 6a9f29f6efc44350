"""Calls of SPU in its own process: near comparisons under the two-party protocol Cheetah.

Both processes compute together on sockets that the parties connect; each ends with a share of the result,
which alone is a random number. Only the asking party combines them. Semi-honest security under the hardness
of learning with errors over rings, and of the codes behind the oblivious transfers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from medsanitize.errors import UsageError
from medsanitize.federation.libraries.process import LibraryFailed, LibraryProcess, open_library
from medsanitize.federation.near.programs import any_program, block_program, count_program, each_program

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LIBRARY: Final = "spu"
Outcome = Literal["bit", "count", "patients", "each"]
_STEPS: Final = Path(__file__).with_name("steps.py")
# Blocks bound the memory of both processes: 1.6 GB for these.
_ROWS, _COLUMNS, _WIDTH = 256, 512, 288
# Measured: 0.1 ms for a pair of 256 numbers on two busy cores. A hang ends here, honest work does not.
_SECONDS_PER_PRODUCT: Final = 4e-6
_SECONDS_PER_PAIR: Final = 1e-3
_MOST_SECONDS: Final = 300
_BYTES_PER_PAIR: Final = 4096
_MOST_BYTES: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class NearPlan:
    """What both parties compute; equal at both.

    Attributes
    ----------
    session
        Session of 32 hexadecimal digits.
    sizes
        Number of embeddings of the asking and of the answering party.
    dimension
        Length of an embedding.
    limit
        Largest squared distance of a match, in the unit of the rounded embeddings.
    outcome
        What is opened to the asking party.
    """

    session: str
    sizes: tuple[int, int]
    dimension: int
    limit: int
    outcome: Outcome

    @property
    def seconds(self) -> float:
        """Time after which a process is killed."""
        pairs = self.sizes[0] * self.sizes[1]
        return _MOST_SECONDS + pairs * (_SECONDS_PER_PAIR + self.dimension * _SECONDS_PER_PRODUCT)

    @property
    def most_bytes(self) -> int:
        """Most bytes of the library that a party accepts; a tenth is usual."""
        pairs = self.sizes[0] * self.sizes[1]
        return _MOST_BYTES + pairs * (1 + self.dimension // _WIDTH) * _BYTES_PER_PAIR

    @property
    def results(self) -> int:
        """Number of shares of the result."""
        own = len(self._blocks()[0 if self._left == 0 else 1])
        return {"bit": 1, "count": 1, "patients": 1 + own, "each": own}[self.outcome]

    def facts(self) -> dict[str, Any]:
        """Return the programs and their sizes for the process."""
        rows, columns = self._blocks()
        widths = _parts(self.dimension + 2, _WIDTH)
        asking: Literal["r", "c"] = "r" if self._left == 0 else "c"
        if self.outcome == "bit":
            outcome = any_program(rows)
        elif self.outcome == "each":
            outcome = each_program(rows, columns, each=asking)
        else:
            outcome = count_program(rows, columns, each=asking if self.outcome == "patients" else "")
        return {
            "session": self.session,
            "left": self._left,
            "rows": rows,
            "columns": columns,
            "widths": widths,
            "programs": {
                f"{height}x{length}": block_program(height, length, widths, self.limit)
                for height in set(rows)
                for length in set(columns)
            },
            "outcome": outcome,
            "counts_columns": self.outcome != "bit",
            "results": self.results,
        }

    @property
    def _left(self) -> int:
        # The library is slow if the left matrix has more rows than the right one has columns.
        return 0 if self.sizes[0] <= self.sizes[1] else 1

    def _blocks(self) -> tuple[list[int], list[int]]:
        return _parts(self.sizes[self._left], _ROWS), _parts(self.sizes[1 - self._left], _COLUMNS)


@dataclass(frozen=True, slots=True, repr=False)
class Opened:
    """What the asking party learned.

    Attributes
    ----------
    number
        1 or 0 for ``bit``; otherwise how many patients match, of the party with fewer that do; with ``each``
        how many own images do.
    patients
        Whether each own patient (or image, with ``each``) matches; empty unless both parties agreed to it.
    """

    number: int
    patients: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Spu:
    """An open process of the library."""

    process: LibraryProcess

    def compare(
        self, plan: NearPlan, vectors: NDArray[np.int16], *, rank: Literal[0, 1], sockets: tuple[Path, Path]
    ) -> list[bytes]:
        """Compare own embeddings with those of the partner, and return this party's shares.

        Parameters
        ----------
        plan : NearPlan
            What is computed.
        vectors : array of int16, shape (sizes[rank], dimension)
            Own rounded embeddings.
        rank : int
            0 for the asking, 1 for the answering party.
        sockets : (Path, Path)
            Where this process listens, and where it reaches the partner's.

        Raises
        ------
        LibraryFailed
            The partner's process is gone, sends something else, or takes too long.
        """
        facts = {
            **plan.facts(),
            "rank": rank,
            "count": len(vectors),
            "own": str(sockets[0]),
            "peer": str(sockets[1]),
        }
        content = vectors.astype("<i2").tobytes()
        _, shares = self.process.call(
            "compare", facts, [content], seconds=plan.seconds, returned=2 * plan.results
        )
        return shares

    def open(self, plan: NearPlan, own: Sequence[bytes], theirs: Sequence[bytes]) -> Opened:
        """Combine the shares of the asking (own) and of the answering party.

        Raises
        ------
        LibraryFailed
            The partner's shares are malformed or not of this comparison.
        """
        if len(theirs) != len(own):
            raise LibraryFailed
        told, _ = self.process.call(
            "open", {"results": plan.results}, [*own, *theirs], seconds=_MOST_SECONDS, returned=0
        )
        numbers = told.get("numbers")
        bits = plan.sizes[0] if plan.outcome in ("patients", "each") else 0
        most = {"bit": 1, "each": plan.sizes[0]}.get(plan.outcome, min(plan.sizes))
        if not isinstance(numbers, list) or len(numbers) != bits + (plan.outcome != "each"):
            raise LibraryFailed
        number, *each = [sum(numbers), *numbers] if plan.outcome == "each" else numbers
        if not 0 <= number <= most or any(one not in (0, 1) for one in each):
            raise LibraryFailed
        return Opened(number, tuple(map(bool, each)))


@contextmanager
def open_spu(library: Path) -> Iterator[Spu]:
    """Start the process of the library, and end it.

    Parameters
    ----------
    library : Path
        The folder that ``party install --near`` has filled.

    Raises
    ------
    UsageError
        The library is not installed there, or does not fit this Python or processor.
    """
    with open_library(library, LIBRARY, _STEPS, missing=_missing()) as process:
        yield Spu(process)


def require_spu(library: Path) -> None:
    """Raise the error of `open_spu` where nothing is installed."""
    if not (library / LIBRARY).is_dir():
        raise _missing()


def _missing() -> UsageError:
    return UsageError(
        "The library for near comparisons is not installed in the party's folder, or not for this machine",
        "Install it with Python 3.11 on Linux (x86-64) or macOS 14 (arm64):"
        " medsanitize party install FOLDER --near",
    )


def _parts(count: int, most: int) -> list[int]:
    """Divide a count into equal parts of at most ``most``; the first are larger by one."""
    parts = math.ceil(count / most)
    size, larger = divmod(count, parts)
    return [size + (part < larger) for part in range(parts)]
