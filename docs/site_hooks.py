"""What mkdocs does to the pages: links out of docs/, which the site does not have, become plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_INCLUDE = re.compile(r'^--8<-- "(.+)"$', re.M)
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)]+)\)")
_PAGES = {
    "benchmarks/README.md": "measurements.md",
    "benchmarks/results/generators.md": "results/generators.md",
    "benchmarks/results/verifiers.md": "results/verifiers.md",
    "docs/generators.md": "../generators.md",
    "docs/verifiers.md": "../verifiers.md",
}


def on_startup(**_: Any) -> None:
    """Give mkdocstrings the public modules under the package's name, which no folder of the checkout has."""
    package = _ROOT / "build" / "packages" / "medsanitize"
    package.mkdir(parents=True, exist_ok=True)
    for name in ("__init__.py", "errors.py", "api"):
        link = package / name
        if not link.is_symlink():
            link.symlink_to(_ROOT / name)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with included files, and with links that the site can follow."""
    whole = _INCLUDE.sub(lambda found: (_ROOT / found[1]).read_text(encoding="utf-8"), markdown)
    return _OUTSIDE.sub(_link, whole)


def _link(found: re.Match[str]) -> str:
    target, _, anchor = found[2].partition("#")
    page = _PAGES.get(target)
    return f"[{found[1]}]({page}{'#' if anchor else ''}{anchor})" if page else f"`{target}`"


def on_post_build(config: Any, **_: Any) -> None:
    """Take the addresses of a content delivery network out of the theme's script.

    It names them for diagrams and for browsers without ResizeObserver; this site has none of either.
    """
    for script in Path(config["site_dir"]).glob("assets/javascripts/bundle.*.js"):
        text = script.read_text(encoding="utf-8")
        script.write_text(text.replace("https://unpkg.com/", "./"), encoding="utf-8")
