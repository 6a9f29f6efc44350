"""Geometry of slices, and whether it allows rendering a face.

A rendering needs close slices that cover the breadth and height of a face. Fewer slices, such as the three
images of a localizer, show outlines at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, sqrt

Vector = tuple[float, float, float]

LEAST_SLICES = 6
# mm between adjacent slices; with a wider gap a nose cannot be rendered.
_WIDEST_GAP = 12.0
# mm from left to right, from head to feet and from front to back.
_LEAST_BREADTH, _LEAST_HEIGHT, _LEAST_DEPTH = 50.0, 50.0, 20.0
# mm within which two slices have the same position: another echo, phase or time.
_SAME_PLACE = 0.05


@dataclass(frozen=True, slots=True)
class Plane:
    """Position of one slice in the patient coordinate system (LPS, mm; PS3.3 C.7.6.2.1.1).

    Attributes
    ----------
    position : tuple of float
        Center of the first pixel.
    across, down : tuple of float
        Unit vectors along a row and along a column.
    pitch : tuple of float
        Distances between the centers of columns and of rows; in Pixel Spacing the order is reversed.
    rows, columns : int
    """

    position: Vector
    across: Vector
    down: Vector
    pitch: tuple[float, float]
    rows: int
    columns: int

    @property
    def normal(self) -> Vector:
        """Unit vector perpendicular to the slice."""
        a, b = self.across, self.down
        return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])

    @property
    def height(self) -> float:
        """Position of the slice along its normal, in mm."""
        return dot(self.position, self.normal)

    def corners(self) -> tuple[Vector, ...]:
        """Return the centers of the four corner pixels."""
        ends = (0.0, self.pitch[0] * (self.columns - 1)), (0.0, self.pitch[1] * (self.rows - 1))
        return tuple(self._at(i, j) for i in ends[0] for j in ends[1])

    def _at(self, i: float, j: float) -> Vector:
        p, a, d = self.position, self.across, self.down
        return (p[0] + i * a[0] + j * d[0], p[1] + i * a[1] + j * d[1], p[2] + i * a[2] + j * d[2])


def dot(a: Vector, b: Vector) -> float:
    """Return the scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def read_plane(
    position: Sequence[float],
    orientation: Sequence[float],
    spacing: Sequence[float],
    rows: int,
    columns: int,
) -> Plane | None:
    """Create a plane from attribute values; return None when they are missing or invalid.

    Parameters
    ----------
    position, orientation, spacing : sequence of float
        Image Position (Patient), 3 values; Image Orientation (Patient), 6; Pixel Spacing, 2 (rows, columns).
    rows, columns : int
    """
    if len(position) != 3 or len(orientation) != 6 or len(spacing) != 2 or rows < 1 or columns < 1:
        return None
    numbers = (*position, *orientation, *spacing)
    if not all(isfinite(number) and abs(number) < 1e5 for number in numbers) or min(spacing) < 1e-3:
        return None
    across, down = _unit(orientation[:3]), _unit(orientation[3:])
    if across is None or down is None or abs(dot(across, down)) > 0.01:
        return None
    where = (position[0], position[1], position[2])
    return Plane(where, across, down, (spacing[1], spacing[0]), rows, columns)


def _unit(vector: Sequence[float]) -> Vector | None:
    length = sqrt(sum(part * part for part in vector))
    if not 0.5 < length < 2:
        return None
    return (vector[0] / length, vector[1] / length, vector[2] / length)


def sort_into_stacks(planes: Sequence[Plane]) -> list[list[int]]:
    """Sort slices into stacks of equal orientation and size, in ascending order of position.

    Slices at one position (echoes, phases) are put into different stacks, so that each is checked.

    Parameters
    ----------
    planes : sequence of Plane

    Returns
    -------
    list of list of int
        Indices into ``planes``, one list per stack.
    """
    kinds: dict[tuple[object, ...], list[int]] = {}
    for index, plane in enumerate(planes):
        # + 0.0 turns -0.0 into 0.0; rounding tolerates the noise of written direction cosines.
        facing = tuple(round(part, 2) + 0.0 for part in (*plane.across, *plane.down))
        kinds.setdefault((facing, plane.rows, plane.columns, plane.pitch), []).append(index)
    found: list[list[int]] = []
    for indexes in kinds.values():
        layers: list[list[int]] = []
        place, before = 0, float("-inf")
        for index in sorted(indexes, key=lambda i: (planes[i].height, i)):
            height = planes[index].height
            place = place + 1 if height - before <= _SAME_PLACE else 0
            before = height
            if place == len(layers):
                layers.append([])
            layers[place].append(index)
        found += layers
    return found


def could_show_face(planes: Sequence[Plane]) -> bool:
    """Return whether a stack is close and large enough to render a face, wherever in the body it is.

    Parameters
    ----------
    planes : sequence of Plane
        In ascending order of position.
    """
    if len(planes) < LEAST_SLICES:
        return False
    close = longest = 1
    for one, other in pairwise(planes):
        close = close + 1 if other.height - one.height <= _WIDEST_GAP else 1
        longest = max(longest, close)
    if longest < LEAST_SLICES:
        return False
    points = [corner for plane in (planes[0], planes[-1]) for corner in plane.corners()]
    breadth, depth, height = (
        max(point[axis] for point in points) - min(point[axis] for point in points) for axis in range(3)
    )
    return breadth >= _LEAST_BREADTH and height >= _LEAST_HEIGHT and depth >= _LEAST_DEPTH
