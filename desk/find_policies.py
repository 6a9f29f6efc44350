"""The policies within the roots: YAML files that state inputs and a version."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from medsanitize.desk.roots import Roots

# An export of a million files may lie in a root: the search is wide, shallow and bounded.
_DEPTH: Final = 3
_MOST_ENTRIES: Final = 20_000
_MOST_POLICY_BYTES: Final = 2**20
_SUFFIXES: Final = (".yaml", ".yml")
_KEYS: Final = (b"version:", b"inputs:", b"release:")


@dataclass(frozen=True, slots=True)
class FoundPolicies:
    """The policies, by path, and whether folders were left out."""

    paths: tuple[Path, ...]
    is_complete: bool


def find_policies(roots: Roots) -> FoundPolicies:
    """Search the roots for policies, folders near a root first; links are not followed."""
    ahead = deque((root, 0) for root in roots.folders)
    paths: list[Path] = []
    left = _MOST_ENTRIES
    while ahead and left > 0:
        folder, depth = ahead.popleft()
        folders, files, read = _listed(folder, left)
        left -= read
        paths += [path for path in files if _is_policy(path)]
        if depth < _DEPTH:
            ahead += [(one, depth + 1) for one in folders]
    return FoundPolicies(tuple(sorted(set(paths))), left > 0)


def _listed(folder: Path, most: int) -> tuple[list[Path], list[Path], int]:
    """Return subfolders and YAML files of a folder, and how many entries were read."""
    folders, files, read = [], [], 0
    try:
        with os.scandir(folder) as entries:
            for read, one in enumerate(entries, start=1):
                if read > most:
                    break
                if one.is_symlink() or one.name.startswith("."):
                    continue
                if one.is_dir():
                    folders.append(Path(one.path))
                elif one.name.endswith(_SUFFIXES) and one.is_file():
                    files.append(Path(one.path))
    except OSError:
        return [], [], 1
    return sorted(folders), files, max(read, 1)


def _is_policy(path: Path) -> bool:
    try:
        if path.stat().st_size > _MOST_POLICY_BYTES:
            return False
        lines = path.read_bytes().splitlines()
    except OSError:
        return False
    return all(any(line.startswith(key) for line in lines) for key in _KEYS)
