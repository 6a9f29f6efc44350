"""Documents and sound in DICOM: which are made anew, left out or refused."""

from __future__ import annotations

from medsanitize.policies.model import Documents
from medsanitize.sanitize.dicom.refusal import Dropped, Refused

_CLASSES = ("1.2.840.10008.5.1.4.1.1.104.", "1.2.840.10008.5.1.4.1.1.9.4.")
_PDF = "1.2.840.10008.5.1.4.1.1.104.1"


def is_rebuilt(sop_class: str, rules: Documents) -> bool:
    """Whether an object is a PDF to be made anew; ``False`` for what is no document.

    Raises
    ------
    Refused
        ``document-or-audio``.
    Dropped
        ``document``, as the policy says.
    """
    if not sop_class.startswith(_CLASSES):
        return False
    if sop_class == _PDF and rules.pdf == "rebuild":
        return True
    if sop_class != _PDF and rules.other == "drop":
        raise Dropped("document")
    raise Refused("document-or-audio")
