"""The release: its gates, its report, its verification, and its evidence to take along."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from medsanitize import MedsanitizeError, Release, UsageError, status
from medsanitize.desk.desk import Desk, desk_of, project_path
from medsanitize.desk.find_policies import find_policies
from medsanitize.desk.pages import page
from medsanitize.desk.words import CHECKS
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

# A report is one file with its own style; it may load nothing and run nothing.
_REPORT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"
)
_REPORTS: Final = {"release": "report.html", "internal": "report.html"}


def show_release(request: Request) -> Response:
    """Show the release of a project, or that there is none yet."""
    return _page(request)


def verify_release(request: Request) -> Response:
    """Read every byte of the release again, and check its signature."""
    path, desk = project_path(request), desk_of(request)
    signing = desk.policy(path).keys.signing
    # keygen writes the public key beside the signing key.
    public = None if signing is None else signing.with_name(f"{signing.name}.pub")
    key = public if public is not None and public.is_file() else None
    return _page(request, verified=Release(_folder(desk, path)).verify(key=key))


def compare_with(request: Request) -> Response:
    """Show what changed since another version of the release."""
    desk = desk_of(request)
    earlier = Release(_folder(desk, desk.path_of(request.path_params["other"])))
    release = Release(_folder(desk, project_path(request)))
    return _page(request, changes=release.differences(earlier))


def _page(request: Request, *, verified: Any = None, changes: Any = None) -> Response:
    path, desk = project_path(request), desk_of(request)
    policy, found = desk.policy(path), status(desk.policy(path))
    release, evidence, earlier = None, [], []
    if found.state == "published" and isinstance(policy.output, Path):
        folder = desk.roots.check(policy.output)
        release, earlier = Release(folder), _earlier(desk, path, policy.release.name)
        evidence = [(one.path.name, one.size) for one in desk.roots.entries(folder) if not one.is_folder]
    return page(
        request,
        "release.html",
        "Release",
        project=request.path_params["project"],
        status=found,
        policy=policy,
        checks=CHECKS,
        release=release,
        evidence=evidence,
        earlier=earlier,
        verified=verified,
        changes=changes,
        internal=(policy.state / "report.html").is_file(),
    )


def _earlier(desk: Desk, path: Path, name: str) -> list[tuple[str, str]]:
    """Return other published versions of a release among the projects, as opaque names and versions."""
    listed = []
    for other in find_policies(desk.roots).paths:
        try:
            found = status(desk.policy(other))
        except MedsanitizeError:
            continue
        if other != path and found.name == name and found.state == "published":
            listed.append((desk.names.of(other), found.version))
    return listed


def _folder(desk: Desk, path: Path) -> Path:
    output = desk.policy(path).output
    if not isinstance(output, Path):
        raise UsageError("The release is in a store", "Use the command line: medsanitize verify ADDRESS")
    return desk.roots.check(output)


def show_report(request: Request) -> Response:
    """Return the report of the release, or the internal one of the last run."""
    path, desk = project_path(request), desk_of(request)
    policy = desk.policy(path)
    which = request.path_params["which"]
    if which not in _REPORTS:
        raise UsageError("There is no such report", "Open it from the release")
    folder = policy.state if which == "internal" else _folder(desk, path)
    file = desk.roots.check(folder / _REPORTS[which])
    if not file.is_file():
        raise UsageError("There is no report yet", "Run first")
    return FileResponse(file, media_type="text/html", headers={"Content-Security-Policy": _REPORT_POLICY})


def download(request: Request) -> Response:
    """Return one file of the evidence, by a name that the release folder lists."""
    path, desk = project_path(request), desk_of(request)
    folder = _folder(desk, path)
    wanted = request.path_params["file"]
    found = [one.path for one in desk.roots.entries(folder) if one.path.name == wanted and not one.is_folder]
    if not found:
        raise UsageError("The release has no such file", "Choose one of the list")
    return FileResponse(
        found[0],
        media_type="application/octet-stream",
        filename=wanted,
        content_disposition_type="attachment",
    )


_BASE: Final = "/project/{project}/release"
ROUTES = [
    Route(_BASE, show_release),
    Route(f"{_BASE}/verify", verify_release, methods=["POST"]),
    Route(f"{_BASE}/compare/{{other}}", compare_with),
    Route(f"{_BASE}/report/{{which}}", show_report),
    Route(f"{_BASE}/evidence/{{file}}", download),
]
