"""Rendering of pages from templates with autoescape; a page holds no script and no style of its own."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse

_SECONDS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


@cache
def _environment() -> Environment:
    folder = files("medsanitize.desk").joinpath("templates")
    environment = Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["count"] = "{:,}".format
    environment.filters["bytes"] = shown_bytes
    environment.filters["duration"] = shown_duration
    environment.filters["cut"] = cut
    return environment


def page(request: Request, template: str, title: str, *, code: int = 200, **facts: Any) -> HTMLResponse:
    """Render a page; its title never contains a value.

    Parameters
    ----------
    request : Request
        Gives the path, to mark where one is.
    template : str
        File in ``templates``.
    title : str
        Title of the page.
    code : int
        HTTP status of the answer.
    **facts
        What the template shows.
    """
    text = _environment().get_template(template).render(title=title, path=request.url.path, **facts)
    return HTMLResponse(text, code)


def shown_bytes(size: float) -> str:
    """Return a size in decimal units."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit in ("bytes", "kB") else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def shown_duration(seconds: float) -> str:
    """Return a duration in its largest two units."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    for number, (size, unit) in enumerate(_SECONDS):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            if number == len(_SECONDS) - 1:
                return f"{whole} {unit} {rest} s"
            small, name = _SECONDS[number + 1]
            return f"{whole} {unit} {rest // small} {name}"
    return ""


def cut(text: str, most: int = 300) -> str:
    """Return the beginning of a text, so that a value of a megabyte leaves the page usable."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
