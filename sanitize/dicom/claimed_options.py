"""Options of PS3.15 E.3 that an object may state in De-identification Method Code Sequence (0012,0064)."""

from __future__ import annotations

from collections.abc import Callable

from medsanitize.policies.model import Options
from medsanitize.policies.tables.standard import ConfidentialityRow, attribute_types, confidentiality_rows
from medsanitize.sanitize.dicom.wsi import WHOLE_SLIDE

Override = Callable[[int], str | None]
"""Tag -> the action that the policy sets for it."""

DATE_OPTIONS = ("retain_longitudinal_full_dates", "retain_longitudinal_modified_dates")
# Stated only once the object's own pixels were read or changed.
_OF_PIXELS = frozenset(["clean_pixel_data", "clean_recognizable_visual_features"])
_NOT_RETAINED = frozenset("XZDU")


def claimed_options(options: Options, override: Override, sop_class: str) -> frozenset[str]:
    """Return the enabled options that hold for every attribute of an IOD, without those of the pixels.

    An option is not stated if the policy overrides it for an attribute that the IOD contains: a text kept as
    it is was not cleaned, and a removed attribute was not retained. Slides lose their dates in any case.

    Parameters
    ----------
    options : Options
    override : callable
    sop_class : str
        Unknown classes may contain every attribute.
    """
    enabled = {name for name, on in options if on} - _OF_PIXELS
    if sop_class == WHOLE_SLIDE:
        enabled -= set(DATE_OPTIONS)
    types = attribute_types(sop_class)
    contained = None if types is None else {path[-1] for path in types}
    for row in confidentiality_rows():
        tag = None if row.mask == "private" else int(row.mask.replace("x", "0"), 16)
        if tag is None or (contained is not None and tag not in contained):
            continue
        action = override(tag)
        if action is not None:
            enabled -= {name for name in enabled if _contradicts(row, name, action)}
    return frozenset(enabled)


def weakened_rows(options: Options, override: Override) -> int:
    """Return how many rows the policy keeps or cleans although neither profile nor options do."""
    enabled = {name for name, on in options if on}
    count = 0
    for row in confidentiality_rows():
        if row.mask != "private" and not enabled & row.options.keys():
            count += override(int(row.mask.replace("x", "0"), 16)) in ("K", "C")
    return count


def _contradicts(row: ConfidentialityRow, option: str, action: str) -> bool:
    stated = row.options.get(option)
    if option.startswith("clean"):
        # A kept sequence is cleaned item by item.
        return stated == "C" and action == "K" and row.vr != "SQ"
    # What an option cleans may be cleaned to nothing; what it keeps must be there.
    return stated == "K" and (action in _NOT_RETAINED or (option == DATE_OPTIONS[0] and action == "C"))
