"""Everything that can be refused before a single source is opened."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from medsanitize.errors import FoldersInUse, UsageError
from medsanitize.pipeline.engines.shared_storage import SEEN
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.pipeline.storage.open import target_of
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def check_paths(inputs: Iterable[object], workspace: Workspace) -> None:
    """Refuse inputs that do not exist and roots that lie in one another.

    Raises
    ------
    UsageError
        With what to change.
    """
    folders = [path.resolve() for path in inputs if isinstance(path, Path)]
    for path in folders:
        if not path.exists():
            raise UsageError("inputs: a folder does not exist", "Correct the path in the policy")
        if not os.access(path, os.R_OK):
            raise UsageError("inputs: a folder is not readable", "Grant read access to it")
    state = workspace.state.resolve()
    output = workspace.output.resolve() if isinstance(workspace.output, Path) else state
    if isinstance(workspace.output, Path) and _overlap(output, state):
        raise UsageError("output and state lie in one another", "Give each a folder of its own")
    for path in folders:
        if _overlap(path, output) or _overlap(path, state):
            raise UsageError(
                "An input and output or state lie in one another",
                "Give inputs, output and state folders of their own",
            )
    for number, path in enumerate(folders):
        if any(_overlap(path, other) for other in folders[:number]):
            raise UsageError("Two inputs lie in one another", "Name each folder once")


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def prepare_folders(workspace: Workspace) -> None:
    """Make output and state; the state folder is for its owner alone.

    Raises
    ------
    UsageError
        One of them cannot be made or written.
    """
    folders = ((workspace.state, "state", 0o700), (workspace.release, "output", 0o755))
    for path, name, mode in folders:
        try:
            path.mkdir(mode=mode, parents=True, exist_ok=True)
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
    """Whether output holds a finished release.

    Raises
    ------
    EnvironmentFailure
        It is a store, which cannot be reached.
    """
    if isinstance(workspace.output, Path):
        return (workspace.output / layout.ROOT).exists()
    return target_of(workspace.output).is_finished()


def check_output(workspace: Workspace, *, ours: bool) -> None:
    """Refuse an output with anything in it that is not of this run.

    Of an output in a store, what lies in the state is a copy: where the store has nothing, it goes.

    Parameters
    ----------
    ours : bool
        Whether the state knows of an unfinished run into this output.
    """
    if not isinstance(workspace.output, Path):
        target_of(workspace.output).require_empty()
        _clear(workspace.release)
        return
    allowed = {layout.STAGING, *layout.TOP_LEVEL} if ours else set()
    if {entry.name for entry in workspace.release.iterdir()} - allowed:
        raise UsageError(
            "output: the folder holds something that is not of this run",
            "Name another folder, or remove what an unfinished run left there (.staging)",
        )


@contextmanager
def locked(workspace: Workspace, *, shared: bool = False, name: str = "") -> Iterator[None]:
    """Hold state and output against other runs; shards share them and hold a name each.

    In the state it is files that are locked, not the folder: between machines, network file systems know
    the locks of files alone. Where there are no locks at all, nobody is held off.

    Raises
    ------
    FoldersInUse
        Another run holds them.
    """
    with ExitStack() as stack:
        flag = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        folder = os.open(workspace.release, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _hold(stack, folder, flag)
        _hold(stack, _lock_file(workspace.state / "run.lock"), flag)
        if name:
            _hold(stack, _lock_file(workspace.state / f"{name}.lock"), fcntl.LOCK_EX)
        yield


def _lock_file(path: Path) -> int:
    with storage_errors():
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _hold(stack: ExitStack, descriptor: int, flag: int) -> None:
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, flag | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FoldersInUse(
            "Another run is at work in this state or output folder", "Wait until it has ended, then run again"
        ) from None
    except OSError as failure:
        if failure.errno not in _NO_LOCKS:
            raise


def ensure_staging(workspace: Workspace) -> Path:
    """The staging folder, which nobody else may look into; what is in it stays."""
    staging = workspace.staging
    with storage_errors():
        staging.mkdir(mode=0o700, exist_ok=True)
        for left in staging.glob(f"{SEEN}*"):
            left.unlink(missing_ok=True)
    return staging


def fresh_staging(workspace: Workspace) -> Path:
    """An empty staging folder."""
    remove_staging(workspace)
    return ensure_staging(workspace)


def remove_staging(workspace: Workspace) -> None:
    """Take the staging folder away with everything in it."""
    _remove(workspace.staging)


def remove_put_away(workspace: Workspace) -> None:
    """Take away the local copy of a release that is in its store."""
    if not isinstance(workspace.output, Path):
        _remove(workspace.release)


def _clear(folder: Path) -> None:
    """Take away what is in a folder; it stays itself, for it is locked."""
    with storage_errors():
        for path in tuple(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                _remove(path)
            else:
                path.unlink()


def _remove(folder: Path) -> None:
    import shutil

    with storage_errors():
        if folder.exists():
            shutil.rmtree(folder)
