"""The list of projects, and the overview of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medsanitize import MedsanitizeError, status
from medsanitize.desk.desk import Desk, desk_of, project_path
from medsanitize.desk.find_policies import find_policies
from medsanitize.desk.pages import page
from medsanitize.desk.words import STATES
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@dataclass(frozen=True, slots=True, repr=False)
class Project:
    """A policy in the list: its opaque name, where it is, and how far its release is."""

    name: str
    title: str
    version: str
    folder: str
    state: str
    label: str
    reason: str
    next_step: str
    objects: int


def list_projects(request: Request) -> Response:
    """Show the policies within the roots, and their states."""
    desk = desk_of(request)
    found = find_policies(desk.roots)
    listed = [_project(desk, path) for path in found.paths]
    return page(
        request,
        "projects.html",
        "Projects",
        projects=listed,
        complete=found.is_complete,
        roots=desk.roots.folders,
    )


def show_project(request: Request) -> Response:
    """Show how far one release is, and the next step."""
    path, desk = project_path(request), desk_of(request)
    found = status(desk.policy(path))
    policy = desk.policy(path)
    return page(
        request,
        "overview.html",
        "Overview",
        project=request.path_params["project"],
        status=found,
        label=STATES[found.state],
        policy=policy,
        policy_path=path,
        inputs=[str(one) for one in policy.inputs],
    )


def _project(desk: Desk, path: Path) -> Project:
    name, below = desk.names.of(path), _below_root(desk.roots.folders, path)
    try:
        found = status(desk.policy(path))
    except MedsanitizeError as error:
        reason = "The policy has errors; open it to see them." if "invalid" in error.what else error.what
        return Project(name, path.stem, "", below, "invalid", "Not valid", reason, "Correct the policy", 0)
    return Project(
        name,
        found.name,
        found.version,
        below,
        found.state,
        STATES[found.state],
        found.reason,
        found.next_step,
        sum(found.outcomes.values()),
    )


def _below_root(folders: tuple[Path, ...], path: Path) -> str:
    """Return a path as it is told on the page: from the name of its root on."""
    root = next(one for one in folders if path.is_relative_to(one))
    return str(Path(root.name) / path.relative_to(root))


ROUTES = [
    Route("/", list_projects),
    Route("/project/{project}", show_project),
]
