"""The site of the manual builds without a warning, and loads nothing from a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOADS = re.compile(
    r"""<(?:script|img|iframe|source)[^>]+\bsrc=["']?https?:"""
    r"""|<link[^>]+rel=["']?(?:stylesheet|preconnect|preload|icon)["']?[^>]+href=["']?https?:"""
    r"""|url\(["']?https?:|@import\s+["']https?:|class=["']?mermaid|unpkg\.com|data-md-component=["']?source"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_site_has_every_page_of_the_manual(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in site.glob("*.html")}


def test_site_loads_nothing_from_a_network(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in {".html", ".css", ".js"}]
    loading = {path.name: LOADS.findall(path.read_text(encoding="utf-8")) for path in files}
    assert files
    assert {name: found for name, found in loading.items() if found} == {}
