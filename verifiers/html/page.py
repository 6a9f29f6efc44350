"""A page of sections with tables and figures, rendered from plain data."""

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
    """A cell that says how something stands."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Table:
    """A table; ``texts`` is how many columns from the left hold text, the others hold numbers."""

    caption: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[str | Mark]]
    texts: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing: SVG as text, and what it shows in words."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An image among others: PNG, what it shows in words, how it stands, and whether it takes two places."""

    png: bytes
    caption: str
    tone: Tone = "plain"
    wide: bool = False

    @property
    def address(self) -> str:
        """The image as an address within the page itself."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with paragraphs, then images side by side, then figures, then tables."""

    title: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """One page; ``tiles`` are the few numbers that come first."""

    kind: str
    title: str
    lede: str
    tiles: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    notice: tuple[Tone, str] | None = None


def render_page(page: Page) -> bytes:
    """Return the page as self-contained HTML."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["drawn"] = lambda svg: Markup(svg)  # noqa: S704  drawn by svg.py, not read
    environment.tests["mark"] = lambda cell: isinstance(cell, Mark)
    template = environment.from_string(
        files("medsanitize.verifiers.html").joinpath("page.html").read_text("utf-8")
    )
    return template.render(p=page, signs=_SIGNS, version=__version__).encode("utf-8")
