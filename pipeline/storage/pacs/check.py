"""Check of a policy's PACS before anything is read or written."""

from __future__ import annotations

from collections.abc import Sequence

from medsanitize.pipeline.storage.pacs.address import PACS_NAME, service_of
from medsanitize.pipeline.storage.pacs.worklist import read_worklist
from medsanitize.policies.inputs import DicomWeb, Dimse


def check_pacs(inputs: Sequence[object]) -> None:
    """Read the worklists and check access to every PACS.

    Raises
    ------
    UsageError
        A worklist is invalid, or the environment variable of a credential is not set.
    EnvironmentFailure
        A PACS is unreachable or denies access.
    """
    names: dict[bytes, str] = {}
    for number, one in enumerate(inputs, 1):
        if isinstance(one, DicomWeb | Dimse):
            if one.worklist is not None:
                read_worklist(one.worklist, one.query)
            names.setdefault(service_of(one), f"{PACS_NAME} of input {number}")
    for service, name in sorted(names.items()):
        # Imported here so that runs without a PACS need neither pydicom's nor requests' import time.
        from medsanitize.pipeline.storage.pacs.reader import reader

        asked = reader(service, name if len(names) > 1 else PACS_NAME)
        try:
            asked.check()
        finally:
            asked.peer.close()
