"""Layers that torch does not have, or not in a form that ONNX supports."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SamePad(nn.Module):
    """TensorFlow's SAME padding, for input sizes that are a multiple of the stride."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        total = kernel - stride
        self.padding = (total // 2, total - total // 2, total // 2, total - total // 2)

    def forward(self, maps: Tensor) -> Tensor:
        """Pad with zeros, one more to the right and below if the number is odd."""
        return F.pad(maps, self.padding)


# ONNX has no operator for adaptive pooling with bins of different width.
class GridPool(nn.Module):
    """Adaptive average or max pooling to a square grid, for feature maps of a fixed size.

    The bins are those of torch's adaptive pooling: cell ``i`` of ``n`` covers the rows from
    ``floor(i side / n)`` to ``ceil((i + 1) side / n)``. The mean is taken along rows, then columns.
    """

    def __init__(self, side: int, grid: int, *, largest: bool = False) -> None:
        super().__init__()
        self.side, self.grid, self.largest = side, grid, largest

    def bins(self) -> list[tuple[int, int]]:
        """Return the first row of each cell, and one past its last."""
        return [
            (cell * self.side // self.grid, -(-(cell + 1) * self.side // self.grid))
            for cell in range(self.grid)
        ]

    def forward(self, maps: Tensor) -> Tensor:
        """Map ``(n, c, side, side)`` to ``(n, c, grid, grid)``."""
        for axis in (2, 3):
            parts = [maps.narrow(axis, start, end - start) for start, end in self.bins()]
            cells = [
                part.amax(axis, keepdim=True) if self.largest else part.mean(axis, keepdim=True)
                for part in parts
            ]
            maps = torch.cat(cells, axis)
        return maps
