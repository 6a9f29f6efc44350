"""Faults of near comparisons: killed processes, and fuzzed messages on their connection.

    python benchmarks/near_faults.py OUT [--kills 200] [--again 10] [--messages 2000] [--library FOLDER]

Both parties are real processes over TLS, with SPU in processes of their own, and 12 and 15 random patients of
whom 3 are the same people. The library is installed into OUT, unless a folder with it is named.

- **kills**: either party, or the process of its library, is ended by SIGKILL after a random number of bytes
  and a random delay. The asking party must tell the right count or none, and end; no process of a library,
  no socket and no temporary folder of a survivor may be there 30 s later; whatever the asking party has paid
  for, the answering party must have counted; and the server must give the right count to the same command.
- **messages**: see `near_faults_fuzz.py`; then an honest comparison.

Exits 1 if anything of that does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common import fresh, installed, machine, table
from medsanitize.federation.libraries.install import install_library
from medsanitize.federation.near.install import SPU
from medsanitize.federation.parties.identity import IDENTITY, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.private_overlap.budget import QUERIES
from near_faults_fuzz import fuzz
from near_faults_party import SIZES
from near_partners import SHARED
from partner_faults import KILL_HEAD, Killed, Pair, kill_rows, kills, peak_mb, verdict
from partner_faults_relay import Relay

PARTY = Path(__file__).with_name("near_faults_party.py")
STEPS = "near/steps.py"
# Processes that are still there after this time have been left behind.
GONE = 30.0
VICTIMS = ("asking", "answering", "library of asking", "library of answering")


@dataclass(slots=True, kw_only=True)
class NearPair(Pair):
    """Two parties of near comparisons."""

    folder: Path

    def serve(self) -> None:
        """Start the answering party, unless it runs."""
        if self.server is None or self.server.poll() is not None:
            self.server = self._started("serve", "south")
            assert self.server.stdout is not None
            self.relay.target = json.loads(self.server.stdout.readline())["port"]

    def ask(self) -> subprocess.Popen[str]:
        """Start the asking party."""
        return self._started("ask", "north", f"https://127.0.0.1:{self.relay.port}")

    def target(self, victim: str, process: subprocess.Popen[str]) -> int:
        """The party, or its child process."""
        found = Pair.target(self, victim.rpartition(" ")[2], process)
        return next(iter(children(found)), 0) if victim.startswith("library") and found else found

    def left(self, victim: str) -> str:
        """Name processes, folders and missing entries of the budget."""
        end, found = time.monotonic() + GONE, "something"
        while found and time.monotonic() < end:
            time.sleep(0.05)
            found = " ".join(self._left(victim))
        for name in ("north", "south"):
            # What a killed party leaves is not the other one's.
            for path in self._temporary(name).glob("*/*"):
                path.unlink()
            for path in self._temporary(name).iterdir():
                path.rmdir()
        return found

    def _left(self, victim: str) -> Iterator[str]:
        if libraries(self.folder):
            yield "process"
        for name, party in (("north", "asking"), ("south", "answering")):
            if victim != party and list(self._temporary(name).iterdir()):
                yield "folder"
        paid, answered = (sessions(self.folder / name) for name in ("north", "south"))
        if paid - answered:
            yield "unpaid"

    def _started(self, role: str, name: str, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(PARTY), role, str(self.folder), *more]
        environment = {**installed(), "TMPDIR": str(self._temporary(name))}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd="/", env=environment, text=True, **pipes)

    def _temporary(self, name: str) -> Path:
        # Short: paths of sockets have at most 107 characters.
        found = self.folder / f"t{name[0]}"
        found.mkdir(exist_ok=True)
        return found


def children(parent: int) -> Iterator[int]:
    """The processes of a library that a process has started."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if STEPS in (path / "cmdline").read_text() and _parent(path) == parent:
                yield int(path.name)
        except OSError:
            continue


def _parent(path: Path) -> int:
    return int((path / "stat").read_text().rpartition(")")[2].split()[1])


def libraries(folder: Path) -> list[str]:
    """Every process of the library in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_text()
        except OSError:
            continue
        if STEPS in command and str(folder) in command:
            found.append(path.name)
    return found


def sessions(party: Path) -> set[str]:
    """The sessions that a party has counted."""
    path = party / QUERIES
    lines = path.read_text().splitlines() if path.is_file() else []
    return {str(json.loads(line)["session"]) for line in lines}


@contextmanager
def two_parties(out: Path, library: Path | None) -> Iterator[NearPair]:
    """Make both parties, with a relay between them."""
    for name in ("north", "south"):
        create_party(out / name, name)
    north, south = open_party(out / "north"), open_party(out / "south")
    for one, other in ((north, south), (south, north)):
        trust_partner(one, other.folder / IDENTITY, other.identity.fingerprint)
    if library is None:
        install_library(SPU, north.folder, None)
    else:
        SPU.of(north.folder).symlink_to(library.resolve())
    relay = Relay(0)
    pair = NearPair(relay, {"near": SHARED}, VICTIMS, folder=out)
    try:
        yield pair
    finally:
        relay.close()
        if pair.server is not None:
            pair.server.terminate()
            pair.server.wait(90)


def killed(pair: NearPair, runs: int, every: int, draw: random.Random) -> bool:
    """Kill and print; whether anything went wrong."""
    found = kills(pair, runs, every, draw)
    print("\n" + table(KILL_HEAD, kill_rows(found)))
    hit = [one for one in found if one.hit]
    slowest = max((one.seconds for one in hit), default=0.0)
    left = [one.left for one in found if one.left]
    print(f"\n{len(hit)} of {len(found)} kills hit a process.")
    print(f"The asking party ended {slowest:.1f} s after it at the latest.")
    print(f"Left behind: {', '.join(left) or 'nothing'}.")
    return bool(left) or any(_is_bad(one) for one in found)


def _is_bad(one: Killed) -> bool:
    return one.told in ("wrong", "hung") or one.again not in ("right", "not repeated")


def fuzzed(pair: NearPair, messages: int, draw: random.Random) -> bool:
    """Fuzz the server and the asking party, and print; whether anything went wrong."""
    fuzzing = fuzz(pair.folder, messages)
    pair.serve()
    server = pair.server
    assert server is not None
    errors: list[str] = []
    threading.Thread(target=lambda: errors.extend(server.stderr or ()), daemon=True).start()
    told = fuzzing(pair.relay.target, draw)
    crashed = server.poll() is not None
    memory = float("nan") if crashed else peak_mb(server)
    after = "crashed" if crashed else verdict(pair.ask(), pair.right)
    left = pair.left("")
    rows: Sequence[Sequence[object]] = [[name, count] for name, count in sorted(told.items())]
    print("\n" + table(["what became of a fuzzed message", "messages"], rows))
    print(f"\nLines on stderr: {len(errors)}; peak memory of the server: {memory:.0f} MB")
    print(f"left behind: {left or 'nothing'}")
    print(f"an honest comparison afterwards: {after}")
    sys.stderr.writelines(errors[:40])
    return bool(errors or left) or after != "right" or any(name.startswith("BAD") for name in told)


def main() -> int:
    """Kill, fuzz, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--again", type=int, default=10)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    out, draw, failed = fresh(given.out), random.Random(given.seed), False  # noqa: S311  repeatable
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(f"{machine()}\n{SIZES[0]} x {SIZES[1]} patients, {SHARED} in both")
    with two_parties(out, given.library) as pair:
        if given.messages:
            failed = fuzzed(pair, given.messages, draw)
        if given.kills:
            failed = killed(pair, given.kills, given.again, draw) or failed
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
