"""The state of a run: reopened while valid, replaced where policy, key, lists or inputs changed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from medsanitize import __version__
from medsanitize.errors import UsageError
from medsanitize.pipeline import preflight
from medsanitize.pipeline.engines.partial_files import remove_partial_folder
from medsanitize.pipeline.engines.shared_storage import remove_input_snapshot
from medsanitize.pipeline.requeue import reset_all
from medsanitize.pipeline.runtime.workspace import Workspace, identity_ledger, workspace_of
from medsanitize.pipeline.sequence import accompanying_files, in_phase, is_done
from medsanitize.pipeline.stages.inventory import inputs_unchanged
from medsanitize.pipeline.stages.resolve import digest_of_lists
from medsanitize.pipeline.stages.stage import Stage
from medsanitize.pipeline.state.database import SCHEMA_VERSION, State
from medsanitize.pipeline.state.decisions import decisions_digest, keep_decisions_only
from medsanitize.pipeline.state.identities import read_ledger
from medsanitize.pipeline.state.identity import has_same_key, is_begun, store_key_check
from medsanitize.pipeline.state.shards import name_inventory, shard_files
from medsanitize.pipeline.state.stage_results import (
    AMENDED,
    DECIDED,
    PUBLISHED,
    REVIEWED,
    SETTINGS,
    WITHDRAWN,
)
from medsanitize.pipeline.storage.local import Root
from medsanitize.pipeline.storage.sources import address_of
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.model import Policy
from medsanitize.policies.release_key import read_release_key
from medsanitize.policies.site_lists import SiteLists, holding, read_site_lists
from medsanitize.progress import Progress
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.layout import STAGING
from medsanitize.sanitize.pseudonyms import SubKeys, derive_sub_keys


def release_keys(policy: Policy, material: bytes | None = None, *, split: bool = False) -> SubKeys:
    """Derive the sub-keys of the release's scope.

    Parameters
    ----------
    policy : Policy
        Names the source of the key and its scope.
    material : bytes or None
        The key; None reads it from its source, or generates it for an anonymous run.
    split : bool
        Whether the run is distributed over processes that do not share memory.

    Raises
    ------
    UsageError
        An anonymous run is to be split.
    KeyMaterialError
        The key is missing or cannot be used.
    """
    if policy.release.mode == "anonymous":
        if split:
            raise UsageError(
                "An anonymous run cannot be split: its key lives in the memory of one process",
                "Run it whole, with --workers, or use mode: pseudonymous",
            )
        # Never stored: destroying the key is what makes the release anonymous.
        return derive_sub_keys(material or os.urandom(32), scope=scope_of(policy))
    return derive_sub_keys(material or read_release_key(policy.keys), scope=scope_of(policy))


def scope_of(policy: Policy) -> str:
    """Return the scope of pseudonyms: the whole project, or the releases of one name."""
    return "project" if policy.keys.scope == "project" else f"release:{policy.release.name}"


def open_for_reading(policy: Policy) -> State:
    """Open the state of a run of this policy.

    Raises
    ------
    UsageError
        There is no state.
    """
    path = workspace_of(policy).database
    if not path.exists():
        raise UsageError("There is no state of this release", "Run the policy first")
    return State(path, derive_sub_keys(read_release_key(policy.keys), scope=scope_of(policy)))


def remove_pages(workspace: Workspace) -> None:
    """Remove the pages of a completed or invalidated review."""
    with storage_errors():
        for path in workspace.review_pages():
            path.unlink(missing_ok=True)


def settings_of(policy: Policy, state: State, lists: SiteLists | None = None) -> str:
    """Return the settings that a resumed run must share with the run that began, as canonical JSON.

    ``lists`` replaces those that the policy and its state folder have.
    """
    lists = lists if lists is not None else read_site_lists(policy.text, policy.state)
    facts = {
        "schema": SCHEMA_VERSION,
        "tool": __version__,
        # With its lists: a list in the state folder counts like one that the policy names.
        "policy": policy_digest(holding(policy, lists)),
        "inputs": [os.fsdecode(address_of(one)) for one in policy.inputs],
        "lists": digest_of_lists(state.seal, accompanying_files(policy)),
        "site_lists": _digest_of_site_lists(lists, state),
        "identities": _digest_of_decisions(policy, state),
    }
    return json.dumps(facts, sort_keys=True)


def _digest_of_site_lists(lists: SiteLists, state: State) -> str:
    """Return a keyed digest of the entries; comments and the order of lines do not count."""
    return state.seal.name("site-lists", json.dumps([lists.deny, lists.allow])).hex()


def _digest_of_decisions(policy: Policy, state: State) -> str:
    """Return a keyed digest of the decisions on identities that the ledger keeps."""
    made = [astuple(one) for one in read_ledger(identity_ledger(policy), state.seal)]
    return state.seal.name("identity-decisions", json.dumps(made)).hex()


def open_state(policy: Policy, subkeys: SubKeys, progress: Progress, inputs: Sequence[Root]) -> State:
    """Open the state of this run, or start a new one where policy, key, lists or inputs changed.

    Parameters
    ----------
    policy : Policy
        The policy of the run.
    subkeys : SubKeys
        Keys that encrypt the state.
    progress : Progress
        Receives a message when the run starts again.
    inputs : sequence of Root
        The local inputs, as pinned by the run.

    Raises
    ------
    UsageError
        The output contains a finished release that this state did not produce.
    """
    workspace = workspace_of(policy)
    if workspace.anonymous:
        # SQLite spills this unnamed database to a temporary file; it must not leave the state folder.
        os.environ["SQLITE_TMPDIR"] = str(policy.state)
        left = any(workspace.release.iterdir())
        preflight.check_output(workspace, ours=_holds_only_staging(workspace))
        if left:
            progress.message("Starting again: an anonymous run keeps nothing of the one before.")
        preflight.fresh_staging(workspace)
        return State(None, subkeys)
    path = workspace.database
    begun, amended = path.exists(), False
    if begun:
        with State(path, subkeys).closed_on_failure() as state:
            # A run that failed while creating its state stored no key check: there is nothing to compare.
            begun = is_begun(state)
            if begun and _is_finished_and_emptied(state, policy, inputs):
                return state
            reason = difference(state, policy) if begun else None
            if begun and reason is None:
                return _resumed(state, workspace)
            finished = PUBLISHED.is_set(state)
            amended = not finished and _is_amended(state, policy)
            state.close()
    if preflight.is_finished(workspace):
        if begun:
            raise UsageError(
                f"output contains the finished release of this name and version, but {reason}",
                "Give the new release another version and another output",
            )
        raise UsageError(
            "output contains a finished release whose state is missing",
            "Name another output, or the state of that run",
        )
    preflight.check_output(workspace, ours=path.exists() and _holds_only_staging(workspace))
    if begun:
        progress.message(f"Starting again: {reason} since the last run.")
        preflight.remove_staging(workspace)
        remove_pages(workspace)
        if not amended:
            _discard_state(path, keep=finished)
    _remove_shards(path)
    with State(path, subkeys).closed_on_failure() as state:
        preflight.fresh_staging(workspace)
        with state.transaction():
            if amended:
                keep_decisions_only(state)
                REVIEWED.set(state)
                DECIDED.store(state, decisions_digest(state))
            store_key_check(state)
            SETTINGS.store(state, settings_of(policy, state))
            name_inventory(state)
    return state


def _is_amended(state: State, policy: Policy) -> bool:
    """Whether nothing changed but what a person amended during the review: its decisions then stay."""
    return (
        has_same_key(state)
        and AMENDED.load(state) == settings_of(policy, state)
        and inputs_unchanged(state, policy.inputs)
    )


def _is_finished_and_emptied(state: State, policy: Policy, inputs: Sequence[Root]) -> bool:
    """Whether the release is finished under this policy and key, and an input was emptied since."""
    workspace = workspace_of(policy)
    over = PUBLISHED.is_set(state) and any(root.empty for root in inputs)
    return over and settings_difference(state, policy) is None and preflight.is_finished(workspace)


def _resumed(state: State, workspace: Workspace) -> State:
    """Prepare a valid state for the next run."""
    remove_input_snapshot(state, workspace.staging)
    if WITHDRAWN.is_set(state):
        preflight.check_output(workspace, ours=_holds_only_staging(workspace))
        preflight.fresh_staging(workspace)
        reset_all(state)
    elif not preflight.is_finished(workspace):
        remove_partial_folder(preflight.ensure_staging(workspace))
    return state


def _holds_only_staging(workspace: Workspace) -> bool:
    return {entry.name for entry in workspace.release.iterdir()} <= {STAGING}


def open_shared(policy: Policy, stages: Sequence[Stage], subkeys: SubKeys) -> State:
    """Open the state of a complete inventory read-only, for a shard.

    Changed inputs are detected later, by the run that merges the shards.

    Raises
    ------
    UsageError
        There is no complete inventory under this policy and key.
    """
    path = workspace_of(policy).database
    left = path.with_name(path.name + "-wal")
    # Read-only access ignores the write-ahead log: commits that are still in it would be missed.
    if _size(path) and not _size(left):
        with State(path, subkeys, fixed=True).closed_on_failure() as state:
            if is_done(in_phase(stages, "inventory"), state) and settings_difference(state, policy) is None:
                return state
            state.close()
    raise UsageError(
        "There is no inventory of these inputs under this policy and key",
        "Take it first with: medsanitize run POLICY --inventory-only",
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def difference(state: State, policy: Policy) -> str | None:
    """Return what changed since the state was created, or None."""
    reason = settings_difference(state, policy)
    # Last, because it walks all inputs.
    if reason is None and not inputs_unchanged(state, policy.inputs):
        return "the inputs have changed"
    return reason


def settings_difference(state: State, policy: Policy) -> str | None:
    """Return what of key, policy and lists changed since the state was created, or None."""
    if not has_same_key(state):
        return "the key has changed"
    if SETTINGS.load(state) != settings_of(policy, state):
        return "the policy or one of its lists has changed"
    return None


def _discard_state(path: Path, *, keep: bool) -> None:
    """Remove an invalid state; the state of a finished release is kept, renamed with a number."""
    number = 1
    while (kept := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    with storage_errors():
        if keep:
            path.replace(kept)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _remove_shards(path: Path) -> None:
    """Remove the shards of a replaced state; the files they list as staged no longer exist."""
    with storage_errors():
        for shard in shard_files(path):
            shard.unlink(missing_ok=True)
