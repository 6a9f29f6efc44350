"""The protocol that every stage implements, and the context that a run passes to it.

A stage is built from its section of the policy (`pipeline.sequence.stages_of`), so its methods do not receive
the whole policy. It reads and writes the state through the typed functions of `pipeline.state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from medsanitize.pipeline.engines.base import Engine
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.pipeline.stages.tally import Tally
from medsanitize.pipeline.state.database import State
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.summary import GateSummary, TableSummary
from medsanitize.sanitize.pseudonyms import SubKeys

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

Phase = Literal["inventory", "objects", "set", "documents"]
"""When a stage runs: before any object is sanitized; on single objects (shards run only these); on the
whole staged set; or on accompanying files, after the engine is closed."""
StagedFinding = tuple[str, str, str]
"""Path in the release, location in the file, rule."""
Advance = Callable[[int], None]
"""Reports how many further objects are done."""


@dataclass(slots=True)
class RunContext:
    """Resources and results that the stages of one run share.

    Parameters
    ----------
    state : State
        The open state.
    engine : Engine
        Calls the workers.
    subkeys : SubKeys
        Keys of pseudonyms, dates and the state.
    workspace : Workspace
        Paths of the release.
    progress : Progress
        Receives stages and counts.
    cancellation : Cancellation
        Checked between objects.
    staging : Path or None
        The staging folder; None in a plan, which writes nothing.
    requeue : callable
        Requeues objects whose staged files are missing, and resets the stages that depend on them.
    search : IdentifierSearch or None
        The identifier search; None before the audit stage.
    tally : Tally
        Counts over the rows of the manifest; empty before it is written.
    tables : tuple of TableSummary
        The accompanying tables; empty before they are written.
    """

    state: State
    engine: Engine
    subkeys: SubKeys
    workspace: Workspace
    staging: Path | None
    progress: Progress
    cancellation: Cancellation
    requeue: Callable[[Iterable[int]], None]
    search: IdentifierSearch | None = None
    tally: Tally = field(default_factory=Tally)
    tables: tuple[TableSummary, ...] = ()

    @property
    def staged(self) -> Path:
        """The staging folder of a run that writes one."""
        if self.staging is None:
            raise RuntimeError("a plan has no staging folder")
        return self.staging


@dataclass(frozen=True, slots=True)
class GateInput:
    """Input of the gates; ``search`` is None in a plan, which stages no file to search."""

    state: State
    tally: Tally
    findings: Sequence[StagedFinding] = ()
    search: IdentifierSearch | None = None

    @property
    def is_plan(self) -> bool:
        """Whether nothing was staged."""
        return self.search is None


class Stage(Protocol):
    """One stage. The defaults suit a stage that has nothing to check, to reset or to decide.

    Attributes
    ----------
    name : str
        Name in progress, timings and reports.
    phase : Phase
        When the stage runs.
    in_plan : bool
        Whether a plan, which writes nothing, runs it too.
    invalidated_by : frozenset of str
        Names of the stages whose new results invalidate the results of this one.
    """

    name: ClassVar[str]
    phase: ClassVar[Phase]
    in_plan: ClassVar[bool] = False
    invalidated_by: ClassVar[frozenset[str]] = frozenset()

    def check(self) -> None:
        """Check files, models and keys of the policy, before an input is read.

        Raises
        ------
        UsageError, KeyMaterialError, IntegrityError
            The stage cannot run with this policy.
        """
        return

    def pending(self, state: State) -> int | None:
        """Return the number of objects ahead: None if it is unknown, 0 if the stage is to be skipped."""
        return None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Process what is pending; results that an interrupted run stored are kept."""

    @staticmethod
    def reset(state: State) -> None:
        """Remove the results of this stage, within the open transaction."""
        return

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Return the gates that this stage decides; their details appear in the public report."""
        return ()
