"""What a policy may name when the desk works with it: folders within the roots, and no program.

Whoever may use the desk may edit policies, and a policy could otherwise read, write or start anything that
the desk's user may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medsanitize import Policy, UsageError
from medsanitize.desk.roots import OutsideRoots, Roots


def require_allowed(roots: Roots, policy: Policy) -> None:
    """Refuse a policy that leads out of the roots.

    Raises
    ------
    UsageError
        A path is outside the roots, or the key comes from a program.
    """
    if policy.keys.command is not None:
        raise UsageError(
            "The desk starts no program that a policy names (keys.command)",
            "Write keys.file or keys.env, or use the command line",
        )
    # Keys are read and never shown: they may lie in a safer place.
    content = policy.model_dump(exclude={"keys": True, "registry": {"key"}})
    for path in _paths(content):
        try:
            roots.check(path)
        except OutsideRoots:
            raise UsageError(
                "A path of the policy is outside the folders of this desk, or leads through a link",
                "Start the desk with the folders that the policy names",
            ) from None


def _paths(content: Any) -> Iterator[Path]:
    if isinstance(content, Path):
        yield content
    elif isinstance(content, Mapping):
        for value in content.values():
            yield from _paths(value)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from _paths(value)
