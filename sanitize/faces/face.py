"""What is known of a face before an object is sanitised: a verdict and, to remove it, a cut.

Both are small and plain, so that they travel to the workers and into the sealed state as they are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

VOLUMES = frozenset(
    "1.2.840.10008.5.1.4.1.1." + suffix
    for suffix in "2 2.1 2.2 4 4.1 4.3 4.4 128 128.1 130 13.1.1 13.1.2".split()
)
"""SOP classes whose frames are slices: CT, MR, PET, their enhanced and converted forms, cone-beam CT."""

Verdict = Literal["none", "possible", "uncut", "projection"]
"""``none``: no face can be rendered; ``possible``: it may; ``uncut``: it may, and no cut is proved to remove
it; ``projection``: the image lies in no plane, so that nothing can be rendered from it."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a face is cut off: a plane facing forward for every block of a coarse grid.

    In the patient coordinate system (LPS, mm; PS3.3 C.7.6.2.1.1) block (i, j) covers ``block`` mm of x from
    ``left + j * block`` and of z downwards from ``top - i * block``. Everything in it with a y less than
    ``depths[i][j]`` goes, outside air included; None leaves the block as it is.
    """

    left: float
    top: float
    block: float
    depths: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Face:
    """What an object is told of its series: the verdict, and the cuts of its frame of reference."""

    verdict: Verdict
    cuts: tuple[Cut, ...] = ()


def cut_to_json(cut: Cut) -> str:
    """The cut as the sealed state keeps it."""
    return json.dumps([cut.left, cut.top, cut.block, cut.depths])


def cut_from_json(text: str) -> Cut:
    """Rebuild what ``cut_to_json`` kept."""
    left, top, block, depths = json.loads(text)
    return Cut(left, top, block, tuple(map(tuple, depths)))
