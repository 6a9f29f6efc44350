"""The values that are left: of a release, or of the staged objects of a policy before publication."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.pipeline import preflight
from medsanitize.pipeline.resume import open_for_reading
from medsanitize.pipeline.runtime.workspace import Workspace, workspace_of
from medsanitize.pipeline.state.database import translated_errors
from medsanitize.pipeline.state.stage_results import JUDGED
from medsanitize.pipeline.state.value_index import ValueIndex, ValueIndexWriter
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation, NoProgress, Progress
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.manifest import read_rows
from medsanitize.verifiers.leaks.object_values import object_values


@contextmanager
def open_values(
    target: Policy | Path, progress: Progress | None = None, cancellation: Cancellation | None = None
) -> Iterator[ValueIndex]:
    """List the values of a release, or of what the last run of a policy staged or published.

    The index of a policy is kept in its state folder until the objects change; that of a release is
    temporary.

    Parameters
    ----------
    target : Policy or Path
        A policy, or the folder of a release.
    progress : Progress or None
        Receives the progress.
    cancellation : Cancellation or None
        Checked between objects.

    Raises
    ------
    UsageError
        There is no release, or no run of the policy has staged objects.
    EnvironmentFailure
        Another process holds the release, or the disk failed.
    IntegrityError
        The manifest or the state is damaged.
    """
    progress, cancellation = progress or NoProgress(), cancellation or Cancellation()
    if isinstance(target, Policy):
        path = _index_of_policy(target, progress, cancellation)
        with ValueIndex(path) as index:
            yield index
        return
    if not (target / layout.ROOT).is_file():
        raise UsageError(
            "This folder is not a release", "Pass the folder that contains RELEASE.json, or a policy"
        )
    with TemporaryDirectory(prefix="medsanitize-") as folder:
        path = Path(folder) / "values.sqlite"
        _build(path, target, "", progress, cancellation)
        with ValueIndex(path) as index:
            yield index


@translated_errors()
def _index_of_policy(policy: Policy, progress: Progress, cancellation: Cancellation) -> Path:
    """Return the index in the state folder, made anew if the objects have changed."""
    if policy.release.mode == "anonymous":
        raise UsageError(
            "An anonymous run keeps no state", "Pass the folder of the release, once it is published"
        )
    workspace = workspace_of(policy)
    if not workspace.database.exists():
        raise UsageError("There is no state of this release", "Run the policy first")
    preflight.prepare_folders(workspace)
    with preflight.locked(workspace):
        root, digest = _staged(policy, workspace)
        path = workspace.values
        if path.exists():
            with ValueIndex(path) as index:
                if index.is_of(digest):
                    return path
        _build(path, root, digest, progress, cancellation)
        return path


def _staged(policy: Policy, workspace: Workspace) -> tuple[Path, str]:
    """Return the folder of the staged or published objects, and their digest."""
    state = open_for_reading(policy)
    try:
        judged = JUDGED.load(state)
    finally:
        state.close()
    if judged is None or judged.ending not in ("awaiting_approval", "published"):
        raise UsageError(
            "The last run has staged nothing, or was refused: its files are removed",
            "Run the policy again; with release: approve: required its objects are staged for a review",
        )
    root = workspace.staging if judged.ending == "awaiting_approval" else workspace.release
    if not (root / layout.MANIFEST).is_dir():
        raise UsageError(
            "The objects of the last run are not in the output folder", "Pass a local copy of the release"
        )
    return root, judged.digest


def _build(path: Path, root: Path, digest: str, progress: Progress, cancellation: Cancellation) -> None:
    """Read all objects below a folder, and write their values."""
    writer, unlisted = ValueIndexWriter(path), 0
    try:
        progress.stage("values", None)
        for row in read_rows(root):
            cancellation.check()
            # Metadata of pictures and slides is written anew and fixed; see docs/slides.md.
            if row.path.endswith(".dcm"):
                try:
                    with storage_errors():
                        writer.add(row.path, object_values(root / row.path))
                except IntegrityError:
                    unlisted += 1  # verify and audit say why
            else:
                unlisted += 1
            progress.advance(1)
        writer.finish(digest, unlisted)
    except BaseException:
        writer.discard()
        raise
