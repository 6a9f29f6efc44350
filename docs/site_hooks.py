"""What mkdocs does to the pages: links out of docs/, which the site does not have, become plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")
_PAGES = {"benchmarks/README.md": "measurements.md", "CHANGELOG.md": "changelog.md"}


def on_startup(**_: Any) -> None:
    """Give mkdocstrings the public modules under the package's name, which no folder of the checkout has."""
    root = Path(__file__).parents[1]
    package = root / "build" / "packages" / "medsanitize"
    package.mkdir(parents=True, exist_ok=True)
    for name in ("__init__.py", "errors.py", "api"):
        link = package / name
        if not link.is_symlink():
            link.symlink_to(root / name)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with links that the site can follow."""
    return _OUTSIDE.sub(_link, markdown)


def _link(found: re.Match[str]) -> str:
    page = _PAGES.get(found[2])
    return f"[{found[1]}]({page})" if page else f"`{found[2]}`"


def on_post_build(config: Any, **_: Any) -> None:
    """Take the addresses of a content delivery network out of the theme's script.

    It names them for diagrams and for browsers without ResizeObserver; this site has none of either.
    """
    for script in Path(config["site_dir"]).glob("assets/javascripts/bundle.*.js"):
        text = script.read_text(encoding="utf-8")
        script.write_text(text.replace("https://unpkg.com/", "./"), encoding="utf-8")
