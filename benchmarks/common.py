"""Shared parts of the benchmarks: data folder, policies and runs, byte search."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVERY_OBJECT = "validation: all\n"
"""In a policy: foreign readers compare every released object with its source."""
_INTRODUCED = ("introduced-error", "pixels-differ")


def shared() -> Path:
    """Return the folder of shared data (bench/, data/) named by MEDSANITIZE_SHARED."""
    named = os.environ.get("MEDSANITIZE_SHARED")
    if not named:
        sys.exit("Set MEDSANITIZE_SHARED to the folder that holds bench/ and data/.")
    return Path(named)


def fresh(folder: Path) -> Path:
    """Create a folder; a non-empty one is rejected."""
    if folder.exists() and any(folder.iterdir()):
        sys.exit("The output folder is not empty: name a new one.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def medsanitize(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Call the command line, outside of the repository's root."""
    command = [sys.executable, "-m", "medsanitize", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=installed(), capture_output=True, text=True, check=False)


def installed() -> dict[str, str]:
    """Environment in which bytecode is compiled once, as by an installer, and not at every start."""
    # Compiling at every start would be counted as start-up of the product.
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Ran:
    """One run: its folder (policy, release, state, log), exit code and result."""

    folder: Path
    code: int
    result: dict[str, Any]

    @property
    def data(self) -> Path:
        """The folder of released objects."""
        return self.folder / "release" / "data"

    def released(self) -> list[Path]:
        """Every released object."""
        return sorted(path for path in self.data.rglob("*") if path.is_file())


def prepare(folder: Path, inputs: Path, preset: str, more: str = "") -> Path:
    """Write a policy that releases ``inputs`` into ``folder``, and its key; return the policy's path.

    ``more`` are further lines of the policy.
    """
    folder.mkdir(parents=True)
    policy = folder / "policy.yaml"
    policy.write_text(
        "version: 1\n"
        f"preset: {preset}\n"
        'release: {name: benchmark, version: "1.0", mode: pseudonymous}\n'
        f"inputs: [{json.dumps(str(inputs))}]\n"
        "output: ./release\n"
        "state: ./state\n"
        f"keys: {{file: ./release.key}}\n{more}"
    )
    key = folder / "release.key"
    # A fixed key, so that releases are reproducible.
    key.write_bytes(bytes((7 * place + 11) % 256 for place in range(64)))
    key.chmod(0o600)
    return policy


def run(
    folder: Path,
    inputs: Path,
    preset: str,
    *,
    workers: int = 2,
    also: tuple[int, ...] = (),
    more: str = "",
) -> Ran:
    """Release ``inputs`` into ``folder`` under a preset; output is written to run.log.

    Exit codes other than 0 and 1 and those in ``also`` end the benchmark.
    """
    policy = prepare(folder, inputs, preset, more)
    done = medsanitize("run", policy, "--json", "--workers", str(workers), cwd=folder)
    (folder / "run.log").write_text(done.stdout + done.stderr)
    if done.returncode not in (0, 1, *also):
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
        sys.exit(f"The run ended with exit code {done.returncode}.")
    return Ran(folder, done.returncode, json.loads(done.stdout))


def introduced_errors(ran: Ran) -> tuple[int, int, int]:
    """Count objects held back for an error that their source has not, those compared, and those concerned.

    The policy needs `EVERY_OBJECT`. Errors are compared by attribute and kind: messages that quote a UID
    would be new once it is replaced.
    """
    gate = next(one for one in ran.result["gates"] if one["name"] == "valid DICOM")
    held = sum(ran.result["quarantined"].get(rule, 0) for rule in _INTRODUCED)
    return held, gate["looked_at"] or 0, gate["concerned"] or 0


def everything_written(ran: Ran) -> Iterator[Path]:
    """All files that a run wrote: release, state and log, but not policy and key."""
    yield ran.folder / "run.log"
    for part in ("release", "state"):
        yield from sorted(path for path in (ran.folder / part).rglob("*") if path.is_file())


def views(path: Path) -> Iterator[bytes]:
    """The bytes of a file, inflated as well for deflated DICOM, and the texts of a table."""
    data = path.read_bytes()
    yield data
    if b"1.2.840.10008.1.2.1.99" in data[:1000]:
        # The data set follows the file meta, whose length is in the first element after preamble and
        # prefix.
        start = 144 + int.from_bytes(data[140:144], "little")
        yield zlib.decompressobj(-15).decompress(data[start:])
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        yield repr(pq.read_table(path).to_pydict()).encode()


@dataclass(frozen=True, slots=True)
class Work:
    """A task that sleeps, with an estimate of its seconds."""

    cost: float
    seconds: float


def sleep_through(_: object, batch: Sequence[Work]) -> int:
    """Sleep as long as a batch states."""
    for one in batch:
        time.sleep(one.seconds)
    return len(batch)


def survivors(paths: Iterable[Path], markers: Sequence[bytes], root: Path) -> list[tuple[str, int]]:
    """Search files for markers; return (file, number of the marker) of every hit."""
    from ahocorasick_rs import BytesAhoCorasick

    automaton = BytesAhoCorasick(markers)
    found = set()
    for path in paths:
        for view in views(path):
            hits = automaton.find_matches_as_indexes(view, overlapping=True)
            found.update((str(path.relative_to(root)), number) for number, _, _ in hits)
        # File names are part of a release and may leak as well.
        names = automaton.find_matches_as_indexes(str(path.relative_to(root)).encode(), overlapping=True)
        found.update((str(path.relative_to(root)), number) for number, _, _ in names)
    return sorted(found)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def machine() -> str:
    """Describe the machine of the measurement in one line."""
    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


WITHOUT_GDCM = """
import runpy, sys
from pydicom.pixels.decoders import JPEGBaseline8BitDecoder
# GDCM ends the whole process on a JPEG of 8 bits whose header states fewer.
JPEGBaseline8BitDecoder.remove_plugin("gdcm")
sys.argv = sys.argv[1:]
sys.path.insert(0, __import__("os").path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def script(path: Path, *arguments: str | Path, start: Sequence[str] = ()) -> str:
    """Run one of the shared scripts and return its output; ``start`` are options of the interpreter."""
    done = subprocess.run(
        [sys.executable, *start, str(path), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{path.name} failed:\n{done.stderr[-2000:]}")
    return done.stdout
