"""A real browser for tests: headless chromium, controlled over two pipes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
_SECONDS = 60.0


class Browser:
    """One open page, controlled by the DevTools protocol."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            block = os.read(self._answers, 2**20)
            assert block, "the browser is gone"
            self._rest += block
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def open(self, page: Path, downloads: Path) -> None:
        """Open a local page and wait until it has loaded."""
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        target = self.send("Target.createTarget", url="about:blank", newWindow=True, width=1280, height=1400)
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Page.navigate", url=page.as_uri())
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def ask(self, expression: str) -> Any:
        """Evaluate an expression on the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + _SECONDS
        while not self.ask(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Press and release one key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        self.ask(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        x, y = self.ask(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def requests(self) -> list[str]:
        """All requests of the page so far."""
        self.ask("1")
        sent = (one for one in self.events if one.get("method") == "Network.requestWillBeSent")
        return [str(one["params"]["request"]["url"]) for one in sent]

    def complaints(self) -> list[str]:
        """Console messages: errors, and violations of the page's content security policy."""
        self.ask("1")
        wanted = ("Log.entryAdded", "Runtime.exceptionThrown")
        return [json.dumps(one["params"]) for one in self.events if one.get("method") in wanted]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start chromium with a temporary profile, and end it."""
    commands_read, commands_write = os.pipe()
    answers_read, answers_write = os.pipe()
    # --remote-debugging-pipe reads commands from descriptor 3 and writes responses to descriptor 4.
    shell = f'exec 3<&{commands_read} 4>&{answers_write}; exec chromium "$@"'
    command = ["bash", "-c", shell, "chromium", *_OPTIONS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command,
        pass_fds=(commands_read, answers_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile)},
    )
    os.close(commands_read)
    os.close(answers_write)
    try:
        yield Browser(commands_write, answers_read)
    finally:
        os.close(commands_write)
        process.terminate()
        process.wait(20)
        os.close(answers_read)
