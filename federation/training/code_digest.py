"""Digest of the program: sites of one job run the same one."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import medsanitize


@cache
def code_digest() -> str:
    """SHA-256 of all modules of the installed package, by name; tests and benchmarks are no part of it."""
    root = Path(str(medsanitize.__file__)).parent
    digest = hashlib.sha256()
    rooms = ("federation", "generators", "policies", "release", "sanitize", "verifiers")
    files = [path for room in rooms for path in (root / room).rglob("*.py")]
    for path in sorted(files, key=lambda one: one.relative_to(root).as_posix()):
        name = path.relative_to(root).as_posix().encode()
        digest.update(name + b"\n" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
