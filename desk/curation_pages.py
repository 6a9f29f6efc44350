"""Values that are left, and the lists of the site: what is found wrong there becomes a rule or a word."""

from __future__ import annotations

from typing import Any, Final

from medsanitize import UsageError, add_rule, edit_site_lists, open_values, site_lists, status
from medsanitize.desk.desk import desk_of, project_path
from medsanitize.desk.guard import form_of
from medsanitize.desk.pages import page
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

_ROWS: Final = 100
_ENTRIES: Final = 1_000
_LONGEST_WORD: Final = 256
_FIELDS: Final = ("attribute", "search", "kind", "at_most")
_KINDS: Final = {"public": False, "private": True}


async def show_values(request: Request) -> Response:
    """Show the values of the staged or published objects; searches are sent, never part of an address."""
    form = await form_of(request) if request.method == "POST" else {}
    return await run_in_threadpool(_values, request, form)


def _values(request: Request, form: dict[str, str]) -> Response:
    path, desk = project_path(request), desk_of(request)
    policy, found = desk.policy(path), status(desk.policy(path))
    first, asked = _number(form.get("first", "")), _asked(form)
    listed: Any = None
    if form:
        # An open review locks the release, and listing values locks it for as long as it reads objects.
        desk.reviews.close(path)
        with open_values(policy) as index:
            listed = {
                "objects": index.objects,
                "unlisted": index.unlisted,
                "attributes": index.attributes(private=asked["private"], limit=_ENTRIES),
                "values": index.values(**asked, offset=first, limit=_ROWS),
                "total": index.count(**asked),
            }
    return page(
        request,
        "values.html",
        "Values",
        project=request.path_params["project"],
        status=found,
        form={name: form.get(name, "") for name in _FIELDS},
        listed=listed,
        first=first,
        size=_ROWS,
        longest=_LONGEST_WORD,
        amended=request.query_params.get("amended", ""),
    )


def _asked(form: dict[str, str]) -> dict[str, Any]:
    """Return what a form asks for, as `ValueIndex.values` takes it."""
    most = _number(form.get("at_most", ""))
    return {
        "attribute": form.get("attribute") or None,
        "search": form.get("search", "")[:200],
        "private": _KINDS.get(form.get("kind", "")),
        "at_most": most or None,
    }


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


async def mark_wrong(request: Request) -> Response:
    """Make a rule of an attribute, or a never-word of a value; the next run sanitizes all objects again."""
    form = await form_of(request)
    return await run_in_threadpool(_mark_wrong, request, form)


def _mark_wrong(request: Request, form: dict[str, str]) -> Response:
    path, desk = project_path(request), desk_of(request)
    policy = desk.policy(path)
    desk.reviews.close(path)
    if form.get("attribute"):
        add_rule(path, form["attribute"])
        made = "rule"
    elif form.get("word"):
        edit_site_lists(policy, add_never=[form["word"]])
        made = "word"
    else:
        raise UsageError("Nothing was marked", "Choose an attribute or a value of the list")
    return RedirectResponse(f"/project/{request.path_params['project']}/review/values?amended={made}", 303)


def show_lists(request: Request) -> Response:
    """Show never-words and safe words, which all releases with this state folder share."""
    lists = site_lists(desk_of(request).policy(project_path(request)))
    return page(
        request,
        "lists.html",
        "Lists of the site",
        project=request.path_params["project"],
        lists=(
            ("never", "Never-words", "They are removed wherever they are.", lists.deny),
            ("safe", "Safe words", "They stay where an unknown word would be removed.", lists.allow),
        ),
        most=_ENTRIES,
    )


async def edit_lists(request: Request) -> Response:
    """Add entries, one a line, or remove one."""
    form = await form_of(request)
    return await run_in_threadpool(_edit_lists, request, form)


def _edit_lists(request: Request, form: dict[str, str]) -> Response:
    path, desk = project_path(request), desk_of(request)
    name = form.get("list", "")
    if name not in ("never", "safe"):
        raise UsageError("There is no such list", "Choose never-words or safe words")
    added = [line.strip() for line in form.get("add", "").splitlines() if line.strip()]
    removed = [form["remove"]] if form.get("remove") else []
    desk.reviews.close(path)
    edit_site_lists(desk.policy(path), **{f"add_{name}": added, f"remove_{name}": removed})
    return RedirectResponse(f"/project/{request.path_params['project']}/review/lists", 303)


_BASE: Final = "/project/{project}/review"
ROUTES = [
    Route(f"{_BASE}/values", show_values, methods=["GET", "POST"]),
    Route(f"{_BASE}/values/wrong", mark_wrong, methods=["POST"]),
    Route(f"{_BASE}/lists", show_lists),
    Route(f"{_BASE}/lists", edit_lists, methods=["POST"]),
]
