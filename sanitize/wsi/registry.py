"""Detection of the slide format and dispatch to its module in ``vendors``."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView


class SlideFormat(Protocol):
    """Protocol of the modules in ``vendors``: one slide format each."""

    @property
    def NAME(self) -> str:
        """Name of the format in the manifest."""

    def recognizes(self, view: SlideView, /) -> bool:
        """Return whether the slide has this format; must be cheap, as every format is tried in turn."""

    def plan_edits(self, view: SlideView, rules: WholeSlides, name: SlideName, /) -> EditPlan:
        """Plan the released files of the slide; see the function `plan_edits`."""


def vendor_of(view: SlideView) -> str:
    """Return the name of the slide's format, empty if no supported format recognizes it.

    Raises
    ------
    Quarantined
        The file structure is inconsistent.
    """
    slide_format = _format_of(view)
    return slide_format.NAME if slide_format else ""


def plan_edits(view: SlideView, rules: WholeSlides, name: SlideName) -> EditPlan:
    """Plan the released files of a slide: which bytes are copied and which are written new.

    Parameters
    ----------
    view : SlideView
        All files of the slide, the main file first.
    rules : WholeSlides
        The policy's section ``wsi``.
    name : SlideName
        Name of the slide in the release.

    Returns
    -------
    EditPlan
        Released files, technical facts for the manifest and counts of the rules that applied.

    Raises
    ------
    Quarantined
        ``slide-not-supported`` if no format recognizes the slide; otherwise as documented in the
        module of the format.
    """
    slide_format = _format_of(view)
    if slide_format is None:
        raise Quarantined("slide-not-supported", "structure")
    return slide_format.plan_edits(view, rules, name)


def _format_of(view: SlideView) -> SlideFormat | None:
    return next((one for one in _formats() if one.recognizes(view)), None)


@cache
def _formats() -> tuple[SlideFormat, ...]:

    from medsanitize.sanitize.wsi.vendors import (
        akoya,
        aperio,
        aperio_afi,
        generic,
        hamamatsu,
        hamamatsu_vms,
        leica,
        mirax,
        ome,
        philips,
        trestle,
        ventana,
        zeiss,
    )

    tiff: tuple[SlideFormat, ...]
    tiff = (aperio, aperio_afi, hamamatsu, leica, philips, ventana, trestle, akoya, ome)
    # The generic pyramid is last: it accepts any tiled TIFF, so also those of the vendors.
    return (*tiff, zeiss, hamamatsu_vms, mirax, generic)
