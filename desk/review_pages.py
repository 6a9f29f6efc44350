"""The review: a queue that is decided with the keyboard, boxes by mouse, series as montages."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

from medsanitize import MedsanitizeError, UsageError, status
from medsanitize.desk.desk import Desk, desk_of, project_path
from medsanitize.desk.guard import body_of, session_of
from medsanitize.desk.pages import page
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

T = TypeVar("T")
_QUEUE: Final = 40
_MOST_TEXT: Final = 4_000
_SERIES: Final = 24
_THUMBNAILS: Final = 60
_THUMBNAIL_EDGE: Final = 256
_FRAME_EDGE: Final = 1_600


def with_review(request: Request, work: Callable[[Any], T]) -> T:
    """Return what a function makes of the review of a project, for the person of this session."""
    path, desk = project_path(request), desk_of(request)
    desk.policy(path)  # refused before anything is opened
    return desk.reviews.use(path, session_of(request).reviewer, work)


def _number(text: str, most: int = 10**9) -> int:
    return min(int(text), most) if text.isdecimal() and len(text) < 12 else 0


def show_review(request: Request) -> Response:
    """Show the queue; the page asks for its items, because opening a review may take a while."""
    path, desk = project_path(request), desk_of(request)
    found = status(desk.policy(path))
    project = request.path_params["project"]
    if found.state in ("awaiting_review", "refused"):
        return page(request, "review.html", "Review", project=project, status=found)
    return page(request, "no_review.html", "Review", project=project, status=found)


def queue(request: Request) -> Response:
    """Return the next items of the queue, and the counts, as JSON."""
    first = _number(request.query_params.get("first", "0"))

    def look(session: Any) -> dict[str, Any]:
        items = []
        for one in session.items(first, _QUEUE):
            image = _image(session, one.first)
            shown = {**asdict(one), "text": one.text[:_MOST_TEXT], "cut": len(one.text) > _MOST_TEXT}
            items.append({**shown, "image": None if image is None else asdict(image)})
        return {"items": items, "counts": asdict(session.counts())}

    return _answered(request, look)


def others(request: Request) -> Response:
    """Return findings of the audit, and the sample, as JSON."""

    def look(session: Any) -> dict[str, Any]:
        findings = [{**asdict(one), "text": one.text[:_MOST_TEXT]} for one in session.findings()]
        return {"findings": findings, "sample": [_sampled(session, one) for one in session.sample()]}

    return _answered(request, look)


def _answered(request: Request, work: Callable[[Any], dict[str, Any]]) -> Response:
    """Return what a function makes of the review, as JSON; or why it cannot."""
    try:
        return JSONResponse(with_review(request, work))
    except MedsanitizeError as error:
        return JSONResponse({"error": f"{error.what}. {error.remedy}."}, 409)


def _image(session: Any, number: int) -> Any:
    """Return the image of an object, or None if it has none."""
    image = session.image(number)
    return image if image is not None and image.rows else None


def _sampled(session: Any, number: int) -> dict[str, Any]:
    image = _image(session, number)
    return {
        "object": number,
        "image": None if image is None else asdict(image),
        "boxes": session.boxes(number),
    }


def item_picture(request: Request) -> Response:
    """Return the picture of a review item, before or after."""
    name, which = request.path_params["item"], request.path_params["which"]
    if len(name) != 32 or set(name) - set("0123456789abcdef"):
        return Response(status_code=404)
    content = with_review(request, lambda session: session.picture(name, which))
    return Response(content, 200 if content else 404, media_type="image/png")


def frame(request: Request) -> Response:
    """Return a frame of a staged object, for boxes and montages."""
    number = _number(request.path_params["object"])
    which = _number(request.query_params.get("frame", "0")) or None
    edge = _THUMBNAIL_EDGE if "small" in request.query_params else _FRAME_EDGE
    file = with_review(request, lambda session: session.file(number))
    try:
        made = desk_of(request).previews.frame(file, which, edge)
    except UsageError:
        # A report, a waveform, or an image that no decoder reads.
        content = files("medsanitize.desk").joinpath("assets", "no-image.svg").read_bytes()
        return Response(content, media_type="image/svg+xml")
    facts = {"X-Rows": made.rows, "X-Columns": made.columns, "X-Frame": made.frame, "X-Frames": made.frames}
    headers = {name: str(value) for name, value in facts.items()}
    return Response(made.png, media_type="image/png", headers=headers)


async def decide(request: Request) -> Response:
    """Store decisions; what this answers is stored, whatever happens to the desk."""
    body = await body_of(request)
    return await run_in_threadpool(_decide, request, body)


def _decide(request: Request, body: bytes) -> Response:
    try:
        made = json.loads(body)
        decisions, reasons = dict(made["decisions"]), dict(made.get("reasons", {}))
        scope = str(made["scope"]) if made.get("scope") else None
    except (ValueError, TypeError, KeyError):
        return JSONResponse({"error": "These are no decisions"}, 400)

    return _answered(request, lambda session: asdict(session.decide(decisions, reasons, scope=scope)))


def approve(request: Request) -> Response:
    """Approve the staged release, and start the run that publishes it."""
    path, desk = project_path(request), desk_of(request)
    try:
        with_review(request, lambda session: session.approve())
    except MedsanitizeError as error:
        return JSONResponse({"error": f"{error.what}. {error.remedy}."}, 409)
    return _run_again(desk, path)


def run_again(request: Request) -> Response:
    """Start the run that follows the decisions."""
    return _run_again(desk_of(request), project_path(request))


def _run_again(desk: Desk, path: Path) -> Response:
    desk.reviews.close(path)
    desk.processes.start("run", path)
    return JSONResponse({"started": True})


def show_series(request: Request) -> Response:
    """Show the series of the staged release, each by the picture of its first object."""
    first = _number(request.query_params.get("first", "0"))

    def look(session: Any) -> tuple[list[Any], int]:
        return session.series(first, _SERIES), session.count_series()

    listed, total = with_review(request, look)
    return page(
        request,
        "series.html",
        "Series",
        project=request.path_params["project"],
        listed=listed,
        total=total,
        first=first,
        size=_SERIES,
    )


def show_montage(request: Request) -> Response:
    """Show the images of one series side by side."""
    number = _number(request.path_params["object"])
    first = _number(request.query_params.get("first", "0"))
    numbers = with_review(request, lambda session: session.objects_of_series(number, first, _THUMBNAILS + 1))
    return page(
        request,
        "montage.html",
        "Montage",
        project=request.path_params["project"],
        object=number,
        numbers=numbers[:_THUMBNAILS],
        first=first,
        size=_THUMBNAILS,
        more=len(numbers) > _THUMBNAILS,
    )


def show_image(request: Request) -> Response:
    """Show one staged image large, to draw boxes on it or to quarantine it."""
    number = _number(request.path_params["object"])

    def look(session: Any) -> tuple[Any, Any, bool, Path]:
        undecided = session.is_undecided(number)
        return session.image(number), session.boxes(number), undecided, session.file(number)

    image, boxes, undecided, file = with_review(request, look)
    if image is None:
        return page(
            request, "error.html", "Image", code=404, what="This object is not staged", remedy="", problems=()
        )
    return page(
        request,
        "image.html",
        "Image",
        project=request.path_params["project"],
        object=number,
        image=image,
        boxes=boxes,
        undecided=undecided,
        header=desk_of(request).previews.header(file),
        frame=_number(request.query_params.get("frame", "0")) or image.frames // 2 + 1,
    )


def show_decisions(request: Request) -> Response:
    """Show what was decided, to withdraw it."""
    first = _number(request.query_params.get("first", "0"))

    def look(session: Any) -> tuple[list[Any], list[Any]]:
        return session.decisions(first, _SERIES + 1), session.quarantined()[:200]

    listed, quarantined = with_review(request, look)
    return page(
        request,
        "decisions.html",
        "Decisions",
        project=request.path_params["project"],
        listed=listed[:_SERIES],
        more=len(listed) > _SERIES,
        first=first,
        size=_SERIES,
        quarantined=quarantined,
    )


_BASE: Final = "/project/{project}/review"
ROUTES = [
    Route(_BASE, show_review),
    Route(f"{_BASE}/queue", queue),
    Route(f"{_BASE}/others", others),
    Route(f"{_BASE}/item/{{item}}/{{which}}", item_picture),
    Route(f"{_BASE}/frame/{{object}}", frame),
    Route(f"{_BASE}/decide", decide, methods=["POST"]),
    Route(f"{_BASE}/approve", approve, methods=["POST"]),
    Route(f"{_BASE}/run", run_again, methods=["POST"]),
    Route(f"{_BASE}/series", show_series),
    Route(f"{_BASE}/series/{{object}}", show_montage),
    Route(f"{_BASE}/image/{{object}}", show_image),
    Route(f"{_BASE}/decisions", show_decisions),
]
