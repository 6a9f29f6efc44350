"""One series judged: every stack of its slices looked at, and a cut made and proved where a face may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
from medsanitize.sanitize.context import FaceCut, SeriesFace
from medsanitize.sanitize.faces.deface import plan_cut, removes_face
from medsanitize.sanitize.faces.detect import detect_face, segment_tissue
from medsanitize.sanitize.faces.slice_geometry import LEAST_SLICES, Plane, could_show_face, sort_into_stacks
from medsanitize.sanitize.faces.volume import VolumeTooLarge, coarse_volume

_MOST_CUTS = 8


def assess_series(
    planes: Sequence[Plane | None],
    image: Callable[[int], npt.NDArray[Any]],
    modality: str,
    *,
    elsewhere: bool,
    cutting: bool,
) -> SeriesFace:
    """Say whether a face could be rendered from a series, and where to cut it off.

    Parameters
    ----------
    planes : sequence of Plane or None
        Of every frame of the series; None where none is stated.
    image : callable
        Gives the values of the frame of an index: HU in CT, any scale otherwise.
    modality : str
        ``CT`` where values are HU, ``PT``, or ``MR`` for any other scale.
    elsewhere : bool
        The series' own words name another part of the body: they decide where the pixels do not.
    cutting : bool
        Whether cuts are wanted.
    """
    lost = sum(plane is None for plane in planes)
    verdict, cuts = "none", list[FaceCut]()
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
        if any(removes_face(volume, tissue, seen.head, cut) for cut in cuts):
            continue
        cut = plan_cut(volume, tissue, seen.head)
        if cut is None or len(cuts) == _MOST_CUTS or not removes_face(volume, tissue, seen.head, cut):
            return SeriesFace("uncut")
        cuts.append(cut)
    return SeriesFace("possible", tuple(cuts)) if verdict == "possible" else SeriesFace("none")
