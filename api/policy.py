"""Policies from a path, a mapping, the name of a preset or a loaded policy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.policies.load import PRESETS, load, loads
from medsanitize.policies.model import Policy, PresetName

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.import_policy import ImportedPolicy

PolicySource = str | os.PathLike[str] | Mapping[str, Any] | Policy

_DEFAULTS: Final[Mapping[str, Any]] = {
    "version": 1,
    "release": {"name": "objects", "version": "1", "mode": "pseudonymous"},
    "inputs": ["./medsanitize-input"],
    "output": "./medsanitize-output",
    "state": "./medsanitize-state",
}
"""Required by a policy but not by a single object; these folders are neither read nor written."""
_KEYS: Final[Mapping[str, Any]] = {"env": "MEDSANITIZE_KEY", "scope": "project"}


def load_policy(source: PolicySource) -> Policy:
    """Load a policy and check it.

    Parameters
    ----------
    source : path, mapping or Policy
        A YAML file, or its content as a mapping; paths in a mapping are relative to the working directory.
        A `Policy` is returned unchanged.

    Returns
    -------
    Policy
        With the preset applied and absolute paths.

    Raises
    ------
    PolicyError
        The policy is invalid; ``problems`` lists everything that is wrong with it.
    UsageError
        The file does not exist or cannot be read.

    Examples
    --------
    >>> from medsanitize import PolicyError, load_policy
    >>> try:
    ...     load_policy({"version": 1, "preset": "research"})
    ... except PolicyError as error:
    ...     problems = error.problems
    >>> len(problems) > 0
    True
    """
    if isinstance(source, Policy):
        return source
    if isinstance(source, Mapping):
        return _from_mapping(source)
    return load(Path(source))


def import_policy(
    rules: str | os.PathLike[str], *, preset: PresetName = "research", name: str = "my-release"
) -> ImportedPolicy:
    """Make a policy from the rules of another de-identification program.

    Parameters
    ----------
    rules : path
        A script of CTP or the RSNA Anonymizer, a recipe of pydicom's deid, a dictionary of Kitware's
        dicom-anonymizer, rules of DSA ImageDePHI, or settings of DSA WSI DeID.
    preset : str, optional
        The preset that the policy starts from; no imported rule weakens it.
    name : str, optional
        Name of the release.

    Returns
    -------
    ImportedPolicy
        ``text`` is the policy as YAML; ``carried``, ``weaker``, ``not_carried_over`` and ``unnamed`` say
        what became of the rules.

    Raises
    ------
    PolicyError
        Lines of the file are not understood; ``problems`` lists them.
    UsageError
        The file cannot be read, or the name is invalid.

    Examples
    --------
    >>> import medsanitize
    >>> made = medsanitize.import_policy("anonymizer.script")  # doctest: +SKIP
    >>> [str(one) for one in made.weaker]  # doctest: +SKIP
    ['line 1: PatientAge @keep; policy: C']
    """
    from medsanitize.pipeline.jobs.import_policy import import_policy as make

    return make(Path(rules), preset, name)


def object_policy(source: PolicySource) -> Policy:
    """Load a policy for single objects: a preset's name is enough; a mapping needs no folders, name or key.

    The scope of pseudonyms is then ``project``: they equal those of every release with ``keys.scope:
    project`` under the same key.
    """
    if isinstance(source, str) and source in PRESETS:
        source = {"preset": source}
    if not isinstance(source, Mapping):
        return load_policy(source)
    keys = dict(source.get("keys") or {})
    filled = {**_DEFAULTS, **source}
    # A key source in the mapping must validate, but it is never read: the key is passed as an object.
    filled["keys"] = {**(_KEYS if not keys else {"scope": "project"}), **keys}
    return _from_mapping(filled)


def _from_mapping(content: Mapping[str, Any]) -> Policy:
    # JSON is YAML; one key per line gives problems useful positions.
    return loads(json.dumps(content, indent=1), base=Path.cwd())
