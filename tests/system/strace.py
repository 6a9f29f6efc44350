"""Network and file access of a process and its children, as reported by strace."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

CALLS = "%network,open,openat,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat"
CALLS += ",symlink,symlinkat,truncate"
_SENDS = re.compile(r"\b(connect|sendto|sendmsg|sendmmsg)\(")
_ADDRESS = re.compile(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"')
_UNIX = re.compile(r'sun_path=@?"([^"]*)"')
_LOOPBACK = re.compile(r"127\.|::1$|::ffff:127\.")
_MAKES = re.compile(
    r"\b(creat|mkdir|mkdirat|mknod|mknodat|rename|renameat|renameat2|link|linkat|symlink|symlinkat|truncate)\("
)
_OPENS = re.compile(r"\bopen(at)?\(")
_FOR_WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TMPFILE")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"')
_SEMAPHORE = re.compile(r"/dev/shm/sem\.[A-Za-z0-9_-]+$")  # of multiprocessing: a name and a counter
_DEVICES = ("/dev/null", "/dev/tty", "/proc/")
# The C library looks up user names here; the socket exists only if such a service runs.
_USERS = "/var/run/nscd/socket"


def run_traced(
    command: Sequence[str], trace: Path, *, environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command under strace, which writes the system calls of all its processes to ``trace``."""
    words = ["strace", "-f", "-y", "--seccomp-bpf", "-s", "4096", "-o", str(trace), "-e", f"trace={CALLS}"]
    return subprocess.run(
        [*words, *command], env=dict(environment), cwd=folder, capture_output=True, text=True, check=False
    )


def network_calls(trace: Path) -> Iterator[str]:
    """Calls that access anything but loopback and Unix sockets: connections, look-ups, packets."""
    for line in _lines(trace):
        if _SENDS.search(line):
            internet = [one or other for one, other in _ADDRESS.findall(line)]
            local = [
                path for path in _UNIX.findall(line) if path.startswith("/run/systemd") or "resolve" in path
            ]
            if any(not _LOOPBACK.match(address) for address in internet) or local:
                yield line


def written_elsewhere(trace: Path, allowed: Sequence[Path]) -> Iterator[str]:
    """Calls that create a file or open it for writing outside of the permitted folders."""
    roots = tuple(f"{path}/" for path in allowed)
    for line in _lines(trace):
        if _MAKES.search(line) or (_OPENS.search(line) and _FOR_WRITING.search(line)):
            if "EEXIST" in line or "EISDIR" in line:
                continue
            found = [os.path.normpath(os.path.join(base, path)) for base, path in _PATH.findall(line)]
            if not all(_is_allowed(path, roots) for path in found):
                yield line


def _is_allowed(path: str, roots: tuple[str, ...]) -> bool:
    return (
        f"{path}/".startswith(roots)
        or path.startswith(_DEVICES)
        or _SEMAPHORE.match(path) is not None
        or "/__pycache__" in path  # Python's own, as pip makes them when it installs
    )


def _lines(trace: Path) -> Iterator[str]:
    with trace.open(encoding="utf-8", errors="replace") as file:
        yield from file
