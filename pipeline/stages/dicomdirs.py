"""The stage dicomdirs: what a DICOMDIR lists, compared with what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.listed_files import (
    all_paths_found,
    count_listed,
    mark_missing,
    missing_files,
    not_found_by_uid,
)
from medsanitize.pipeline.state.stage_results import LISTED_COMPARED
from medsanitize.pipeline.storage.containers.address import shown
from medsanitize.release.summary import GateSummary


@dataclass(frozen=True, slots=True)
class DicomdirsStage(Stage):
    """Compare the files that every DICOMDIR lists with those that were found."""

    name: ClassVar = "dicomdirs"
    phase: ClassVar[Phase] = "inventory"
    in_plan: ClassVar = True
    invalidated_by: ClassVar = frozenset({"inventory"})

    def pending(self, state: State) -> int | None:
        """Return 0 if the comparison was made."""
        return 0 if LISTED_COMPARED.is_set(state) else None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Mark the listed files that are missing."""
        find_missing(context.state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Return the gate, if there is a DICOMDIR."""
        return listed_gate(judged.state)


def find_missing(state: State) -> None:
    """Mark every listed file of which neither the SOP Instance UID nor the path was found."""
    absent: dict[bytes, list[int]] = {}
    for number, directory, path in not_found_by_uid(state):
        absent.setdefault(_comparable(listed_path(directory, path)), []).append(number)
    if absent:
        for path in all_paths_found(state):
            absent.pop(_comparable(shown(path)), None)
    with state.transaction():
        mark_missing(state, (number for numbers in absent.values() for number in numbers))
        LISTED_COMPARED.set(state)


def listed_path(directory: bytes, path: bytes) -> bytes:
    """Return the path that a DICOMDIR at ``directory`` refers to, in the form that people read."""
    folder, slash, _ = shown(directory).rpartition(b"/")
    return folder + slash + path


def missing_paths(state: State, limit: int = -1) -> Iterator[bytes]:
    """Yield the paths of the listed files that are missing, in the form that people read."""
    for directory, path in missing_files(state, limit):
        yield listed_path(directory, path)


def _comparable(path: bytes) -> bytes:
    # File IDs are upper case (PS3.10 8.2); copies of a disk often are not.
    return path.lower()


def listed_gate(state: State) -> tuple[GateSummary, ...]:
    """Decide the gate ``files that a DICOMDIR lists``; there is none without a DICOMDIR."""
    directories, listed, missing = count_listed(state)
    if not directories:
        return ()
    name = "files that a DICOMDIR lists"
    told = f"{_counted(directories, 'DICOMDIR')} of the inputs {'lists' if directories == 1 else 'list'}"
    told += f" {_counted(listed, 'file')}"
    if not listed:
        return (GateSummary(name, "not_applicable", f"{told}."),)
    if missing:
        detail = f"{told}; {missing:,} of them {'is' if missing == 1 else 'are'} not in the inputs."
        return (GateSummary(name, "flagged", detail),)
    return (GateSummary(name, "passed", f"{told}; all are in the inputs."),)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
