"""Faults of two hospitals that compare releases: killed processes, fuzzed messages, a recorded transcript.

    python benchmarks/partner_faults.py OUT [--kills 200] [--again 1] [--folder-kills 20] [--messages 2000]

Makes the releases of `medsanitize demo --two-hospitals` in OUT and installs the library there. The parties
are real processes, `party serve` and `overlap --with`, and talk over TLS through a relay that counts bytes.

- **kills**: either side is ended by SIGKILL after a random number of bytes and a random delay. What the
  asking party has printed by then must be the right count or no verdict, and the right count when the same
  command is repeated (after every kill, or after every N-th with `--again N`).
- **folder kills**: the same with messages as files, `overlap --offline` and `party answer`; the command that
  was killed is repeated, and the session must go on to the right count.
- **messages**: random bytes, changed messages, signed nonsense, HTTP that ends early or never, at a server
  with its rate limit; no crash, no answer of status 500, no connection that is open after 180 s.
- **transcript**: everything that passed the relay, the sealed messages in a folder, what their recipients
  decrypt, and the transcripts are searched for every digest of pixels and every identifier of both.

Exits 1 if a verdict was wrong, the server crashed or hung, or anything was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from common import fresh, installed, machine, medsanitize, table
from medsanitize.pipeline.demo.two_hospitals import TwoHospitals, install_for_both, prepare_two_hospitals
from partner_faults_fuzz import prepare, run
from partner_faults_relay import Relay
from partner_faults_search import count_found

SHARED = 3
# A command that takes longer has hung; the machine may be busy.
HUNG = 300.0
# About the time that a command takes.
STARTED = 2.0
KILL_HEAD = ["killed", "runs", "no verdict", "right", "wrong", "hung", "right again", "not right again"]


@dataclass(slots=True)
class Pair:
    """Two parties, the relay between them, and the counts that the asking one must tell."""

    relay: Relay
    right: Mapping[str, int]
    victims: Sequence[str] = ("asking", "answering")
    server: subprocess.Popen[str] | None = None

    def serve(self) -> None:
        """Start the answering party, unless it runs."""
        raise NotImplementedError

    def ask(self) -> subprocess.Popen[str]:
        """Start the asking party."""
        raise NotImplementedError

    def target(self, victim: str, process: subprocess.Popen[str]) -> int:
        """The process to kill; 0 if it is not there any more."""
        one = process if victim == "asking" else self.server
        assert one is not None
        return 0 if one.poll() is not None else one.pid

    def left(self, victim: str) -> str:
        """What those who were not killed have left behind, in a word; nothing if nothing."""
        del victim
        return ""


@dataclass(slots=True, kw_only=True)
class Demo(Pair):
    """The hospitals of the demo, with releases."""

    hospitals: TwoHospitals

    def serve(self) -> None:
        """Start the answering party, unless it runs."""
        if self.server is not None and self.server.poll() is None:
            return
        self.server = started("party", "serve", self.hospitals.answering.policy, "--json")
        assert self.server.stdout is not None
        line = self.server.stdout.readline()
        assert '"port"' in line, line

    def ask(self) -> subprocess.Popen[str]:
        """Start the asking party."""
        asking = self.hospitals.asking
        named = ("--with", self.hospitals.answering.name, "--policy", asking.policy, "--json")
        return started("overlap", asking.release, *named)


def started(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start the command line, outside of the repository's root."""
    command = [sys.executable, "-m", "medsanitize", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd="/", env=installed(), text=True, **pipes)


@contextmanager
def two_parties(out: Path) -> Iterator[Demo]:
    """Release two exports, and yield both hospitals with a relay between them."""
    hospitals = prepare_two_hospitals(out / "hospitals", shared=SHARED)
    install_for_both(hospitals, None)
    for one in (hospitals.asking, hospitals.answering):
        done = medsanitize("run", one.policy, "--workers", "1", "--json", cwd=out)
        assert done.returncode == 0, done.stdout
    port = int(hospitals.address.rpartition(":")[2])
    relay = Relay(port)
    for one in (hospitals.asking, hospitals.answering):
        text = one.policy.read_text().replace("reveal: items", "reveal: count")
        one.policy.write_text(f"{text}      runs: 1000\n")
    with hospitals.asking.policy.open("a") as file:
        file.write(f"      address: https://127.0.0.1:{relay.port}\n")
    pair = Demo(relay, {"pixels": SHARED}, hospitals=hospitals)
    try:
        yield pair
    finally:
        relay.close()
        if pair.server is not None:
            pair.server.terminate()
            pair.server.wait(30)


# -- kills ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Killed:
    """One kill.

    Attributes
    ----------
    victim
        What was killed.
    told, again
        What the asking party told by then, and what the same command told afterwards.
    left
        What the survivors have left behind.
    seconds
        From the kill to the end of the asking party.
    hit
        Whether there was a process to kill.
    """

    victim: str
    told: str
    again: str
    left: str = ""
    seconds: float = 0.0
    hit: bool = True


def verdict(process: subprocess.Popen[str], right: Mapping[str, int]) -> str:
    """Wait for the asking party; ``right``, ``wrong``, ``none`` (no verdict) or ``hung``."""
    try:
        output, _ = process.communicate(timeout=HUNG)
    except subprocess.TimeoutExpired:
        process.kill()
        return "hung"
    for line in output.splitlines():
        with suppress(ValueError):
            told = json.loads(line)
            if told.get("result") == "waiting":
                return "none"
            if "result" in told:
                return "right" if told.get("counts") == right else "wrong"
    # Without a verdict the exit code must not be one.
    return "wrong" if process.returncode in (0, 1, 3) else "none"


def killed_once(pair: Pair, draw: random.Random, most_bytes: int, *, again: bool) -> Killed:
    """Kill one side at a random moment."""
    pair.serve()
    victim = draw.choice(pair.victims)
    after, delay = draw.randrange(most_bytes), draw.random() * draw.choice((0.01, 0.1, 1.0))
    pair.relay.forget()
    process = pair.ask()
    end = time.monotonic() + HUNG
    while pair.relay.passed < after and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    time.sleep(delay)
    if target := pair.target(victim, process):
        with suppress(ProcessLookupError):
            os.kill(target, signal.SIGKILL)
    began = time.monotonic()
    first = verdict(process, pair.right)
    seconds = time.monotonic() - began
    if victim == "answering" and target and pair.server is not None:
        pair.server.wait(30)
    left = pair.left(victim)
    pair.serve()
    return Killed(
        victim,
        first,
        verdict(pair.ask(), pair.right) if again else "not repeated",
        left,
        seconds,
        bool(target),
    )


def kills(pair: Pair, runs: int, every: int, draw: random.Random) -> list[Killed]:
    """Kill as often as asked; the first run is whole, and measures the number of bytes."""
    pair.serve()
    pair.relay.forget()
    assert verdict(pair.ask(), pair.right) == "right"
    most_bytes, found = pair.relay.passed, []
    for number in range(runs):
        found.append(killed_once(pair, draw, most_bytes, again=number % every == 0))
        print(number + 1, found[-1], file=sys.stderr, flush=True)
    return found


def kill_rows(found: list[Killed]) -> list[list[object]]:
    """Rows of the table: kills by side, and what was told."""
    rows: list[list[object]] = []
    for victim in sorted({one.victim for one in found}):
        mine = [one for one in found if one.victim == victim]
        first, again = Counter(one.told for one in mine), Counter(one.again for one in mine)
        told = [first[name] for name in ("none", "right", "wrong", "hung")]
        wrong = sum(again.values()) - again["right"] - again["not repeated"]
        rows.append([victim, len(mine), *told, again["right"], wrong])
    return rows


def folder_killed(pair: Demo, folder: Path, draw: random.Random) -> Killed:
    """Kill one of the commands of a comparison by files, and go on."""
    folder.mkdir()
    asking, answering = pair.hospitals.asking, pair.hospitals.answering
    ask = ["overlap", asking.release, "--with", answering.name, "--policy", asking.policy]
    answer = ["party", "answer", answering.policy]
    killed, last = draw.randrange(7), "none"
    for step in range(20):
        command = [*(ask, answer)[step % 2], "--offline", folder, "--json"]
        if step == killed:
            process = started(*command)
            time.sleep(draw.random() * STARTED)
            process.kill()
            told = verdict(process, pair.right) if step % 2 == 0 else "none"
            if told != "none":
                return Killed("asking", told, told)
        process = started(*command)
        last = verdict(process, pair.right) if step % 2 == 0 else last
        if step % 2:
            process.communicate(timeout=HUNG)
        if last != "none":
            break
    return Killed(("asking", "answering")[killed % 2], "none", last)


# -- the server's memory ----------------------------------------------------------------------


def peak_mb(process: subprocess.Popen[str]) -> float:
    """Largest memory of a process so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    return int(found[1]) / 1e3 if found else float("nan")


def fuzzed(pair: Demo, out: Path, messages: int, draw: random.Random) -> tuple[list[list[object]], bool]:
    """Fuzz the server, then compare honestly; rows of the table, and whether it failed."""
    if pair.server is not None:
        pair.server.terminate()
        pair.server.wait(30)
    parties = prepare(pair.hospitals, out / "strangers", messages)
    pair.serve()
    server = pair.server
    assert server is not None
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(server.stderr or ()), daemon=True)
    reader.start()
    told = run(parties, messages, draw)
    crashed = server.poll() is not None
    memory = float("nan") if crashed else peak_mb(server)
    after = verdict(pair.ask(), pair.right) if not crashed else "crashed"
    bad = crashed or bool(errors) or after != "right" or any(told[name] for name in ("500", "hung"))
    rows: list[list[object]] = [[name, count] for name, count in sorted(told.items())]
    rows += [["lines on stderr", len(errors)], ["peak memory of the server, MB", f"{memory:.0f}"]]
    return [*rows, ["an honest comparison afterwards", after]], bad


def main() -> int:
    """Kill, fuzz, search, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--again", type=int, default=1)
    parser.add_argument("--folder-kills", type=int, default=20)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    out, draw = fresh(given.out), random.Random(given.seed)  # noqa: S311  repeatable
    print(machine())
    with two_parties(out) as pair:
        pair.serve()
        pair.relay.forget()
        failed = verdict(pair.ask(), pair.right) != "right"
        recorded = bytes(pair.relay.recorded)
        forms, size, found = count_found(pair.hospitals, out / "exchange", recorded, medsanitize)
        failed = failed or bool(found)
        print(f"\nSearched {size:,} bytes for {forms:,} forms of digests and identifiers: {found} found.")
        if given.messages:
            rows, bad = fuzzed(pair, out, given.messages, draw)
            failed = failed or bad
            print("\n" + table(["answer to a fuzzed message", "messages"], rows))
        killed = list[Killed]()
        for number in range(given.folder_kills):
            killed.append(folder_killed(pair, out / f"exchange-{number}", draw))
            print(number + 1, killed[-1], file=sys.stderr, flush=True)
        if killed:
            failed = failed or any(one.again != "right" for one in killed)
            print("\n" + table(KILL_HEAD, kill_rows(killed)))
        if given.kills:
            rows = kill_rows(kills(pair, given.kills, given.again, draw))
            failed = failed or any(row[4] or row[5] or row[7] for row in rows)
            print("\n" + table(KILL_HEAD, rows))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
