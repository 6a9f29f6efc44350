"""The plan: what happens to each attribute, and any object of the export before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from medsanitize import UsageError, attribute_rules
from medsanitize.desk.desk import Desk, desk_of, project_path
from medsanitize.desk.guard import form_of
from medsanitize.desk.pages import page
from medsanitize.desk.run_pages import live_facts
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_PAGE: Final = 100
_MOST_FILES: Final = 200
_PICTURES: Final = ("before", "after", "changed")


async def show_plan(request: Request) -> Response:
    """Show the attributes that match a search; the search is sent in the body, not in the address."""
    form = await form_of(request) if request.method == "POST" else {}
    return await run_in_threadpool(_plan, request, form)


def _plan(request: Request, form: dict[str, str]) -> Response:
    path, desk = project_path(request), desk_of(request)
    search = form.get("search", "")[:200]
    rules = attribute_rules(desk.policy(path), search)
    first = min(_number(form.get("first", "0")), max(len(rules) - 1, 0))
    last = desk.processes.last(path)
    planned = last.result() if last is not None and last.command == "plan" else None
    return page(
        request,
        "plan.html",
        "Plan",
        project=request.path_params["project"],
        search=search,
        rules=rules[first : first + _PAGE],
        total=len(rules),
        first=first,
        size=_PAGE,
        planned=planned,
        live=live_facts(desk, path),
        preset=desk.policy(path).preset,
    )


def show_files(request: Request) -> Response:
    """Show the files of the export, to choose one that is shown before and after."""
    path, desk = project_path(request), desk_of(request)
    inputs = [one for one in desk.policy(path).inputs if isinstance(one, Path)]
    at = request.query_params.get("at")
    folder = _in_inputs(desk, inputs, at) if at else None
    if folder is None:
        entries = [(desk.names.of(one), one.name, True, 0) for one in inputs]
        total = len(entries)
    else:
        found = list(desk.roots.entries(folder))
        total = len(found)
        first = _number(request.query_params.get("first", "0"))
        entries = [
            (desk.names.of(one.path), one.path.name, one.is_folder, one.size)
            for one in found[first : first + _MOST_FILES]
        ]
    return page(
        request,
        "files.html",
        "Objects",
        project=request.path_params["project"],
        entries=entries,
        at=at,
        total=total,
        first=_number(request.query_params.get("first", "0")),
        size=_MOST_FILES,
        up=None if folder is None or folder in inputs else desk.names.of(folder.parent),
    )


def _in_inputs(desk: Desk, inputs: list[Path], name: str) -> Path:
    """Return the path of a name, if it is within the roots and within an input of the policy."""
    found = desk.path_of(name)
    if not any(found == one or found.is_relative_to(one) for one in inputs):
        raise UsageError("The file is not in the inputs of this policy", "Choose one that is")
    return found


def _number(text: str) -> int:
    return min(int(text), 10**9) if text.isdecimal() and len(text) < 10 else 0


def show_object(request: Request) -> Response:
    """Show one object before and after; nothing is written for it."""
    path, desk = project_path(request), desk_of(request)
    name = request.path_params["file"]
    file = _in_inputs(desk, [one for one in desk.policy(path).inputs if isinstance(one, Path)], name)
    shown = desk.previews.of(path, file)
    return page(
        request,
        "object.html",
        "Object",
        project=request.path_params["project"],
        file=name,
        folder=desk.names.of(file.parent),
        label=file.name,
        shown=shown,
        counts={state: sum(one.state == state for one in shown.header) for state in _STATES},
    )


_STATES: Final = ("same", "changed", "removed", "added")


def picture(request: Request) -> Response:
    """Return one of the pictures of a preview."""
    path, desk = project_path(request), desk_of(request)
    inputs = [one for one in desk.policy(path).inputs if isinstance(one, Path)]
    shown = desk.previews.of(path, _in_inputs(desk, inputs, request.path_params["file"]))
    which = request.path_params["which"]
    content = getattr(shown, which) if which in _PICTURES else shown.parts.get(which, b"")
    return Response(content, 200 if content else 404, media_type="image/png")


ROUTES = [
    Route("/project/{project}/plan", show_plan, methods=["GET", "POST"]),
    Route("/project/{project}/plan/objects", show_files),
    Route("/project/{project}/plan/objects/{file}", show_object),
    Route("/project/{project}/plan/objects/{file}/{which}", picture),
]
