"""The command doctor: diagnosis of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, command, print_result

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.doctor import Diagnosis


@command("doctor", "medsanitize doctor policy.yaml")
@click.argument("policy", type=FILE, required=False)
def doctor(policy: Path | None, *, as_json: bool, **_: Any) -> int:
    """Show versions, extras, models, resources and folders, and the connections that POLICY makes.

    No connection is made, and the output contains no names, paths or addresses: it can be pasted into a bug
    report. Exit code 5 means that a problem would prevent a run from finishing.
    """
    from medsanitize.pipeline.jobs.doctor import diagnose
    from medsanitize.policies.load import load

    diagnosis = diagnose(load(policy) if policy is not None else None)
    print_result(as_json, diagnosis.as_json(), "\n".join(_lines(diagnosis, with_policy=policy is not None)))
    return diagnosis.exit_code


def _lines(diagnosis: Diagnosis, *, with_policy: bool) -> Iterator[str]:
    from medsanitize import __version__

    machine = diagnosis.machine
    yield f"medsanitize {__version__}, Python {diagnosis.python}, {machine.system}, {machine.architecture}"
    free = f", {_gigabytes(machine.free_memory_bytes)} free" if machine.free_memory_bytes is not None else ""
    yield f"{machine.cores} cores, {_gigabytes(machine.memory_bytes)} of memory{free}; clock {machine.clock}"
    yield f"{machine.fonts:,} fonts installed; programs: " + ", ".join(
        f"{name}{'' if there else ' (not installed)'}" for name, there in machine.programs.items()
    )
    yield "\nExtras"
    for extra in diagnosis.extras:
        state = f"not installed (lacks {', '.join(extra.missing)})" if extra.missing else "installed"
        yield f"  {extra.name:9} {state}{', needed by the policy' if extra.needed else ''}"
    yield "\nModels that packages carry (SHA-256)"
    yield from (f"  {model.package:32} {model.sha256}" for model in diagnosis.models)
    yield "\nLibraries"
    yield "  " + ", ".join(f"{name} {version}" for name, version in diagnosis.libraries.items())
    if with_policy:
        yield "\nFolders"
        for folder in diagnosis.folders:
            locks = {True: ", locks work", False: ", no locks", None: ""}[folder.locks]
            there = {True: "writable", False: "read only", None: "not made yet"}[folder.writable]
            yield f"  {folder.name:16} {_gigabytes(folder.free_bytes)} free, {there}{locks}"
        yield "\nConnections that this policy makes"
        yield from (f"  {one.key}: {one.service}" for one in diagnosis.connections)
        if not diagnosis.connections:
            yield "  none"
    off = [name for name, set_so in diagnosis.switches.items() if not set_so]
    yield "\nTelemetry, downloads and update checks of libraries: " + (
        f"changed by the environment: {', '.join(off)}" if off else "off"
    )
    for one in diagnosis.leftovers:
        yield f"\nFound: {one.what}.\n  {one.remedy}"
    for problem in diagnosis.problems:
        yield f"\nProblem: {problem}"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
