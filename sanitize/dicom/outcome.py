"""What a rule leaves of an element, and how an element goes as far as its Type allows."""

from __future__ import annotations

from medsanitize.sanitize.dicom.dummies import dummy
from medsanitize.sanitize.dicom.job import Job, Links
from medsanitize.sanitize.dicom.rules import Rule

Outcome = tuple[bytes, bytes | None, str, Links]
"""VR, value (``None``: removed), rule id, links."""


def gone(job: Job, rule: Rule, tag: int, vr: bytes, value: bytes, why: str) -> Outcome:
    """Remove an element as far as its Type allows: removed, emptied or replaced."""
    if rule.type in ("1", "1C") and value:
        return vr, dummy(job, tag, vr, value), f"D:{why}", ()
    if rule.type in ("2", "2C"):
        return vr, b"", f"Z:{why}", ()
    return vr, None, f"X:{why}", ()
