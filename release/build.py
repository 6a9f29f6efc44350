"""Write the evidence of a staged release."""

from __future__ import annotations

from pathlib import Path

from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.attestation import in_toto_statement, key_id, load_signing_key, sign_envelope
from medsanitize.release.canonical_json import document_json
from medsanitize.release.checksums import digest_file, write_checksums
from medsanitize.release.conformance import conformance_statement
from medsanitize.release.croissant import croissant_document
from medsanitize.release.dataset_card.documents import card_markdown
from medsanitize.release.provenance import provenance_document
from medsanitize.release.report import render_report
from medsanitize.release.rocrate import ro_crate_document
from medsanitize.release.summary import Summary


def write_evidence(staging: Path, summary: Summary, *, signing_key: Path | None) -> None:
    """Write everything but data, manifests, tables and RELEASE.json into the staging folder.

    Parameters
    ----------
    staging : Path
        Contains data/, both manifests and the accompanying tables. Earlier evidence is replaced.
    summary : Summary
        The public account of the run.
    signing_key : Path or None
        Ed25519 private key in PEM format. Without it the release is unsigned, which its report states.

    Raises
    ------
    IntegrityError
        The staged files are not exactly those of the manifest.
    KeyMaterialError
        The key is missing, readable by other users or of another kind.
    EnvironmentFailure
        The disk is full or fails.
    """
    key = None if signing_key is None else load_signing_key(signing_key)
    signer = None if key is None else key_id(key.public_key())
    with storage_errors():
        # The order matters: RO-Crate, sums and attestation contain digests of files written before them.
        (staging / layout.ATTESTATION).unlink(missing_ok=True)
        write_atomic(staging / layout.CROISSANT, document_json(croissant_document(summary, staging)))
        write_atomic(staging / layout.PROVENANCE, document_json(provenance_document(summary, staging)))
        write_atomic(staging / layout.REPORT, render_report(summary, signer=signer))
        write_atomic(staging / layout.CONFORMANCE, conformance_statement(summary).encode("utf-8"))
        (staging / layout.CARD).unlink(missing_ok=True)
        if summary.card is not None:
            write_atomic(staging / layout.CARD, card_markdown(summary.card).encode("utf-8"))
        write_atomic(staging / layout.RO_CRATE, document_json(ro_crate_document(summary, staging)))
        write_checksums(staging)
        if key is not None:
            digests = {path: digest_file(staging / path) for path in layout.attested_files(staging)}
            write_atomic(
                staging / layout.ATTESTATION, sign_envelope(in_toto_statement(summary, digests), key)
            )
