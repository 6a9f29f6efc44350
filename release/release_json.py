"""RELEASE.json: identity of the release, and the digests that cover all of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from medsanitize.release import layout
from medsanitize.release.attestation import release_identity
from medsanitize.release.canonical_json import document_json
from medsanitize.release.checksums import digest_file
from medsanitize.release.summary import Summary


def root_document(release: Path, summary: Summary) -> bytes:
    """Return the bytes of RELEASE.json for the files of a release.

    Its member ``digest`` is the SHA-256 of the same document without this member.
    """
    paths = [*layout.attested_files(release)]
    # Only signed releases have an attestation.
    if (release / layout.ATTESTATION).exists():
        paths.append(layout.ATTESTATION)
    facts: dict[str, Any] = {
        "format": layout.FORMAT_VERSION,
        **release_identity(summary),
        "standard": {"PS3.15": summary.edition},
        "digests": {path: digest_file(release / path) for path in paths},
    }
    return document_json({**facts, "digest": self_digest(facts)})


def self_digest(facts: dict[str, Any]) -> str:
    """Return the ``digest`` of a RELEASE.json, computed without this member."""
    rest = {name: value for name, value in facts.items() if name != "digest"}
    return hashlib.sha256(document_json(rest)).hexdigest()
