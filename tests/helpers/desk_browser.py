"""Chromium on the pages of a desk, driven as a person would."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

from tests.helpers.desk import DeskProcess

_SEVERE = ("serious", "critical")


@contextmanager
def opened_page(desk: DeskProcess, **options: Any) -> Iterator[Page]:
    """Enter a desk with its one-time token; the console must stay silent.

    Keyword arguments are those of a browser context, such as ``color_scheme``.
    """
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium (tests/install_system.sh)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda one: said.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda one: said.append(str(one)))
        page.goto(desk.address)
        page.wait_for_url(f"{desk.origin}/")
        try:
            yield page
            assert said == []
        finally:
            browser.close()


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true; Playwright's own way is refused by the pages' policy on scripts."""
    deadline = time.monotonic() + 30
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)


def severe_findings(page: Page) -> list[str]:
    """Findings of axe-core that are serious or critical, each with its element."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in _SEVERE
        for node in one["nodes"]
    ]
