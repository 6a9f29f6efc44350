"""Hooks of the site: included files, the reference of rules, links out of docs/, no external addresses."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_RULES = "<!-- generated: rules -->"
_INCLUDE = re.compile(r'^--8<-- "(.+)"$', re.M)
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)]+)\)")
_PAGES = {
    "benchmarks/README.md": "measurements.md",
    "benchmarks/results/deletions.md": "results/deletions.md",
    "benchmarks/results/federation.md": "results/federation.md",
    "benchmarks/results/generators.md": "results/generators.md",
    "benchmarks/results/verifiers.md": "results/verifiers.md",
    "docs/generators.md": "../generators.md",
    "docs/verifiers.md": "../verifiers.md",
}


def on_startup(**_: Any) -> None:
    """Link the public modules into a folder with the package's name, where mkdocstrings finds them."""
    package = _ROOT / "build" / "packages" / "medsanitize"
    package.mkdir(parents=True, exist_ok=True)
    for name in ("__init__.py", "errors.py", "api"):
        link = package / name
        if not link.is_symlink():
            link.symlink_to(_ROOT / name)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with included files, generated parts, and links that work on the site."""
    if _RULES in markdown:
        markdown = markdown.replace(_RULES, _rules())
    whole = _INCLUDE.sub(lambda found: (_ROOT / found[1]).read_text(encoding="utf-8"), markdown)
    return _OUTSIDE.sub(_link, whole)


def _rules() -> str:
    # mkdocs loads this file by its path, so its folder is not on the import path.
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        import rules
    finally:
        sys.path.pop(0)
    return rules.page()


def _link(found: re.Match[str]) -> str:
    target, _, anchor = found[2].partition("#")
    page = _PAGES.get(target)
    return f"[{found[1]}]({page}{'#' if anchor else ''}{anchor})" if page else f"`{target}`"


def on_post_build(config: Any, **_: Any) -> None:
    """Remove the addresses of a content delivery network from the theme's script.

    The theme loads diagrams, and a substitute for ResizeObserver, from there. The site needs neither.
    """
    for script in Path(config["site_dir"]).glob("assets/javascripts/bundle.*.js"):
        text = script.read_text(encoding="utf-8")
        script.write_text(text.replace("https://unpkg.com/", "./"), encoding="utf-8")
