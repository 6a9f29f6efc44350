"""Whole-slide images: what a vendor's readers need is copied, everything else is left behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import cast

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, OutFile, SlideFacts
from medsanitize.sanitize.formats.pieces import Copy, Piece
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView, SourceFile

__all__ = [
    "Copy",
    "EditPlan",
    "OutFile",
    "Piece",
    "SlideFacts",
    "SlideName",
    "SlideView",
    "SourceFile",
    "plan_edits",
    "vendor_of",
]


def vendor_of(view: SlideView) -> str:
    """Name of the vendor's format, or nothing: then it is no slide that is known here.

    Raises
    ------
    Refused
        The structure contradicts itself.
    """
    module = _module_of(view)
    return cast(str, module.NAME) if module else ""


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
    module = _module_of(view)
    if module is None:
        raise Quarantined("slide-not-supported", "structure")
    plan = cast(Callable[[SlideView, WholeSlides, SlideName], EditPlan], module.plan_edits)
    return plan(view, rules, name)


def _module_of(view: SlideView) -> ModuleType | None:
    return next((module for module in _vendors() if module.recognises(view)), None)


@cache
def _vendors() -> tuple[ModuleType, ...]:
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

    tiff = (aperio, aperio_afi, hamamatsu, leica, philips, ventana, trestle, akoya, ome)
    return (*tiff, zeiss, hamamatsu_vms, mirax, generic)
