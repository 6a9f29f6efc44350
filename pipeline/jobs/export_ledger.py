"""Commands on the state: export of the ledger, and the audit of a release with known identifiers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.private_csv import write_private_csv
from medsanitize.pipeline.resume import open_for_reading
from medsanitize.pipeline.runtime.optional_dependencies import check_release_extra
from medsanitize.pipeline.stages.dicomdirs import missing_paths
from medsanitize.pipeline.state.database import State, translated_errors
from medsanitize.pipeline.state.objects import accounted_files
from medsanitize.pipeline.state.sanitized import links
from medsanitize.pipeline.storage.containers.address import shown
from medsanitize.policies.model import Policy

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.audit import ReleaseAudit
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch


@translated_errors()
def export_ledger(
    policy: Policy, *, uids: Path | None, patients: Path | None, files: Path | None = None
) -> dict[str, int]:
    """Write the ledger as CSV files of mode 0600.

    UIDs and patients have the columns ``id_old,id_new``, sorted by the new ID; files have
    ``path,kind,outcome,rule``.

    Parameters
    ----------
    policy : Policy
        The policy of the release.
    uids, patients : Path or None
        New files for UIDs and patient IDs.
    files : Path or None
        New file for the account: one row per file of the inputs, and one per file that a DICOMDIR lists and
        that is missing.

    Returns
    -------
    dict
        Number of rows by kind.

    Raises
    ------
    UsageError
        The release is anonymous, there was no run, or a file exists already.
    EnvironmentFailure
        The disk of the state failed, or another process has locked it; the command can be repeated.
    IntegrityError
        The state is damaged.
    """
    if policy.release.mode == "anonymous":
        raise UsageError(
            "An anonymous release has no ledger: its key and the link were never kept",
            "Use mode: pseudonymous if patients must be re-identifiable",
        )
    state = open_for_reading(policy)
    try:
        counts = {}
        for name, target, flag in (("uids", uids, 0), ("patients", patients, 1)):
            if target is not None:
                pairs = {(new, old) for old, new in links(state, patients=bool(flag))}
                rows = [(old, new) for new, old in sorted(pairs)]
                counts[name] = write_private_csv(target, ("id_old", "id_new"), rows)
        if files is not None:
            counts["files"] = write_private_csv(files, ("path", "kind", "outcome", "rule"), _account(state))
        return counts
    finally:
        state.close()


def _account(state: State) -> Iterator[tuple[str, ...]]:
    """Yield a row for every file of the inputs, then for every file that is listed and missing."""
    for path, kind, outcome, rule in accounted_files(state):
        yield os.fsdecode(shown(path)), kind, outcome, rule
    for path in missing_paths(state):
        yield os.fsdecode(path), "", "missing", "listed-but-missing"


@translated_errors()
def audit_with_state(release: str, policy: Policy | None) -> ReleaseAudit:
    """Audit a release in a folder or a store; with a policy, search for all identifiers in its state.

    Findings that a person judged to be chance before the release was published are left out.

    Raises
    ------
    EnvironmentFailure
        The disk of the state failed, or another process has locked it; the command can be repeated.
    IntegrityError
        The state is damaged.
    UsageError
        There is no release, or no state of this policy.
    """
    from medsanitize.pipeline.stages.audit import build_search, private_creators, searched_never_words
    from medsanitize.pipeline.state.excerpts import chance_findings
    from medsanitize.pipeline.storage.open_store import is_in_store
    from medsanitize.verifiers.leaks.audit import without_findings

    if not is_in_store(release) and not Path(release).is_dir():
        raise UsageError(
            "There is no release folder at this path", "Pass the folder that contains RELEASE.json"
        )
    if policy is None:
        return _audited(release)
    state = open_for_reading(policy)
    try:
        search = build_search(state, policy.dicom.options, searched_never_words(policy))
        found = _audited(release, search, private_creators(policy.dicom))
        # The digest of each file is checked as well, so these are the bytes that a person saw.
        return without_findings(found, chance_findings(state))
    finally:
        state.close()


def _audited(
    release: str, search: IdentifierSearch | None = None, private_creators: frozenset[str] | None = None
) -> ReleaseAudit:
    from medsanitize.pipeline.storage.open_store import is_in_store
    from medsanitize.verifiers.leaks.audit import audit_release

    if not is_in_store(release):
        check_release_extra(Path(release))
        return audit_release(Path(release), search, private_creators=private_creators)
    from medsanitize.pipeline.storage.remote_release import audit_in_store

    return audit_in_store(release, search, private_creators=private_creators)
