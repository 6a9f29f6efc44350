"""Digest of all settings that decide what is released."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from medsanitize.policies.model import Policy
from medsanitize.policies.tables.standard import edition


def policy_digest(policy: Policy) -> str:
    """Compute the SHA-256 of the settings that decide the released bytes; the same on every machine.

    Paths, key sources, the engine and the approval setting are left out. Excluded patients, identities,
    pseudonym tables and the lists of the site only count as present or absent: a digest of such a list would
    link the release to it. Order, upper case and repetition count only where they change the release.

    Parameters
    ----------
    policy : Policy
        The loaded policy.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    content = policy.model_dump(mode="json", exclude={"inputs", "output", "state", "engine"})
    content["keys"] = {"scope": policy.keys.scope}
    # The tables of another edition of PS3.15 give other bytes.
    content["standard"] = edition()
    content["exclude"] = policy.exclude is not None
    if content.pop("identities") is not None:
        content["identities"] = True
    content["pseudonyms"]["table"] = policy.pseudonyms.table is not None
    for name in ("deny_list", "allow_list"):
        content["text"][name] = bool(getattr(policy.text, name))
    # Sets in the policy are sorted: their order and duplicates do not change the release.
    content["registry"] = {"public": sorted(set(policy.registry.public))}
    content["ignore"] = sorted(set(policy.ignore))
    content["dicom"]["safe_private"] = _safe_private(policy)
    content["release"].pop("approve")
    if policy.release.card is None:
        content["release"].pop("card")
    else:
        # How much all versions may spend decides whether there is a release, not its bytes.
        content["release"]["card"].pop("ceiling")
    if policy.overlap is None:
        # Models and calibrations are files; a path says nothing about the bytes, so only their presence
        # counts.
        content.pop("overlap")
    else:
        for name in ("model", "verifier", "calibration"):
            content["overlap"][name] = content["overlap"][name] is not None
    if policy.partners is None:
        content.pop("partners")
    else:
        # Where a partner serves, and where the own keys lie, says nothing about the release.
        agreements = content["partners"]["agreements"]
        # A run asks nothing about single images.
        for one in agreements:
            one.pop("ask")
        content["partners"] = [{**one, "address": one["address"] is not None} for one in agreements]
    if policy.synthesize is None:
        content.pop("synthesize")
    else:
        section = content["synthesize"]
        section |= {"model": True, "verifier": True, "retrieval": section["retrieval"] is not None}
        # A policy without one has the digest that it had before there were any.
        if section.pop("federated_calibration") is not None:
            section["federated_calibration"] = True
        section["labels"] = sorted(set(policy.synthesize.labels))
        section["reference"] |= {"images": True, "table": True}
    for table in content["tables"]:
        table.pop("file")
    return sha256(_canonical(content)).hexdigest()


def _safe_private(policy: Policy) -> list[list[str]]:
    """Return the list as the sanitizer reads it: of two lines for one element, the later one counts."""
    rows = {
        (one.group.lower(), one.creator, one.element.lower()): one.vr for one in policy.dicom.safe_private
    }
    return sorted([*key, vr] for key, vr in rows.items())


def _canonical(content: Any) -> bytes:
    """Encode as ASCII JSON with sorted keys and without spaces, so that equal content has equal text."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")
