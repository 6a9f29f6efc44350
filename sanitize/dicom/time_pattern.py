"""Digests of an object's times of day, by which the run counts objects that their times single out."""

from __future__ import annotations

from hashlib import blake2b

from medsanitize.sanitize.dicom.assemble import values_between
from medsanitize.sanitize.dicom.walk_state import WalkState

TIMES = (0x0008002A, 0x00080030, 0x00080031, 0x00080032, 0x00080033)
"""Acquisition DateTime, of which the time of day counts, and Study, Series, Acquisition and Content Time."""

_DATE_DIGITS = 8
_DIGEST_BYTES = 8


def time_digests(walk: WalkState, out: list[bytes], modality: str) -> tuple[str, str]:
    """Return keyed digests of modality and times of day: of the source, and of the rewritten data set.

    Parameters
    ----------
    walk : WalkState
        Has captured the values of ``TIMES``.
    out : list of bytes
        Elements of the rewritten data set.
    modality : str

    Returns
    -------
    tuple of (str, str)
        Hexadecimal; empty where there is no time. Both digests are equal if the times are.
    """
    source = {tag: bytes(walk.buf[slice(*walk.captured[tag])]) for tag in TIMES if tag in walk.captured}
    released = values_between(out, walk.target, TIMES[0], TIMES[-1])
    before, after = _times(source), _times(released)
    digest = _digest(walk, modality, before)
    return digest, digest if after == before else _digest(walk, modality, after)


def _times(values: dict[int, bytes]) -> bytes:
    """Return the times of day in a fixed order, without the padding and colons that some writers add."""
    found = [values.get(tag, b"").split(b"\\")[0].strip(b" \0").replace(b":", b"") for tag in TIMES]
    found[0] = found[0][_DATE_DIGITS:]
    return b"\0".join(found)


def _digest(walk: WalkState, modality: str, times: bytes) -> str:
    if not times.strip(b"\0"):
        return ""
    message = modality.encode("utf-8", "surrogateescape") + b"\0" + times
    key = walk.job.keys.lookup
    return blake2b(message, key=key, digest_size=_DIGEST_BYTES, person=b"times of day").hexdigest()
