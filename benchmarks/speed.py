"""CPU time per file, compared in one run: copying, hashing, pydicom, other tools, and a whole release.

    python benchmarks/speed.py OUT [--small 2000] [--big 20] [--slide 300] [--rounds 5] [--python PYTHON]

Makes its own files. Figures are medians over the rounds, in milliseconds of CPU per file, without start-up
(the time for the first files, which include each transfer syntax, is subtracted); ratios are to "pydicom:
read, touch every value, write" for small files and to "cp + sha256sum" for large ones. dcmodify and gdcmanon
are measured if installed, dicognito and dicom-anonymizer with the Python of a virtual environment that has
them. A slide follows by wall time (`slides_speed.py`). OUT/speed.png shows the figures. Exits 1 if a target
is missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pydicom
import slides_speed
from common import Ran, fresh, machine, run, table
from files import make_big, make_small

BARS = {
    "small": {"medsanitize: sanitize": 0.12, "medsanitize: whole run": 0.30},
    "big": {"medsanitize: whole run": 2.0},
}
YARDSTICKS = {"small": "pydicom: read, touch, write", "big": "cp + sha256sum"}
# Files per call of a program: command lines are limited in length.
AT_ONCE = 200
SET = ("PatientName", "PatientID", "PatientBirthDate", "InstitutionName", "ReferringPhysicianName")


def children_cpu(work: Callable[[], object]) -> float:
    """CPU seconds that child processes used during ``work``."""
    # RUSAGE_CHILDREN counts only children that have been waited for, as subprocess.run() does.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tool(*command: str | Path) -> Callable[[], object]:
    """Call a system program and discard its output."""
    nowhere = subprocess.DEVNULL
    words = [str(word) for word in command]
    return lambda: subprocess.run(words, check=True, stdout=nowhere, stderr=nowhere)


def pydicom_cpu(source: Path, target: Path) -> float:
    """CPU seconds of reading, touching and writing every file, without start-up."""
    script = Path(__file__).parent / "yardstick.py"
    command = [sys.executable, str(script), str(source), str(target)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def peers(python: Path | None, scratch: Path) -> dict[str, Callable[[Path, Path], object]]:
    """Other installed programs, each as a function of an input and an output folder.

    dcmodify sets a few attributes and knows no profile: it shows the cost of reading and writing in C++.
    """
    found: dict[str, Callable[[Path, Path], object]] = {}
    if shutil.which("dcmodify"):
        found["dcmodify (five attributes)"] = dcmodify
    if shutil.which("gdcmanon"):
        key, certificate = scratch / "key.pem", scratch / "certificate.pem"
        made = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=benchmark")
        subprocess.run(
            ["openssl", *made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
        )
        # gdcmanon encrypts the original values and needs a certificate for it.
        call = ("gdcmanon", "-e", "-c", certificate, "--continue", "-r")
        found["gdcmanon"] = lambda source, target: tool(*call, "-i", source, "-o", target)()
    if python is not None:
        call_own = (python, "-m", "dicognito", "--quiet", "--seed", "benchmark")
        found["dicognito"] = lambda source, target: tool(*call_own, "-o", target, source)()
        program = python.parent / "dicom-anonymizer"
        found["dicom-anonymizer"] = lambda source, target: tool(program, source, target)()
    return found


def dcmodify(source: Path, target: Path) -> None:
    """Modify copies in place; copying is not counted, since it is not CPU time of a child."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    files = sorted(target.iterdir())
    for start in range(0, len(files), AT_ONCE):
        changes = [word for name in SET for word in ("-i", f"{name}=")]
        tool("dcmodify", "-nb", *changes, *files[start : start + AT_ONCE])()


def first_files(source: Path, scratch: Path) -> Path:
    """Make a folder with the first files, until each transfer syntax occurs.

    The time for them is start-up and little work.
    """
    folder = scratch / "first-files"
    if not folder.exists():
        folder.mkdir()
        syntaxes = {file: syntax_of(file) for file in sorted(source.iterdir())}
        # What a tool loads for a transfer syntax belongs to its start-up.
        last = max(list(syntaxes.values()).index(syntax) for syntax in set(syntaxes.values()))
        for file in list(syntaxes)[: last + 1]:
            shutil.copy(file, folder)
    return folder


def syntax_of(file: Path) -> str:
    """The transfer syntax stated by a file."""
    return str(pydicom.filereader.read_file_meta_info(file).TransferSyntaxUID)


def of_all(spent: float, start: float, source: Path, few: Path) -> float:
    """CPU seconds for all files of ``source`` without start-up, where ``few`` took ``start``."""
    count, started = len(list(source.iterdir())), len(list(few.iterdir()))
    if count <= started:
        sys.exit("There are too few files to tell a program's start from its work: name more.")
    return max(spent - start, 0.0) * count / (count - started)


def peer_cpu(call: Callable[[Path, Path], object], source: Path, scratch: Path) -> float:
    """CPU seconds of a program for all files, without its start-up."""
    few = first_files(source, scratch)
    spent = []
    for number, folder in enumerate((few, source)):
        target = scratch / f"peer-{number}"
        target.mkdir()
        spent.append(children_cpu(lambda folder=folder, target=target: call(folder, target)))  # type: ignore[misc]
    # A tool that skips files would look fast.
    if len(list(target.rglob("*"))) < len(list(source.iterdir())):
        sys.exit("A peer did not write every file: the figures would mislead.")
    for folder in (scratch / "peer-0", scratch / "peer-1"):
        shutil.rmtree(folder)
    return of_all(spent[1], spent[0], source, few)


def release(out: Path, source: Path, workers: int) -> tuple[Ran, float]:
    """Run one whole release; return it with its wall seconds, without start-up."""
    before = time.monotonic()
    ran = run(out, source, "ps3.15-basic", workers=workers)
    wall = time.monotonic() - before
    staged = [stage["wall_seconds"] for stage in ran.result["stages"]]
    # Stages exclude the start of the interpreter.
    return ran, sum(staged) or wall


def stage_cpu(ran: Ran) -> dict[str, float]:
    """CPU seconds by stage."""
    return {stage["name"]: float(stage["cpu_seconds"]) for stage in ran.result["stages"]}


def one_round(source: Path, scratch: Path, python: Path | None) -> dict[str, float]:
    """Measure everything once; CPU seconds by name."""
    files = sorted(source.iterdir())
    scratch.mkdir()
    seconds = {
        "cp": children_cpu(tool("cp", "-r", source, scratch / "cp")),
        "sha256sum": children_cpu(tool("sha256sum", *files)),
        "pydicom: read, touch, write": pydicom_cpu(source, scratch / "pydicom"),
    }
    seconds["cp + sha256sum"] = seconds["cp"] + seconds["sha256sum"]
    seconds |= {name: peer_cpu(call, source, scratch) for name, call in peers(python, scratch).items()}
    few = first_files(source, scratch)
    start = stage_cpu(release(scratch / "start", few, 1)[0])
    one, wall_one = release(scratch / "one", source, 1)
    two, wall_two = release(scratch / "two", source, 2)
    stages = {name: of_all(cpu, start[name], source, few) for name, cpu in stage_cpu(one).items()}
    seconds |= {f"medsanitize: {name}": cpu for name, cpu in stages.items()}
    seconds["medsanitize: whole run"] = sum(stages.values())
    seconds["wall, 1 worker"], seconds["wall, 2 workers"] = wall_one, wall_two
    check_released(one, len(files))
    check_released(two, len(files))
    shutil.rmtree(scratch)
    return seconds


def check_released(ran: Ran, count: int) -> None:
    """Reject figures of a run that did not release all input."""
    if len(ran.released()) != count:
        sys.exit(f"Only {len(ran.released())} of {count} objects were released: the figures would mislead.")


def measured(source: Path, out: Path, rounds: int, python: Path | None) -> dict[str, float]:
    """Medians over the rounds, in milliseconds per file."""
    count = sum(1 for _ in source.iterdir())
    each = [one_round(source, out / f"round-{number}", python) for number in range(rounds)]
    return {name: statistics.median(one[name] for one in each) / count * 1000 for name in each[0]}


def show(title: str, figures: dict[str, float], yardstick: str) -> str:
    """A Markdown section with the figures and their ratios."""
    rows: list[tuple[Any, ...]] = [
        (name, f"{value:.3f}", f"{value / figures[yardstick]:.3f}")
        for name, value in figures.items()
        # Wall times are shown as the gain of a second worker only.
        if not name.startswith("wall")
    ]
    gain = figures["wall, 1 worker"] / figures["wall, 2 workers"]
    return (
        f"### {title}\n\n"
        + table(("what", "CPU ms a file", f"ratio to {yardstick}"), rows)
        + f"\n\nTwo workers: {gain:.2f} times one (wall time of the stages).\n"
    )


def plot(sections: dict[str, dict[str, float]], path: Path) -> None:
    """Bar charts of CPU time per file, one per kind of file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawn, axes = plt.subplots(1, len(sections), figsize=(6.5 * len(sections), 4), layout="constrained")
    for axis, (kind, figures) in zip([axes] if len(sections) == 1 else axes, sections.items(), strict=True):
        names = [name for name in figures if not name.startswith("wall") and figures[name] > 0.005]
        names.sort(key=figures.__getitem__, reverse=True)
        colors = ["tab:orange" if name.startswith("medsanitize") else "tab:blue" for name in names]
        axis.barh(names, [figures[name] for name in names], color=colors)
        axis.set(xscale="log", xlabel="CPU ms a file", title=f"{kind} files")
    drawn.savefig(path, dpi=120)


def missed(kind: str, figures: dict[str, float]) -> list[str]:
    """Missed targets as sentences."""
    yardstick = figures[YARDSTICKS[kind]]
    return [
        f"{name}, {kind} files: {figures[name] / yardstick:.3f}, target at most {bar}"
        for name, bar in BARS[kind].items()
        if figures[name] > bar * yardstick
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the files, measure, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--small", type=int, default=2000, help="number of small files (0: none)")
    parser.add_argument("--big", type=int, default=20, help="number of large files (0: none)")
    parser.add_argument("--slide", type=int, default=300, help="megabytes of the slide (0: none)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", type=Path, help="a virtual environment's, with the peers of PyPI")
    given = parser.parse_args(arguments)
    out = fresh(given.out)
    print(f"{machine()}; load {os.getloadavg()[0]:.1f} at the start\n")
    makers = {
        "small": (make_small, given.small, "39 KB"),
        "big": (make_big, given.big, "15.7 MB, a fifth RLE"),
    }
    sections, told = {}, []
    for kind, (make, count, size) in makers.items():
        if count:
            make(out / kind, count)
            sections[kind] = measured(out / kind, out, given.rounds, given.python)
            print(show(f"{count} {kind} files ({size})", sections[kind], YARDSTICKS[kind]))
            told += missed(kind, sections[kind])
            shutil.rmtree(out / kind)
    if sections:
        plot(sections, out / "speed.png")
    if given.slide:
        figures = slides_speed.measured(out / "slide", given.slide, given.rounds, 1, comments=False)
        text, kept = slides_speed.report(figures, given.slide)
        print(text)
        told += [] if kept else ["slides: above their target"]
    for line in told:
        print(line, file=sys.stderr)
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
