"""Policies from whatever a caller has: a path, a mapping, a preset's name or a loaded policy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from medsanitize.policies.load import PRESETS, load, loads
from medsanitize.policies.model import Policy

PolicySource = str | os.PathLike[str] | Mapping[str, Any] | Policy

_DEFAULTS: Final[Mapping[str, Any]] = {
    "version": 1,
    "release": {"name": "objects", "version": "1", "mode": "pseudonymous"},
    "inputs": ["./medsanitize-input"],
    "output": "./medsanitize-output",
    "state": "./medsanitize-state",
}
"""What a policy must name and a single object does not need; nothing is read from or written to there."""
_KEYS: Final[Mapping[str, Any]] = {"env": "MEDSANITIZE_KEY", "scope": "project"}


def load_policy(source: PolicySource) -> Policy:
    """Load and check a policy.

    Parameters
    ----------
    source : path, mapping or Policy
        A YAML file, or its content as a mapping; paths in a mapping are relative to the working directory.
        A `Policy` is returned as it is.

    Returns
    -------
    Policy
        With the preset applied and all paths absolute.

    Raises
    ------
    PolicyError
        The policy is invalid; ``problems`` lists everything that is wrong with it.
    UsageError
        The file does not exist or cannot be read.

    Examples
    --------
    >>> from medsanitize import load_policy
    >>> policy = load_policy("policy.yaml")  # doctest: +SKIP
    """
    if isinstance(source, Policy):
        return source
    if isinstance(source, Mapping):
        return _from_mapping(source)
    return load(Path(source))


def object_policy(source: PolicySource) -> Policy:
    """As `load_policy`, but a preset's name is enough, and a mapping needs no folders, name or key.

    Pseudonyms then have the scope ``project``: they equal those of every release with ``keys.scope:
    project`` under the same key.
    """
    if isinstance(source, str) and source in PRESETS:
        source = {"preset": source}
    if not isinstance(source, Mapping):
        return load_policy(source)
    keys = dict(source.get("keys") or {})
    filled = {**_DEFAULTS, **source}
    # A place for the key that the caller names stays; it is not read, since the key is passed in.
    filled["keys"] = {**(_KEYS if not keys else {"scope": "project"}), **keys}
    return _from_mapping(filled)


def _from_mapping(content: Mapping[str, Any]) -> Policy:
    return loads(json.dumps(content, indent=1), base=Path.cwd())
