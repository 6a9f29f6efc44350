"""The pages of the desk: which function answers which address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Final

from medsanitize import MedsanitizeError, PolicyError
from medsanitize.desk import (
    curation_pages,
    new_release,
    plan_pages,
    projects,
    release_pages,
    review_pages,
    run_pages,
    second_review_pages,
)
from medsanitize.desk.desk import Desk
from medsanitize.desk.guard import COOKIE, form_of
from medsanitize.desk.pages import page
from medsanitize.desk.roots import Roots
from medsanitize.desk.sessions import Sessions
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def desk_app(roots: Roots, sessions: Sessions) -> Starlette:
    """Return the application; `Guard` has to stand before it."""
    desk = Desk(roots, sessions)
    application = Starlette(
        routes=[
            Route("/enter", _enter, methods=["GET", "POST"]),
            Route("/leave", _leave, methods=["POST"]),
            Route("/assets/{name:path}", _asset),
            *projects.ROUTES,
            *new_release.ROUTES,
            *plan_pages.ROUTES,
            *run_pages.ROUTES,
            *review_pages.ROUTES,
            *second_review_pages.ROUTES,
            *curation_pages.ROUTES,
            *release_pages.ROUTES,
        ],
        lifespan=_closing,
        exception_handlers={
            MedsanitizeError: _refused,
            Exception: _failed,
            404: _missing,
            405: _missing,
        },
    )
    application.state.desk = desk
    return application


@asynccontextmanager
async def _closing(application: Starlette) -> AsyncIterator[None]:
    """End the worker of previews with the desk; runs go on."""
    yield
    application.state.desk.close()


async def _enter(request: Request) -> Response:
    """Exchange the one-time token, or the password, for the cookie of a session."""
    sessions: Sessions = request.app.state.desk.sessions
    if request.method == "POST":
        form = await form_of(request)
        # In a thread: nothing that waits may hold up the pages of others.
        cookie = await run_in_threadpool(
            sessions.enter_with_password, form.get("password", ""), form.get("reviewer", "")
        )
    else:
        cookie = sessions.enter_with_token(request.query_params.get("token", ""))
    if cookie is None:
        status = 200 if request.method == "GET" and "token" not in request.query_params else 403
        by_password = sessions.password is not None
        return page(request, "enter.html", "Enter", code=status, by_password=by_password, wrong=status == 403)
    # Not a redirect: a browser does not send a strict cookie along a chain that another program began.
    answer = page(request, "entered.html", "Entered")
    secure = request.url.scheme == "https" or sessions.password is not None
    answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=secure, path="/")
    return answer


async def _leave(request: Request) -> Response:
    request.app.state.desk.sessions.leave(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/enter", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


async def _asset(request: Request) -> Response:
    """Return one of the files of the package, by name from a list: a path is never put together."""
    content = _assets().get(request.path_params["name"])
    if content is None:
        return await _missing(request, LookupError())
    kind = request.path_params["name"].rpartition(".")[2]
    return Response(content, media_type=_TYPES[kind], headers={"Cache-Control": "no-cache"})


def _assets() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    ahead = [("", files("medsanitize.desk").joinpath("assets"))]
    while ahead:
        prefix, folder = ahead.pop()
        for one in folder.iterdir():
            if one.is_dir():
                ahead.append((f"{prefix}{one.name}/", one))
            elif one.name.rpartition(".")[2] in _TYPES:
                found[f"{prefix}{one.name}"] = one.read_bytes()
    return found


async def _refused(request: Request, error: Exception) -> Response:
    """Show what happened and what to do; messages of this package contain no value."""
    problems = error.problems if isinstance(error, PolicyError) else ()
    what, remedy = getattr(error, "what", ""), getattr(error, "remedy", "")
    return page(request, "error.html", "Not possible", code=409, what=what, remedy=remedy, problems=problems)


async def _failed(_request: Request, error: Exception) -> Response:
    # Not its text: the message of a foreign exception may quote a value.
    return PlainTextResponse(f"A defect of the program: {type(error).__name__}", 500)


async def _missing(request: Request, _error: Exception) -> Response:
    return page(
        request,
        "error.html",
        "Not found",
        code=404,
        what="There is no such page",
        remedy="Go back to the projects",
        problems=(),
    )
