"""Classification by SPU in its own process, under the two-party protocol Cheetah; see `near.process`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from medsanitize.federation.ask.head import SecretHead
from medsanitize.federation.ask.programs import class_program
from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.near.process import Spu

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Of 64 bits, 24 are the fraction: logits are then exact to about 0.0001, and products have room for 2 ** 15.
_FRACTION: Final = 24
# Logits nearer than this count as equal; several times the error of the computation.
TIE: Final = 2.0**-10
# Measured: 5 s for one image and a minute for 100, both parties on two busy cores. A hang ends here.
_MOST_SECONDS: Final = 300.0
_SECONDS_PER_IMAGE: Final = 12.0
_MOST_BYTES: Final = 1 << 29
_BYTES_PER_IMAGE: Final = 1 << 23


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """What both parties compute; equal at both.

    Attributes
    ----------
    session
        Session of 32 hexadecimal digits.
    images, features, width, classes
        Numbers of images, of features of an image, of dimensions of an embedding, and of classes.
    confidence
        Least share of the best class of the probability of the two best.
    """

    session: str
    images: int
    features: int
    width: int
    classes: int
    confidence: float

    @property
    def margin(self) -> float:
        """Difference of the logits of the two best classes from which on the best one is told."""
        return max(TIE, math.log(self.confidence / (1 - self.confidence)))

    @property
    def seconds(self) -> float:
        """Time after which a process is killed."""
        return _MOST_SECONDS + _SECONDS_PER_IMAGE * self.images

    @property
    def most_bytes(self) -> int:
        """Most bytes of the library that a party accepts."""
        return _MOST_BYTES + _BYTES_PER_IMAGE * self.images

    def facts(self) -> dict[str, Any]:
        """Return program, inputs and their owners for the process."""
        return {
            "session": self.session,
            "fraction": _FRACTION,
            "program": class_program(self.images, self.features, self.width, self.classes, self.margin),
            "inputs": [
                ("features", (self.images, self.features), 0),
                ("map", (self.features, self.width), 1),
                ("scores", (self.features, self.classes), 1),
                ("shift", (self.width,), 1),
                ("offset", (self.classes,), 1),
                ("bias", (self.classes,), 1),
            ],
        }


def give_features(
    plan: ClassPlan, vectors: NDArray[np.float32], spu: Spu, sockets: tuple[Path, Path]
) -> list[bytes]:
    """Classify own features with the partner's classifier, and return this party's share of the classes.

    Raises
    ------
    LibraryFailed
        The partner's process is gone, sends something else, or takes too long.
    """
    return _shares(plan, [vectors.astype("<f4").tobytes()], 0, spu, sockets)


def give_head(plan: ClassPlan, head: SecretHead, spu: Spu, sockets: tuple[Path, Path]) -> list[bytes]:
    """Classify the partner's features with an own classifier; see `give_features`."""
    parts = (head.map, head.scores, head.shift, head.offset, head.bias)
    return _shares(plan, [one.astype("<f4").tobytes() for one in parts], 1, spu, sockets)


def open_classes(
    plan: ClassPlan, spu: Spu, own: Sequence[bytes], theirs: Sequence[bytes]
) -> tuple[int | None, ...]:
    """Combine the shares of the asking (own) and of the answering party: a class of each image, or None.

    Raises
    ------
    LibraryFailed
        The partner's share is malformed or not of this computation.
    """
    if len(theirs) != len(own):
        raise LibraryFailed
    facts = {"results": 1, "fraction": _FRACTION}
    told, _ = spu.process.call("open", facts, [*own, *theirs], seconds=_MOST_SECONDS, returned=0)
    numbers = told.get("numbers")
    if not isinstance(numbers, list) or len(numbers) != plan.images:
        raise LibraryFailed
    if any(not 0 <= one <= plan.classes for one in numbers):
        raise LibraryFailed
    return tuple(None if one == plan.classes else int(one) for one in numbers)


def _shares(
    plan: ClassPlan, parts: list[bytes], rank: Literal[0, 1], spu: Spu, sockets: tuple[Path, Path]
) -> list[bytes]:
    facts = {**plan.facts(), "rank": rank, "own": str(sockets[0]), "peer": str(sockets[1])}
    _, shares = spu.process.call("classify", facts, parts, seconds=plan.seconds, returned=2)
    return shares
