"""No network access by itself: every command under strace, and again without network, home or name.

``CI`` and variables that begin with ``ORT_`` are removed from the environment: both disable the telemetry of
onnxruntime, which would then not be noticed here.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.helpers.hospital import CANARIES, write_ct
from tests.helpers.hospital import prepare as write_policy
from tests.system.all_commands import ENDED_WELL, MEDSANITIZE, ROOT, Step, copy_demo, prepare, steps
from tests.system.strace import network_calls, run_traced, written_elsewhere

pytestmark = pytest.mark.system

Run = Callable[[Step], "subprocess.CompletedProcess[str]"]
NOBODY = 54321
# Commands that train, or need a trained model, take minutes.
LEARNS = frozenset(["train", "evaluate", "synthesize", "embeddings", "explain"])
# Enables loopback, which is down in a new network namespace.
_UP = "import fcntl, socket, struct;fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 1))"


def environment(home: Path, temporary: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("ORT_")}
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        kept.pop(name, None)
    return kept | {"HOME": str(home), "TMPDIR": str(temporary)}


def run_steps(base: Path, run: Run, *, demo: bool, without: frozenset[str] | None = None) -> None:
    for step in steps(base, demo=demo):
        if without and without & {*step.words}:
            continue
        done = run(step)
        assert "Traceback" not in done.stderr, f"{step.name}: {done.stderr}"
        assert done.returncode in ENDED_WELL, f"{step.name}: {done.returncode}\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def temporary() -> Iterator[Path]:
    """A folder for temporary files with a short path: sockets are created in it."""
    with TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def short() -> Iterator[Path]:
    """The same for one test."""
    with TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder readable by every user: folders of pytest are private."""
    with TemporaryDirectory(prefix="t", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def traced(folder: Path, temporary: Path) -> Path:
    """A folder in which every command ran, with the strace output of each in ``traces``."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace: tests/install_system.sh")
    top = folder / "top"
    top.mkdir()
    for name in ("home", "here", "traces"):
        (top / name).mkdir()
    prepare(top / "base")
    told = environment(top / "home", temporary)

    def run(step: Step) -> subprocess.CompletedProcess[str]:
        trace = top / "traces" / step.name.replace("/", "-")
        return run_traced(step.words, trace, environment=told, folder=top / "here")

    run_steps(top / "base", run, demo=True)
    return top


def test_no_command_connects_or_resolves_a_name(traced: Path) -> None:
    found = [
        f"{trace.name}: {call}" for trace in (traced / "traces").iterdir() for call in network_calls(trace)
    ]
    assert found == []


def test_no_command_writes_outside_its_folders(traced: Path, temporary: Path) -> None:
    allowed = (traced / "base", temporary)
    found = [
        f"{trace.name}: {call}"
        for trace in (traced / "traces").iterdir()
        for call in written_elsewhere(trace, allowed)
    ]
    assert found == []


@pytest.mark.usefixtures("traced")
def test_no_command_leaves_a_temporary_file(temporary: Path) -> None:
    assert list(temporary.iterdir()) == []


def test_connections_and_files_elsewhere_are_detected(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace: tests/install_system.sh")
    program = (
        "import pathlib, socket\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 53))\n"
        f"pathlib.Path({str(tmp_path / 'left')!r}).touch()\n"
    )
    run_traced([sys.executable, "-c", program], tmp_path / "trace", environment=os.environ, folder=tmp_path)
    assert [
        len(list(network_calls(tmp_path / "trace"))),
        len(list(written_elsewhere(tmp_path / "trace", ()))),
    ] == [1, 1]


@pytest.mark.parametrize("seconds", [0.6, 1.2, 2.0])
def test_temporary_files_of_a_killed_run_do_not_identify(tmp_path: Path, short: Path, seconds: float) -> None:
    for number in range(60):
        write_ct(tmp_path / "export" / f"i{number}.dcm", number, f"{CANARIES[1]}{number % 9}", number % 9)
    write_policy(tmp_path, preset="research")
    command = [MEDSANITIZE, "run", str(tmp_path / "policy.yaml"), "--workers", "2"]
    told = environment(tmp_path, short)
    started = subprocess.Popen(
        command, env=told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(seconds)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    left = b"".join(
        str(path).encode() + (path.read_bytes() if path.is_file() else b"") for path in short.rglob("*")
    )
    assert [word for word in CANARIES if word.encode() in left] == []


@pytest.mark.parametrize("commands", ["releases", pytest.param("all", marks=pytest.mark.slow)])
def test_the_bytes_do_not_depend_on_network_home_user_name_or_a_writable_root(
    commands: str, traced: Path, temporary: Path
) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("needs root, unshare and setpriv")
    if subprocess.run(["unshare", "--net", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces cannot be made here")
    # The same path as before: results contain the paths of the command line.
    base, kept = traced / "base", traced / "kept"
    shutil.rmtree(base) if kept.exists() else base.rename(kept)
    prepare(base)
    copy_demo(base, kept / "demo")
    temporary.chmod(0o777)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", base], check=True)
    subprocess.run(["chown", "-R", "0:0", base / "spark"], check=True)
    told = environment(Path("/nonexistent"), temporary)
    learns = None if commands == "all" else LEARNS
    run_steps(base, lambda step: run_isolated(step, (traced, temporary), told), demo=False, without=learns)
    made, before = digests(base), digests(kept)
    assert made == (before if commands == "all" else {name: before.get(name) for name in made})
    assert any(name.startswith("demo/release/data/") for name in made)


def run_isolated(
    step: Step, kept: Sequence[Path], variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command as a user without a name, without network and with few writable folders."""
    script = [f"mount --bind {path} {path}" for path in kept]
    script.append("mount -o remount,bind,ro /")
    if step.cluster:
        script.append(f'{sys.executable} -c "{_UP}"')
    # The interpreter may be in root's home: this user may read it, and write nowhere.
    reads = "--inh-caps +dac_read_search --ambient-caps +dac_read_search"
    user = f"--reuid {NOBODY} --regid {NOBODY} --clear-groups {reads}"
    who = "" if step.java else f"setpriv {user} "
    script.append(f"exec {who}{shlex.join(step.words)}")
    command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", " && ".join(script)]
    return subprocess.run(command, env=dict(variables), cwd=ROOT, capture_output=True, text=True, check=False)


def digests(base: Path) -> dict[str, str]:
    """Digest of every file written by the commands.

    The state is encrypted with random nonces, and an index identifies its images by inode.
    """
    return {
        str(path.relative_to(base)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(base.rglob("*"))
        if path.is_file() and not {"state", "index"} & set(path.relative_to(base).parts)
    }
