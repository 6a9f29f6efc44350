"""Read a file of rules of another program, whichever it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from medsanitize.errors import PolicyError, Problem, UsageError
from medsanitize.policies.migration.ctp_script import read_ctp_script
from medsanitize.policies.migration.deid_recipe import read_deid_recipe
from medsanitize.policies.migration.foreign_rules import ForeignRules
from medsanitize.policies.migration.kitware_rules import read_kitware_rules
from medsanitize.policies.migration.wsi_deid_settings import has_settings, read_wsi_deid_settings

MAX_BYTES: Final = 4_000_000
_DEID: Final = re.compile(r"(?im)^\s*(format\s+\w+|%\s*(header|filter|labels|fields|values)\b)")


def read_foreign_rules(path: Path) -> ForeignRules:
    """Read the rules of CTP, the RSNA Anonymizer, pydicom's deid, dicom-anonymizer, ImageDePHI or WSI DeID.

    The program is recognized by the content of the file.

    Raises
    ------
    PolicyError
        Lines that are not understood; each is listed.
    UsageError
        The file does not exist, cannot be read or is larger than 4 MB.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"The rules cannot be read: {error.strerror or 'unknown reason'}", "Pass the path of a file"
        ) from None
    if len(raw) > MAX_BYTES:
        raise UsageError("The file of rules is larger than 4 MB", "Pass a script, recipe or rule file")
    found, problems = _read(raw)
    if found is None or problems:
        raise PolicyError("The rules cannot be imported", tuple(problems))
    return found


def _read(raw: bytes) -> tuple[ForeignRules | None, list[Problem]]:
    # Before decoding: an XML declaration may state another encoding.
    if raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return read_ctp_script(raw.lstrip(b" \t\r\n"))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None, [Problem(1, 1, "The file is not UTF-8", "Save it as UTF-8")]
    if has_settings(text):
        return read_wsi_deid_settings(text)
    return (read_deid_recipe if _DEID.search(text) else read_kitware_rules)(text)
