"""HTML report of sections with tables and figures, rendered from plain data."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal

from medsanitize import __version__

Tone = Literal["good", "care", "bad", "plain"]
_SIGNS: Final = {"good": "✓", "care": "!", "bad": "✕", "plain": ""}


@dataclass(frozen=True, slots=True)
class Mark:
    """A table cell that shows a status."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first ``texts`` columns hold text, the others numbers."""

    caption: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[str | Mark]]
    texts: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """An SVG drawing with its caption."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG image with caption and status; a ``wide`` one spans two columns."""

    png: bytes
    caption: str
    tone: Tone = "plain"
    wide: bool = False

    @property
    def address(self) -> str:
        """The image as a data URI."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclass(frozen=True, slots=True)
class Section:
    """A section: heading, paragraphs, pictures side by side, figures, tables."""

    title: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A report; ``tiles`` are the key figures at its top."""

    kind: str
    title: str
    lede: str
    tiles: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    notice: tuple[Tone, str] | None = None


def render_page(page: Page) -> bytes:
    """Render the report as one self-contained HTML file."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    # StrictUndefined: a typo in the template fails instead of leaving a cell empty.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # Only the SVG of svg.py is inserted unescaped: matplotlib escapes the text in it.
    environment.filters["drawn"] = lambda svg: Markup(svg)  # noqa: S704  drawn by svg.py, not read
    environment.tests["mark"] = lambda cell: isinstance(cell, Mark)
    template = environment.from_string(
        files("medsanitize.verifiers.html").joinpath("page.html").read_text("utf-8")
    )
    return template.render(p=page, signs=_SIGNS, version=__version__).encode("utf-8")
