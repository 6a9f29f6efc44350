"""The frames of one image and how they are rendered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from medsanitize.sanitize.burned_in.hidden_colors import HiddenPlane, hidden_colors
from medsanitize.sanitize.burned_in.rendering import Palette, Picture, render_frame, stored_gray
from medsanitize.sanitize.burned_in.write_back import color_model
from medsanitize.sanitize.formats.dicom.decode import Samples, decode_frame
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.transfer_syntax import TransferSyntax
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ImageFrames:
    """The frames of one object and how to render them."""

    stored: StoredFrames
    syntax: TransferSyntax
    geometry: Geometry
    palette: Palette | None = None

    @property
    def darkest(self) -> int | None:
        """Index of the darkest color of the palette."""
        return self.palette.darkest() if self.palette else None

    def samples(self, frame: bytes) -> Samples:
        """Decode one stored frame."""
        return decode_frame(frame, self.syntax, self.geometry)

    def pictures(self, samples: Samples, frame: bytes) -> list[Picture]:
        """Render samples that were decoded from ``frame`` or replace it."""
        return render_frame(samples, *self._shown_as(frame))

    def gray(self, samples: Samples, frame: bytes) -> NDArray[np.float32]:
        """Return the stored gray values of samples that were decoded from ``frame`` or replace it."""
        return stored_gray(samples, *self._shown_as(frame))

    def hidden_colors(self, samples: Samples, frame: bytes) -> list[HiddenPlane]:
        """Return planes that show what the gray values hide, of samples as for `gray`."""
        return hidden_colors(samples, *self._shown_as(frame))

    def _shown_as(self, frame: bytes) -> tuple[Geometry, str, Palette | None]:
        return self.geometry, color_model(frame, self.syntax, self.geometry), self.palette
