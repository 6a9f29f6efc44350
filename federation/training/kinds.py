"""The kind of the images of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UsageError

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.images.image import Modality


def modality_of(terms: Mapping[str, Any]) -> Modality:
    """Return the kind of the images of a job.

    Raises
    ------
    UsageError
        If the kind is unknown.
    """
    from medsanitize.verifiers.reid.images.kinds import kind_named

    modality = kind_named(str(terms["kind"]))
    if modality is None:
        raise UsageError("The job names no kind of images", "Write for example kind: radiograph")
    return modality
