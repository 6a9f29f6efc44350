"""Checks and locks of the folders of a run, made before an input is opened."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from medsanitize.errors import FoldersInUse, UsageError
from medsanitize.pipeline.engines.shared_storage import PROBE_PREFIX
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.pipeline.storage.open_store import target_of
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def check_paths(inputs: Iterable[object], workspace: Workspace) -> None:
    """Refuse inputs that do not exist, and folders that contain one another.

    Parameters
    ----------
    inputs : iterable
        The inputs of a policy; only local folders are checked.
    workspace : Workspace
        Gives the output and state folders.

    Raises
    ------
    UsageError
        An input is missing or unreadable, or one folder contains another.
    """
    # Resolved, because symbolic links could hide that one folder contains another.
    folders = [path.resolve() for path in inputs if isinstance(path, Path)]
    for path in folders:
        if not path.exists():
            raise UsageError("inputs: a folder does not exist", "Correct the path in the policy")
        if not os.access(path, os.R_OK):
            raise UsageError("inputs: a folder is not readable", "Grant read access to it")
    state = workspace.state.resolve()
    output = workspace.output.resolve() if isinstance(workspace.output, Path) else state
    if isinstance(workspace.output, Path) and _overlap(output, state):
        raise UsageError("output and state contain one another", "Give each a folder of its own")
    for path in folders:
        if _overlap(path, output) or _overlap(path, state):
            raise UsageError(
                "An input and output or state contain one another",
                "Give inputs, output and state folders of their own",
            )
    for number, path in enumerate(folders):
        if any(_overlap(path, other) for other in folders[:number]):
            raise UsageError("Two inputs contain one another", "Name each folder once")


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def prepare_folders(workspace: Workspace) -> None:
    """Create the output and state folders; only the owner may read the state folder.

    Raises
    ------
    UsageError
        One of them cannot be created or written.
    """
    prepare_state(workspace)
    _prepare_folder(workspace.release, "output", 0o755)


def prepare_state(workspace: Workspace) -> None:
    """Create the state folder, which only its owner may read.

    Raises
    ------
    UsageError
        It cannot be created or written.
    """
    _prepare_folder(workspace.state, "state", 0o700)


def _prepare_folder(path: Path, name: str, mode: int) -> None:
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        # mkdir leaves the mode of an existing folder as it is, and the state contains PHI.
        if name == "state":
            path.chmod(0o700)
    except OSError:
        raise UsageError(
            f"{name}: the folder cannot be made", "Correct the path or its permissions"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise UsageError(
            f"{name}: the folder may not be written", "Grant write access or name another"
        ) from None


def is_finished(workspace: Workspace) -> bool:
    """Whether the output contains a finished release.

    Raises
    ------
    EnvironmentFailure
        The output is a store that cannot be reached.
    """
    if isinstance(workspace.output, Path):
        return (workspace.output / layout.ROOT).exists()
    return target_of(workspace.output).is_finished()


def check_output(workspace: Workspace, *, ours: bool) -> None:
    """Refuse an output that contains anything this run did not create.

    If the output is a store, the store must be empty, and the local copy of the release is cleared.

    Parameters
    ----------
    workspace : Workspace
        Gives the output.
    ours : bool
        Whether the state records an unfinished run into this output.

    Raises
    ------
    UsageError
        The output is not empty.
    """
    if not isinstance(workspace.output, Path):
        target_of(workspace.output).require_empty()
        _remove_content(workspace.release)
        return
    allowed = {layout.STAGING, *layout.TOP_LEVEL} if ours else set()
    if {entry.name for entry in workspace.release.iterdir()} - allowed:
        raise UsageError(
            "output: the folder contains files of something else",
            "Name another folder, or remove what an unfinished run left there (.staging)",
        )


@contextmanager
def locked(workspace: Workspace, *, shared: bool = False, name: str = "") -> Iterator[None]:
    """Lock the state and output folders against other runs.

    Parameters
    ----------
    workspace : Workspace
        Gives the folders.
    shared : bool
        Take a shared lock, as shards do.
    name : str
        Name of a shard, which is locked exclusively.

    Raises
    ------
    FoldersInUse
        Another run holds a lock.
    """
    with ExitStack() as stack:
        flag = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        folder = os.open(workspace.release, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _take_lock(stack, folder, flag)
        # A file, because network file systems support locks on files only.
        _take_lock(stack, _lock_file(workspace.state / "run.lock"), flag)
        if name:
            _take_lock(stack, _lock_file(workspace.state / f"{name}.lock"), fcntl.LOCK_EX)
        yield


def _lock_file(path: Path) -> int:
    with storage_errors():
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _take_lock(stack: ExitStack, descriptor: int, flag: int) -> None:
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, flag | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FoldersInUse(
            "Another run is at work in this state or output folder", "Wait until it has ended, then run again"
        ) from None
    except OSError as failure:
        # Some file systems have no locks at all; the run then goes unprotected instead of failing.
        if failure.errno not in _NO_LOCKS:
            raise


def ensure_staging(workspace: Workspace) -> Path:
    """Return the staging folder, created with access for its owner only; existing files are kept."""
    staging = workspace.staging
    with storage_errors():
        staging.mkdir(mode=0o700, exist_ok=True)
        # Probe files of workers that were killed while they checked the shared folder.
        for left in staging.glob(f"{PROBE_PREFIX}*"):
            left.unlink(missing_ok=True)
    return staging


def fresh_staging(workspace: Workspace) -> Path:
    """Return an empty staging folder."""
    remove_staging(workspace)
    return ensure_staging(workspace)


def remove_staging(workspace: Workspace) -> None:
    """Delete the staging folder and its content."""
    _remove(workspace.staging)


def remove_local_copy(workspace: Workspace) -> None:
    """Delete the local copy of a release that was uploaded to its store."""
    if not isinstance(workspace.output, Path):
        _remove(workspace.release)


def _remove_content(folder: Path) -> None:
    """Delete the content of a folder."""
    # The folder itself is locked by its descriptor and must keep its inode.
    with storage_errors():
        for path in tuple(folder.iterdir()):
            # Never follow a link: its target may be outside the output.
            if path.is_dir() and not path.is_symlink():
                _remove(path)
            else:
                path.unlink()


def _remove(folder: Path) -> None:
    import shutil

    with storage_errors():
        if folder.exists():
            shutil.rmtree(folder)
