"""Whether the PACS of a policy can be used, before anything is read or made."""

from __future__ import annotations

from medsanitize.pipeline.storage.pacs.address import THE_PACS, service_of
from medsanitize.pipeline.storage.pacs.worklist import read_worklist
from medsanitize.policies.inputs import DicomWeb, Dimse
from medsanitize.policies.model import Policy


def check_pacs(policy: Policy) -> None:
    """Read the worklists and ask every PACS whether it lets us in.

    Raises
    ------
    UsageError
        A worklist cannot be used, or a credential is not in the environment.
    EnvironmentFailure
        A PACS cannot be reached, or refuses.
    """
    names: dict[bytes, str] = {}
    for number, one in enumerate(policy.inputs, 1):
        if isinstance(one, DicomWeb | Dimse):
            if one.worklist is not None:
                read_worklist(one.worklist, one.query)
            names.setdefault(service_of(one), f"{THE_PACS} of input {number}")
    for service, name in sorted(names.items()):
        # Who reads files alone does not wait for pydicom and a client.
        from medsanitize.pipeline.storage.pacs.reader import reader

        asked = reader(service, name if len(names) > 1 else THE_PACS)
        try:
            asked.check()
        finally:
            asked.peer.close()
