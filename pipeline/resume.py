"""The state a run works on: opened where it still holds, begun anew where something has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from medsanitize import __version__
from medsanitize.errors import UsageError
from medsanitize.pipeline import preflight
from medsanitize.pipeline.engines.partial_files import remove_partial_folder
from medsanitize.pipeline.engines.shared_storage import remove_input_snapshot
from medsanitize.pipeline.runtime.progress import Progress
from medsanitize.pipeline.runtime.workspace import release_folder, staging_folder
from medsanitize.pipeline.stages.faces import looks_at_faces
from medsanitize.pipeline.stages.inventory import inputs_unchanged
from medsanitize.pipeline.stages.resolve import digest_of_lists
from medsanitize.pipeline.state.database import SCHEMA_VERSION, State
from medsanitize.pipeline.state.identity import has_same_key, is_begun, store_key_check
from medsanitize.pipeline.state.reset import reset_all
from medsanitize.pipeline.state.shards import name_inventory, shard_files
from medsanitize.pipeline.state.stage_results import FACES_JUDGED, PUBLISHED, RESOLVED, SETTINGS, WITHDRAWN
from medsanitize.pipeline.storage.local import Root
from medsanitize.pipeline.storage.sources import address_of
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.model import Policy
from medsanitize.policies.release_key import read_release_key
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.layout import STAGING
from medsanitize.sanitize.pseudonyms import SubKeys, derive_sub_keys


def release_keys(policy: Policy, material: bytes | None = None, *, split: bool = False) -> SubKeys:
    """Sub-keys of the release's scope; an anonymous run makes a key that nobody keeps.

    Raises
    ------
    UsageError
        An anonymous run was to be ``split`` over processes that do not share its key.
    KeyMaterialError
        The key cannot be used.
    """
    if policy.release.mode == "anonymous":
        if split:
            raise UsageError(
                "An anonymous run cannot be split: its key lives in the memory of one process",
                "Run it whole, with --workers, or use mode: pseudonymous",
            )
        return derive_sub_keys(material or os.urandom(32), scope=scope_of(policy))
    return derive_sub_keys(material or read_release_key(policy.keys), scope=scope_of(policy))


def scope_of(policy: Policy) -> str:
    """The scope of pseudonyms: the whole project, or the releases of one name."""
    return "project" if policy.keys.scope == "project" else f"release:{policy.release.name}"


def state_path(policy: Policy) -> Path:
    """The state file of a release; every version has its own."""
    return policy.state / f"{policy.release.name}-{policy.release.version}.sqlite"


def page_path(policy: Policy, number: int = 1) -> Path:
    """A page of the review; they alone in the state show values in the clear."""
    part = "" if number == 1 else f"-{number}"
    return policy.state / f"{policy.release.name}-{policy.release.version}.review{part}.html"


def remove_pages(policy: Policy) -> None:
    """Take away the pages of a review that is over."""
    with storage_errors():
        for path in policy.state.glob(f"{page_path(policy).stem}*.html"):
            path.unlink(missing_ok=True)


def settings_of(policy: Policy, state: State) -> str:
    """What a resumed run must share with the run that began, as canonical JSON."""
    facts = {
        "schema": SCHEMA_VERSION,
        "tool": __version__,
        "policy": policy_digest(policy),
        "inputs": [os.fsdecode(address_of(one)) for one in policy.inputs],
        "lists": digest_of_lists(state.seal, policy),
    }
    return json.dumps(facts, sort_keys=True)


def open_state(policy: Policy, subkeys: SubKeys, progress: Progress, inputs: Sequence[Root]) -> State:
    """Open the state of this run, or begin it anew where policy, key, lists or inputs have changed.

    ``inputs`` are the local ones, as the run took them.
    """
    if policy.release.mode == "anonymous":
        os.environ["SQLITE_TMPDIR"] = str(policy.state)  # the nameless file of its state lies there
        left = any(release_folder(policy).iterdir())
        preflight.check_output(policy, ours=_only_staging(policy))
        if left:
            progress.message("Starting again: an anonymous run keeps nothing of the one before.")
        preflight.fresh_staging(policy)
        return State(None, subkeys)
    path = state_path(policy)
    begun = path.exists()
    if begun:
        with State(path, subkeys).handed_on() as state:
            # A run that failed while it made its state has written no key: there is nothing to compare with.
            begun = is_begun(state)
            if begun and _leaves_nothing_to_read(state, policy, inputs):
                return state
            reason = difference(state, policy) if begun else None
            if begun and reason is None:
                return _resumed(state, policy)
            finished = PUBLISHED.is_set(state)
            state.close()
    if preflight.is_finished(policy):
        if begun:
            raise UsageError(
                f"output holds the finished release of this name and version, but {reason}",
                "Give the new release another version and another output",
            )
        raise UsageError(
            "output holds a finished release whose state is not here",
            "Name another output, or the state of that run",
        )
    preflight.check_output(policy, ours=path.exists() and _only_staging(policy))
    if begun:
        progress.message(f"Starting again: {reason} since the last run.")
        preflight.remove_staging(policy)
        remove_pages(policy)
        _put_away(path, keep=finished)
    _remove_shards(path)
    with State(path, subkeys).handed_on() as state:
        preflight.fresh_staging(policy)
        with state.transaction():
            store_key_check(state)
            SETTINGS.store(state, settings_of(policy, state))
            name_inventory(state)
    return state


def _leaves_nothing_to_read(state: State, policy: Policy, inputs: Sequence[Root]) -> bool:
    """Whether the release is finished, under this very policy and key, and an input was emptied since."""
    over = PUBLISHED.is_set(state) and any(root.empty for root in inputs)
    return over and _differs(state, policy) is None and preflight.is_finished(policy)


def _resumed(state: State, policy: Policy) -> State:
    """Make a state that still holds ready to go on."""
    remove_input_snapshot(state, staging_folder(policy))
    if WITHDRAWN.is_set(state):
        preflight.check_output(policy, ours=_only_staging(policy))
        preflight.fresh_staging(policy)
        reset_all(state)
    elif not preflight.is_finished(policy):
        remove_partial_folder(preflight.ensure_staging(policy))
    return state


def _only_staging(policy: Policy) -> bool:
    return {entry.name for entry in release_folder(policy).iterdir()} <= {STAGING}


def open_shared(policy: Policy, subkeys: SubKeys) -> State:
    """Open, only to read it, the state that an inventory left for shards; who merges walks the inputs again.

    Raises
    ------
    UsageError
        There is no complete inventory under this policy and key.
    """
    path = state_path(policy)
    left = path.with_name(path.name + "-wal")
    # What a killed run left in the log beside the file is not in the file yet.
    if _size(path) and not _size(left):
        with State(path, subkeys, fixed=True).handed_on() as state:
            if _is_shared_out(state, policy) and _differs(state, policy) is None:
                return state
            state.close()
    raise UsageError(
        "There is no inventory of these inputs under this policy and key",
        "Take it first with: medsanitize run POLICY --inventory-only",
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_shared_out(state: State, policy: Policy) -> bool:
    """Whether everything that shards must agree on is settled."""
    judged = FACES_JUDGED.is_set(state) or not looks_at_faces(policy)
    return judged and RESOLVED.is_set(state)


def difference(state: State, policy: Policy) -> str | None:
    """What has changed since the state was begun, or None."""
    reason = _differs(state, policy)
    if reason is None and not inputs_unchanged(state, policy):
        return "the inputs have changed"
    return reason


def _differs(state: State, policy: Policy) -> str | None:
    if not has_same_key(state):
        return "the key has changed"
    if SETTINGS.load(state) != settings_of(policy, state):
        return "the policy or one of its lists has changed"
    return None


def _put_away(path: Path, *, keep: bool) -> None:
    """Remove a state that no longer holds; the ledger of a finished release is kept under a number."""
    number = 1
    while (kept := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    with storage_errors():
        if keep:
            path.replace(kept)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _remove_shards(path: Path) -> None:
    """Shards of a state that is begun anew were of another: what they say is staged is not."""
    with storage_errors():
        for shard in shard_files(path):
            shard.unlink(missing_ok=True)
