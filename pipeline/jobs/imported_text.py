"""The text of an imported policy: the template of ``init`` with the imported rules and their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from medsanitize.policies.dump import quoted
from medsanitize.policies.migration.foreign_rules import DeviceRegion
from medsanitize.policies.tag_patterns import display_name

_DICOM: Final = "# Treatment of DICOM objects, where it differs from the preset.\n"
_PIXELS: Final = "# Burned-in text. With dicom.options.clean_pixel_data:"
_WIDTH: Final = 108
_MOST_SHOWN: Final = 2000
_HEADINGS: Final = (
    "Left as in the preset, because the imported file leaves more of the value:",
    "Not carried over, because a policy has no equivalent:",
    "The imported file does not name these, and so keeps them; the preset removes or replaces them:",
)


def imported_policy_text(
    template: str,
    language: str,
    attributes: Mapping[str, tuple[str, int, str]],
    options: Mapping[str, int],
    regions: Sequence[DeviceRegion],
    listed: tuple[Sequence[str], Sequence[str], Sequence[str]],
) -> str:
    """Return the policy.

    Parameters
    ----------
    template : str
        The policy of ``init``.
    language : str
        The program that the rules come from.
    attributes : mapping of str to (str, int, str)
        Mask -> action, line in the imported file, and its action there.
    options : mapping of str to int
        Options that are switched off, and the lines that say so.
    regions : sequence of DeviceRegion
        Areas that are blanked on devices.
    listed : tuple of sequence of str
        What is weaker, what was not carried over, and attributes that the file does not name.
    """
    dicom = list(_dicom_lines(attributes, options))
    if dicom:
        dicom = [f"# Imported from a {language}: what is stricter there.", *dicom, ""]
    pixels = list(_region_lines(regions))
    text = template.replace(_DICOM, "\n".join(dicom) + ("\n" if dicom else "") + _DICOM, 1)
    text = text.replace(_PIXELS, "\n".join(pixels) + ("\n" if pixels else "") + _PIXELS, 1)
    return text + "".join(f"{line}\n" for line in _comments(language, listed))


def _dicom_lines(attributes: Mapping[str, tuple[str, int, str]], options: Mapping[str, int]) -> Iterator[str]:
    if attributes or options:
        yield "dicom:"
    if options:
        yield "  options:"
        yield from (f"    {name}: false # line {line}" for name, line in sorted(options.items()))
    if attributes:
        yield "  attributes:"
    for mask, (action, line, written) in sorted(attributes.items()):
        name = display_name(mask)
        key = name if name.isalnum() and not name[0].isdigit() else quoted(name)
        yield f"    {key}: {action} # line {line}: {written}"


def _region_lines(regions: Sequence[DeviceRegion]) -> Iterator[str]:
    if regions:
        yield "# Imported: areas that are blanked on a device."
        yield "pixels:"
        yield "  regions:"
    for region in regions:
        stated = [
            f"{name}: {value if isinstance(value, int) else quoted(value)}" for name, value in region.fields
        ]
        boxes = ", ".join(str(list(box)) for box in region.boxes)
        yield f"    - {{{', '.join(stated)}, boxes: [{boxes}]}} # line {region.line}"
    if regions:
        yield ""


def _comments(language: str, listed: Sequence[Sequence[str]]) -> Iterator[str]:
    for heading, entries in zip(_HEADINGS, listed, strict=True):
        if not entries:
            continue
        yield "#"
        yield f"# {language}. {heading}"
        yield from (f"#   {one}"[:_WIDTH] for one in entries[:_MOST_SHOWN])
        if len(entries) > _MOST_SHOWN:
            yield f"#   and {len(entries) - _MOST_SHOWN} more"
