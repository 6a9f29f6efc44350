"""What a stage of a run is: the protocol that every stage implements, and what a run hands to it.

A stage is built from its section of the policy (`pipeline.sequence.stages_of`), so its methods never see the
whole policy. It reads and writes the state through the typed functions of `pipeline.state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from medsanitize.pipeline.engines.base import Engine
from medsanitize.pipeline.runtime.progress import Progress
from medsanitize.pipeline.runtime.signals import Cancellation
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.pipeline.stages.tally import Tally
from medsanitize.pipeline.state.database import State
from medsanitize.release.summary import GateSummary, TableSummary
from medsanitize.sanitize.pseudonyms import SubKeys

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

Phase = Literal["inventory", "objects", "set", "documents"]
"""When a stage runs: before any object is sanitized, on single objects (shards run only these), on the
whole staged set, or on what accompanies it once the engine is closed."""
StagedFinding = tuple[str, str, str]
"""Path in the release, location in the file, rule."""
Advance = Callable[[int], None]
"""Reports that so many more objects are done."""


@dataclass(slots=True)
class RunContext:
    """What every stage of one run may use.

    Parameters
    ----------
    staging : Path or None
        The staging folder; None in a plan, which writes nothing.
    requeue : callable
        Queues objects again whose staged files are missing, and resets the stages that depend on them.
    search : IdentifierSearch or None
        The identifier search of the audit, from that stage on.
    tally : Tally
        Counts over the rows of the manifest, once it is written.
    tables : tuple of TableSummary
        The accompanying tables, once they are written.
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
    """What gates are decided from. ``search`` is None in a plan, which stages no file to search."""

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
        Names of the stages whose new results make the results of this one void.
    """

    name: ClassVar[str]
    phase: ClassVar[Phase]
    in_plan: ClassVar[bool] = False
    invalidated_by: ClassVar[frozenset[str]] = frozenset()

    def check(self) -> None:
        """Refuse what cannot work, before any input is read.

        Raises
        ------
        UsageError, KeyMaterialError, IntegrityError
        """
        return

    def pending(self, state: State) -> int | None:
        """Number of objects ahead; None where it is not known beforehand, 0 where there is nothing to do."""
        return None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Do what is pending; what an interrupted run has stored stays done."""

    @staticmethod
    def reset(state: State) -> None:
        """Remove this stage's results, within the open transaction."""
        return

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """The gates that this stage decides; their details are public sentences."""
        return ()
