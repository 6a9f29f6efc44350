"""Kill server and sites of a federated training in turn, several times in each job."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from federation_jobs import called, process, run
from medsanitize.pipeline.demo.federation import NAMES, found_federation, prepare_federation
from medsanitize.pipeline.jobs.run_federation import result_of

ROLES = ("server", *NAMES)
# Of a job, before the next kill: a killed process reads its images again meanwhile, or has just begun to.
SHARE = (0.02, 0.3)
A_JOB = 6


def deaths(out: Path, kills: int) -> bool:
    """Kill server and sites in turn at random moments; whether every job ends with the undisturbed model."""
    first = prepare_federation(out / "undisturbed", patients=12, size=128)
    began = time.perf_counter()
    expected, length = run(first)["digest"], time.perf_counter() - began
    images = {name: first.folder / name / "images" for name in NAMES}
    draw, hit, jobs, same = random.Random(0), dict.fromkeys(ROLES, 0), 0, 0  # noqa: S311  moments, not keys
    began = time.perf_counter()
    while sum(hit.values()) < kills:
        folder = out / f"killed-{jobs}"
        folder.mkdir(parents=True)
        wanted = min(A_JOB, kills - sum(hit.values()))
        same += killed(folder, images, hit, wanted, length, draw) == {expected}
        jobs += 1
        done = sum(hit.values())
        print(f"  after {done} kills: {same} of {jobs} jobs ended with the same model", flush=True)
    by_role = ", ".join(f"{name} {count}" for name, count in hit.items())
    print(
        f"\nkill -9 of server and sites in turn: {sum(hit.values())} kills ({by_role}) in {jobs} jobs; {same}"
        f" of {jobs} jobs ended with the model of an undisturbed job at the server and all sites. Undisturbed"
        f" {length:.0f} s, all others {time.perf_counter() - began:.0f} s."
    )
    return same == jobs


def killed(
    folder: Path,
    images: dict[str, Path],
    hit: dict[str, int],
    wanted: int,
    length: float,
    draw: random.Random,
) -> set[str]:
    """Digests of the models of a job whose processes are killed and started again while it runs."""
    tables = {name: (one, one / "labels.csv") for name, one in images.items()}
    federation = found_federation(folder, tables)
    called(folder, "federation", "provision", federation.job)
    invitation = str(folder / "job" / "invitation.json")
    commands = {name: ["site", str(path), invitation] for name, path in federation.sites.items()}
    commands["server"] = ["server", str(federation.job)]
    running = {name: process(arguments) for name, arguments in commands.items()}
    for _ in range(wanted):
        time.sleep(draw.uniform(*SHARE) * length)
        victim = ROLES[sum(hit.values()) % len(ROLES)]
        if running[victim].poll() is not None:
            # The job is over: what is left is killed in another one.
            break
        running[victim].send_signal(signal.SIGKILL)
        running[victim].communicate()
        running[victim] = process(commands[victim])
        hit[victim] += 1
    return {str(result_of(one.communicate()[0])["digest"]) for one in running.values()}
