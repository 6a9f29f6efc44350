"""One number for everything in a policy that decides what is released."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from medsanitize.policies.model import Policy


def policy_digest(policy: Policy) -> str:
    """SHA-256 of what decides the released bytes, in hex; the same on every machine.

    Left out: paths, where keys lie, the engine, and whether somebody must approve. Of the patients
    excluded and of tables of pseudonyms it says only that there are some: a digest of such a file
    would be a link to it. Order, upper case and repetition count only where they change the release.
    """
    content = policy.model_dump(mode="json", exclude={"inputs", "output", "state", "engine"})
    content["keys"] = {"scope": policy.keys.scope}
    content["exclude"] = policy.exclude is not None
    content["pseudonyms"]["table"] = policy.pseudonyms.table is not None
    content["registry"] = {"public": sorted(set(policy.registry.public))}
    content["dicom"]["safe_private"] = _safe_private(policy)
    content["release"].pop("approve")
    if policy.overlap is None:
        content.pop("overlap")
    else:
        for name in ("model", "verifier", "calibration"):
            content["overlap"][name] = content["overlap"][name] is not None
    if policy.synthesize is None:
        content.pop("synthesize")
    else:
        section = content["synthesize"]
        section |= {"model": True, "verifier": True, "retrieval": section["retrieval"] is not None}
        section["labels"] = sorted(set(policy.synthesize.labels))
        section["reference"] |= {"images": True, "table": True}
    for table in content["tables"]:
        table.pop("file")
    return sha256(_canonical(content)).hexdigest()


def _safe_private(policy: Policy) -> list[list[str]]:
    """The list as the sanitiser reads it: of two lines for one element the later one counts."""
    rows = {
        (one.group.lower(), one.creator, one.element.lower()): one.vr for one in policy.dicom.safe_private
    }
    return sorted([*key, vr] for key, vr in rows.items())


def _canonical(content: Any) -> bytes:
    """JSON with sorted keys, without spaces, ASCII only: one text for one content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")
