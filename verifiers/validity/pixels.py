"""Pixels of an object and of its source, as pydicom and GDCM read them."""

from __future__ import annotations

from pathlib import Path

from medsanitize.verifiers.validity.gdcm_reader import gdcm_digest


def pixels_differ(source: Path, released: Path) -> bool | None:
    """Return whether a reader that decodes the source reads other pixels in the released object, or none.

    Parameters
    ----------
    source, released : Path
        Files of an object whose pixels were not to be changed.

    Returns
    -------
    bool or None
        None if no reader decodes the source.
    """
    from medsanitize.verifiers.leaks.pixel_digest import pixel_digest

    judged = False
    for reader in (pixel_digest, gdcm_digest):
        before = reader(source)
        if before is not None:
            judged = True
            if reader(released) != before:
                return True
    return False if judged else None
