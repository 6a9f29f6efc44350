"""Who decides: approvals by several persons, the sample that each judges, and who decided what."""

from __future__ import annotations

from typing import Any, Final

from medsanitize import UsageError
from medsanitize.desk.guard import form_of, session_of
from medsanitize.desk.pages import page
from medsanitize.desk.review_pages import with_review
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

_ROWS: Final = 200
_LONGEST_NAME: Final = 100


def show_persons(request: Request) -> Response:
    """Show how far approvals and the sample are, and the last decisions with their persons."""

    def look(session: Any) -> tuple[Any, int, list[Any]]:
        return session.standing(), len(session.sample()), session.log()

    standing, waiting, log = with_review(request, look)
    return page(
        request,
        "persons.html",
        "Persons",
        project=request.path_params["project"],
        person=session_of(request).reviewer,
        standing=standing,
        waiting=waiting,
        log=log[: -_ROWS - 1 : -1],
        total=len(log),
        longest=_LONGEST_NAME,
    )


async def name_person(request: Request) -> Response:
    """Take the name under which the person of this session decides from now on."""
    name = (await form_of(request)).get("reviewer", "").strip()[:_LONGEST_NAME]
    if not name:
        raise UsageError("There is no name", "Enter the name under which you decide")
    session_of(request).reviewer = name
    return RedirectResponse(f"/project/{request.path_params['project']}/review/persons", 303)


_BASE: Final = "/project/{project}/review/persons"
ROUTES = [Route(_BASE, show_persons), Route(_BASE, name_person, methods=["POST"])]
