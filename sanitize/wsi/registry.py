"""Whole-slide images: what a vendor's readers need is copied, everything else is left behind."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView


class SlideFormat(Protocol):
    """What a module of ``vendors`` provides: one format of slides."""

    @property
    def NAME(self) -> str:
        """The vendor, as the manifest names the format."""

    def recognises(self, view: SlideView, /) -> bool:
        """Whether the slide is of this format; cheap, and asked of every format in turn."""

    def plan_edits(self, view: SlideView, rules: WholeSlides, name: SlideName, /) -> EditPlan:
        """What of the slide is copied and what is written anew."""


def vendor_of(view: SlideView) -> str:
    """Name of the vendor's format, or nothing: then it is no slide that is known here.

    Raises
    ------
    Refused
        The structure contradicts itself.
    """
    slide_format = _format_of(view)
    return slide_format.NAME if slide_format else ""


def plan_edits(view: SlideView, rules: WholeSlides, name: SlideName) -> EditPlan:
    """What of a slide is copied and what is written anew.

    Parameters
    ----------
    view : SlideView
        All files of the slide, the main one first.
    rules : WholeSlides
        The policy's section ``wsi``.
    name : SlideName
        What the release calls the slide.

    Raises
    ------
    Refused
        ``slide-not-supported``: no vendor's format is recognised; or what the vendor's module names.
    """
    slide_format = _format_of(view)
    if slide_format is None:
        raise Quarantined("slide-not-supported", "structure")
    return slide_format.plan_edits(view, rules, name)


def _format_of(view: SlideView) -> SlideFormat | None:
    return next((one for one in _formats() if one.recognises(view)), None)


@cache
def _formats() -> tuple[SlideFormat, ...]:
    """In the order in which they are asked: last the generic pyramid, which most of their TIFFs are too."""
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
    return (*tiff, zeiss, hamamatsu_vms, mirax, generic)
