"""Face check of one series: every stack of slices is checked, and cuts are planned and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
from medsanitize.sanitize.context import FaceCut, SeriesFace
from medsanitize.sanitize.faces.deface import plan_cut, removes_face
from medsanitize.sanitize.faces.detect import detect_face, segment_tissue
from medsanitize.sanitize.faces.slice_geometry import LEAST_SLICES, Plane, could_show_face, sort_into_stacks
from medsanitize.sanitize.faces.volume import VolumeTooLarge, coarse_volume

# A series that needs more cuts is reported as uncut: fail closed.
_MOST_CUTS = 8


def assess_series(
    planes: Sequence[Plane | None],
    image: Callable[[int], npt.NDArray[Any]],
    modality: str,
    *,
    elsewhere: bool,
    cutting: bool,
) -> SeriesFace:
    """Determine whether a face can be rendered from a series, and how to remove it.

    Parameters
    ----------
    planes : sequence of Plane or None
        Plane of every frame of the series; None where none is stated.
    image : callable
        Returns the values of the frame with an index, shape (rows, columns): HU in CT, any scale otherwise.
    modality : str
        ``CT`` where values are HU, ``PT``, or ``MR`` for any other scale.
    elsewhere : bool
        Whether the header names another body part; decides where the pixels are inconclusive.
    cutting : bool
        Whether to plan cuts.

    Returns
    -------
    SeriesFace
        ``uncut`` if a face may be rendered and no cut was verified.
    """
    lost = sum(plane is None for plane in planes)
    verdict, cuts = "none", list[FaceCut]()
    # Frames without a position may be a volume that cannot be checked.
    if lost >= LEAST_SLICES and not elsewhere:
        return SeriesFace("uncut")
    placed = [(index, plane) for index, plane in enumerate(planes) if plane is not None]
    for stack in sort_into_stacks([plane for _, plane in placed]):
        rising = [placed[i][1] for i in stack]
        if not could_show_face(rising):
            continue
        try:
            volume = coarse_volume(rising, lambda i, stack=stack: image(placed[stack[i]][0]))  # type: ignore[misc]
        except VolumeTooLarge:
            return SeriesFace("uncut")
        seen = detect_face(volume, modality)
        if seen.finding == "none" or (seen.finding == "unsure" and elsewhere):
            continue
        verdict = "possible"
        if not cutting:
            break
        if seen.head is None:
            return SeriesFace("uncut")
        tissue = segment_tissue(volume, modality)
        # Echoes and phases of one head share a cut, if it is verified in each of them.
        if any(removes_face(volume, tissue, seen.head, cut) for cut in cuts):
            continue
        cut = plan_cut(volume, tissue, seen.head)
        if cut is None or len(cuts) == _MOST_CUTS or not removes_face(volume, tissue, seen.head, cut):
            return SeriesFace("uncut")
        cuts.append(cut)
    return SeriesFace("possible", tuple(cuts)) if verdict == "possible" else SeriesFace("none")
