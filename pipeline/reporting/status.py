"""How far a release is, read from the folders of its policy alone: no key, no lock, no input."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from medsanitize.pipeline.reporting.exit_report import RETURN_FILE
from medsanitize.pipeline.reporting.progress_file import RunProgress, read_progress
from medsanitize.pipeline.runtime.workspace import Workspace, workspace_of
from medsanitize.pipeline.state.open_counts import read_outcomes
from medsanitize.policies.model import Policy
from medsanitize.release import layout

Stand = Literal["new", "planned", "running", "awaiting_review", "published", "refused", "stopped"]
_NEXT: Final[Mapping[str, str]] = {
    "new": "Take the inventory of the inputs",
    "planned": "Look at the plan, then run",
    "running": "Wait, or stop the run; it can be resumed",
    "awaiting_review": "Review the staged release and approve it, then run again",
    "published": "Verify the release, and hand it on",
    "refused": "Decide the findings in the review or change the policy, then run again",
    "stopped": "Run again; it goes on where it stopped",
}


@dataclass(frozen=True, slots=True)
class ReleaseStatus:
    """How far a release is.

    Attributes
    ----------
    state : str
        ``new``, ``planned`` (an inventory was taken), ``running``, ``awaiting_review``, ``published``,
        ``refused`` (a gate failed) or ``stopped`` (a signal, an error or a kill ended the run).
    reason, next_step : str
        Why, and what to do.
    outcomes : mapping
        Number of objects by outcome.
    rules : mapping
        Number of objects by outcome and rule, for dropped and quarantined ones.
    gates : tuple of mapping
        The gates of the last complete run.
    progress : RunProgress or None
        Of the run in progress.
    digest : str
        Of the staged or published release.
    ended : str
        When the last run ended (UTC).
    """

    name: str
    version: str
    mode: str
    state: Stand
    reason: str = ""
    next_step: str = ""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    gates: tuple[Mapping[str, Any], ...] = ()
    progress: RunProgress | None = None
    digest: str = ""
    ended: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the status as ``--json`` prints it."""
        return {"type": "result", **asdict(self)}


def status_of(policy: Policy) -> ReleaseStatus:
    """Return how far the release of a policy is."""
    workspace = workspace_of(policy)
    told = _return_file(workspace)
    state, reason = _stand(policy, workspace, told)
    counted = read_outcomes(workspace.database)
    return ReleaseStatus(
        name=workspace.name,
        version=workspace.version,
        mode=policy.release.mode,
        state=state,
        reason=reason,
        next_step=_NEXT[state],
        outcomes=_outcomes(counted) or dict(told.get("outcomes", {})),
        rules=_rules(counted) or {name: dict(told.get(name, {})) for name in ("dropped", "quarantined")},
        gates=tuple(told.get("gates", ())),
        progress=read_progress(workspace.progress) if state == "running" else None,
        digest=str(told.get("digest") or ""),
        ended=str(told.get("ended", "")),
    )


def _stand(policy: Policy, workspace: Workspace, told: Mapping[str, Any]) -> tuple[Stand, str]:
    if read_progress(workspace.progress) is not None:
        return "running", ""
    if _is_published(policy):
        return "published", ""
    ending = told.get("ending")
    if ending == "refused":
        failed = [gate for gate in told.get("gates", ()) if gate.get("result") == "failed"]
        return "refused", " ".join(str(gate.get("detail", "")) for gate in failed)
    if ending == "awaiting_approval":
        return "awaiting_review", "The staged release awaits approval."
    if ending in ("published", "already_published") and not isinstance(policy.output, Path):
        return "published", ""
    if ending in ("failed", "stopped"):
        return "stopped", str((told.get("error") or {}).get("message", ""))
    if workspace.progress.exists():
        return "stopped", "The run was killed."
    if workspace.inventory.exists() or ending == "inventory_done":
        return "planned", ""
    return "new", ""


def _return_file(workspace: Workspace) -> Mapping[str, Any]:
    """Return the exit report of the last run of this release; the folder may hold that of another."""
    try:
        told = json.loads((workspace.state / RETURN_FILE).read_bytes())
        ours = told["release"] == {"name": workspace.name, "version": workspace.version}
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return told if ours and not told.get("shard") else {}


def _is_published(policy: Policy) -> bool:
    if not isinstance(policy.output, Path):
        return False
    try:
        stated = json.loads((policy.output / layout.ROOT).read_bytes())
        return bool((stated["name"], stated["version"]) == (policy.release.name, policy.release.version))
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _outcomes(counted: Mapping[tuple[str, str], int]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for (outcome, _), count in counted.items():
        totals[outcome] = totals.get(outcome, 0) + count
    return totals


def _rules(counted: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    if not counted:
        return {}
    wanted = ("dropped", "quarantined")
    return {
        name: {rule: count for (outcome, rule), count in counted.items() if outcome == name}
        for name in wanted
    }


def stop_run(policy: Policy) -> bool:
    """Ask the run in progress to stop, as Ctrl-C does; return whether there was one on this machine."""
    found = read_progress(workspace_of(policy).progress)
    if found is None or found.host != socket.gethostname():
        return False
    try:
        os.kill(found.pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return False
    return True
