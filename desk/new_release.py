"""A new release in six questions, and the policy beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePath
from tempfile import NamedTemporaryFile
from typing import Final

from medsanitize import (
    POLICY_QUESTIONS,
    MedsanitizeError,
    PolicyError,
    UsageError,
    draft_policy,
    import_policy,
    keygen,
    policy_problems,
    policy_schema,
)
from medsanitize.desk.desk import Desk, desk_of, project_path
from medsanitize.desk.files import create_text, digest_of, read_text, replace_text
from medsanitize.desk.guard import form_of
from medsanitize.desk.pages import page
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

_MOST_ENTRIES: Final = 500
_KEY: Final = "release.key"


def choose_folder(request: Request) -> Response:
    """Show the folders within the roots, to choose the export."""
    desk = desk_of(request)
    at = request.query_params.get("at")
    folder = desk.path_of(at) if at else None
    if folder is None:
        entries = [(desk.names.of(root), root.name, True) for root in desk.roots.folders]
        total = len(entries)
    else:
        found = list(desk.roots.entries(folder))
        total = len(found)
        entries = [(desk.names.of(one.path), one.path.name, one.is_folder) for one in found[:_MOST_ENTRIES]]
    return page(
        request,
        "choose_folder.html",
        "New release",
        at=at,
        entries=entries,
        left_out=max(total - _MOST_ENTRIES, 0),
        trail=_trail(desk, folder),
    )


def _trail(desk: Desk, folder: Path | None) -> list[tuple[str, str]]:
    """Return names and labels of the folders from the root to here."""
    if folder is None:
        return []
    root = next(one for one in desk.roots.folders if folder.is_relative_to(one))
    steps = [folder, *(one for one in folder.parents if one.is_relative_to(root))]
    return [(desk.names.of(one), one.name) for one in reversed(steps)]


def ask(request: Request) -> Response:
    """Show the questions, and the policy that the first answers make."""
    desk = desk_of(request)
    export = desk.path_of(request.query_params.get("export", ""))
    answers = {"export": str(export)}
    return page(
        request,
        "questions.html",
        "New release",
        questions=POLICY_QUESTIONS[1:],
        export=export,
        export_name=desk.names.of(export),
        homes=[(desk.names.of(root), str(root)) for root in desk.roots.folders],
        text=draft_policy(answers),
    )


async def draft(request: Request) -> Response:
    """Return the policy that answers make, or the problems of a text that was edited."""
    desk, form = desk_of(request), await form_of(request)
    return await run_in_threadpool(_draft, desk, form)


def _draft(desk: Desk, form: Mapping[str, str]) -> Response:
    try:
        text = form["text"] if "text" in form else _drafted(desk, form)
    except MedsanitizeError as error:
        message = f"{error.what}. {error.remedy}."
        return JSONResponse({"problems": [{"line": 1, "column": 1, "message": message}]})
    return JSONResponse({"text": text, "problems": _problems(text, _base(desk, form))})


def _drafted(desk: Desk, form: Mapping[str, str]) -> str:
    answers = {one.name: form[one.name] for one in POLICY_QUESTIONS[1:] if form.get(one.name)}
    answers["export"] = str(desk.path_of(form.get("export", "")))
    return draft_policy(answers, name=form.get("name", ""), version=form.get("version") or "1.0")


def _base(desk: Desk, form: Mapping[str, str]) -> Path:
    if form.get("project"):
        return desk.path_of(form["project"]).parent
    return _home(desk, form)


async def import_rules(request: Request) -> Response:
    """Return the policy that the rules of another program make, and what became of each rule."""
    desk, form = desk_of(request), await form_of(request)
    return await run_in_threadpool(_import_rules, desk, form)


def _import_rules(desk: Desk, form: Mapping[str, str]) -> Response:
    export = desk.path_of(form.get("export", ""))
    try:
        # The program is told from the content, and partly from how the name ends.
        with NamedTemporaryFile(suffix=PurePath(form.get("file", "")).suffix[:12]) as file:
            file.write(form.get("rules", "").encode())
            file.flush()
            made = import_policy(file.name, name=form.get("name") or "my-release")
    except PolicyError as error:
        return JSONResponse({"error": " ".join(f"Line {one.line}: {one.message}." for one in error.problems)})
    except MedsanitizeError as error:
        return JSONResponse({"error": f"{error.what}. {error.remedy}."})
    text = made.text.replace("  - ./export", f"  - {json.dumps(str(export))}", 1)
    lists = {"weaker": made.weaker, "not_carried_over": made.not_carried_over, "carried": made.carried}
    told = {name: [str(one) for one in rules[:_MOST_ENTRIES]] for name, rules in lists.items()}
    told["unnamed"] = list(made.unnamed[:_MOST_ENTRIES])
    return JSONResponse({"text": text, "language": made.language, "rules": made.rules, "told": told})


def _home(desk: Desk, form: Mapping[str, str]) -> Path:
    """Return the folder of a new project: below a root, named as the release, never in the export."""
    home = desk.path_of(form["home"]) if form.get("home") else desk.roots.folders[0]
    return desk.roots.check(home / (form.get("name") or "my-release"))


def _problems(text: str, base: Path) -> list[dict[str, object]]:
    found = policy_problems(text, base=base)
    return [
        {"line": one.line, "column": one.column, "message": f"{one.message}. {one.remedy}."} for one in found
    ]


async def create(request: Request) -> Response:
    """Write the policy and, unless there is one, the release key; then show the project."""
    desk, form = desk_of(request), await form_of(request)
    return await run_in_threadpool(_create, desk, form)


def _create(desk: Desk, form: Mapping[str, str]) -> Response:
    text = form.get("text", "").replace("\r\n", "\n")
    home, export = _home(desk, form), desk.path_of(form.get("export", ""))
    if home == export or home.is_relative_to(export):
        raise UsageError(
            "The folder of the release would be in the export", "Choose another folder for the release"
        )
    if problems := policy_problems(text, base=home):
        raise UsageError(f"The policy has {len(problems)} errors", "Correct the lines that are marked")
    create_text(home / "policy.yaml", text)
    if not (home / _KEY).exists():
        keygen(home / _KEY)
    return RedirectResponse(f"/project/{desk.names.of(home / 'policy.yaml')}/inventory", 303)


def edit(request: Request) -> Response:
    """Show the policy of a project in the editor."""
    path = project_path(request)
    text = read_text(path)
    return page(
        request,
        "policy.html",
        "Policy",
        project=request.path_params["project"],
        text=text,
        digest=digest_of(text),
        problems=policy_problems(text, base=path.parent),
        saved="saved" in request.query_params,
    )


async def save(request: Request) -> Response:
    """Store a policy that has no errors."""
    path, form = project_path(request), await form_of(request)
    return await run_in_threadpool(_save, path, request.path_params["project"], form)


def _save(path: Path, project: str, form: Mapping[str, str]) -> Response:
    text = form.get("text", "").replace("\r\n", "\n")
    if problems := policy_problems(text, base=path.parent):
        raise UsageError(f"The policy has {len(problems)} errors", "Correct the lines that are marked")
    replace_text(path, text, digest=form.get("digest", ""))
    return RedirectResponse(f"/project/{project}/policy?saved", 303)


def schema(_request: Request) -> Response:
    """Return the JSON Schema, from which the editor completes keys."""
    return Response(json.dumps(policy_schema()), media_type="application/json")


ROUTES = [
    Route("/new", choose_folder),
    Route("/new/questions", ask),
    Route("/new/draft", draft, methods=["POST"]),
    Route("/new/import", import_rules, methods=["POST"]),
    Route("/new/create", create, methods=["POST"]),
    Route("/schema", schema),
    Route("/project/{project}/policy", edit),
    Route("/project/{project}/policy", save, methods=["POST"]),
]
