"""The inventory, the plan's counts and the run: started as processes, shown live."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from medsanitize import status, stop, stored_inventory
from medsanitize.desk.desk import Desk, desk_of, project_path
from medsanitize.desk.guard import COOKIE, form_of
from medsanitize.desk.pages import page, shown_duration
from medsanitize.desk.words import CHECKS, STATES
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

_EVERY_SECONDS: Final = 1.0
_NO_PROGRESS: Final = {"stage": "", "done": 0, "total": None, "rate": "", "left": "", "since": ""}
_OUTCOMES: Final = ("released", "dropped", "quarantined", "pending")


def live_facts(desk: Desk, path: Path) -> dict[str, Any]:
    """Return what the progress of a project shows: stage, rate, time left, counts by outcome and reason."""
    found = status(desk.policy(path))
    told = found.progress
    facts: dict[str, Any] = {
        "state": found.state,
        "label": STATES[found.state],
        "busy": found.state == "running" or desk.processes.is_busy(path),
        **_NO_PROGRESS,
        "outcomes": [[name, found.outcomes[name]] for name in _OUTCOMES if name in found.outcomes],
        "reasons": [
            [name, rule, count]
            for name, rules in found.rules.items()
            for rule, count in sorted(rules.items(), key=lambda one: -one[1])
        ],
    }
    if told is not None:
        left = told.seconds_left
        facts |= {
            "stage": told.stage or "starting",
            "done": told.done,
            "total": told.total,
            "rate": f"{told.rate:,.1f} per second" if told.done else "",
            "left": "" if left is None else f"{shown_duration(left)} left in this stage",
            "since": shown_duration(told.run_seconds),
            "finished": [[one.name, one.objects, shown_duration(one.wall_seconds)] for one in told.finished],
            "messages": list(told.messages),
        }
    return facts


def show_inventory(request: Request) -> Response:
    """Show what the export contains, or offer to count it."""
    path, desk = project_path(request), desk_of(request)
    return page(
        request,
        "inventory.html",
        "Inventory",
        project=request.path_params["project"],
        policy=desk.policy(path),
        counts=stored_inventory(desk.policy(path)),
        live=live_facts(desk, path),
        failure=_failure(desk, path, "inventory"),
    )


def show_run(request: Request) -> Response:
    """Show the run: its progress, or how the last one ended."""
    path, desk = project_path(request), desk_of(request)
    return page(
        request,
        "run.html",
        "Run",
        project=request.path_params["project"],
        policy=desk.policy(path),
        status=status(desk.policy(path)),
        live=live_facts(desk, path),
        failure=_failure(desk, path, "run"),
        checks=CHECKS,
        policy_path=path,
    )


def _failure(desk: Desk, path: Path, command: str) -> str:
    """Return why the command did not start or end, if this desk started it last."""
    last = desk.processes.last(path)
    result = last.result() if last is not None and last.command == command else None
    return str(result.get("message", "")) if result and result.get("type") == "error" else ""


async def start(request: Request) -> Response:
    """Start a command on the policy, as the command line would."""
    path, desk, form = project_path(request), desk_of(request), await form_of(request)
    desk.policy(path)  # refused before anything is started
    command = form.get("command", "")
    if command not in ("inventory", "plan", "run"):
        return RedirectResponse(f"/project/{request.path_params['project']}", 303)
    # A review locks the folders; nobody who starts a run reviews it.
    await run_in_threadpool(desk.reviews.close, path)
    await run_in_threadpool(desk.processes.start, command, path)
    return RedirectResponse(f"/project/{request.path_params['project']}/{command}", 303)


async def stop_command(request: Request) -> Response:
    """Stop the run; it may be that of somebody else, on the command line."""
    path, desk = project_path(request), desk_of(request)
    if not await run_in_threadpool(stop, desk.policy(path)):
        desk.processes.terminate(path)
    return RedirectResponse(f"/project/{request.path_params['project']}/run", 303)


async def events(request: Request) -> Response:
    """Send the progress as server-sent events until nothing is at work, or nobody is in."""
    path, desk = project_path(request), desk_of(request)

    async def told() -> AsyncIterator[str]:
        while desk.sessions.find(request.cookies.get(COOKIE, ""), touch=False) is not None:
            facts = await run_in_threadpool(live_facts, desk, path)
            yield f"data: {json.dumps(facts)}\n\n"
            if not facts["busy"]:
                return
            await asyncio.sleep(_EVERY_SECONDS)

    return StreamingResponse(told(), media_type="text/event-stream")


ROUTES = [
    Route("/project/{project}/inventory", show_inventory),
    Route("/project/{project}/run", show_run),
    Route("/project/{project}/start", start, methods=["POST"]),
    Route("/project/{project}/stop", stop_command, methods=["POST"]),
    Route("/project/{project}/events", events),
]
