"""The process of a library; it imports the standard library, the steps in a file, and what these import.

Started by `process.py` with the file of the steps and the folder of the library, outside the environment of
the package: such libraries pin versions that others exclude. A request is a line of JSON and the parts that
it counts; so is the answer. A crash of the library costs one session.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from importlib.util import module_from_spec, spec_from_file_location
from typing import IO, Any

_READY = b"ready\n"


def main() -> None:
    """Answer requests on standard input until it ends."""
    sys.path.insert(0, sys.argv[2])
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    threading.Thread(target=_end_with_parent, args=(requests.fileno(),), daemon=True).start()
    # The libraries log to the standard descriptors.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    steps = _steps(sys.argv[1])
    answers.write(_READY)
    answers.flush()
    while line := requests.readline():
        facts = json.loads(line)
        parts = [requests.read(length) for length in facts["parts"]]
        try:
            told, returned = steps[facts["step"]](facts, parts)
        except Exception:  # noqa: BLE001  each library has errors of its own
            told, returned = {"error": True}, []
        _write(answers, told, returned)


def _end_with_parent(requests: int) -> None:
    """End this process as soon as nobody can ask it any more: a step can wait for minutes for the partner."""
    waiting = select.poll()
    # No event is asked for: the end of the pipe is told all the same.
    waiting.register(requests, 0)
    waiting.poll()
    os._exit(1)


def _steps(path: str) -> Any:
    spec = spec_from_file_location("steps", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.steps()


def _write(answers: IO[bytes], told: dict[str, Any], parts: list[bytes]) -> None:
    answers.write(json.dumps({**told, "parts": [len(part) for part in parts]}).encode("ascii") + b"\n")
    for part in parts:
        answers.write(part)
    answers.flush()


if __name__ == "__main__":
    main()
