"""Policies as text: drafts from answers, problems with line and column, the schema for editors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medsanitize.errors import PolicyError, Problem
from medsanitize.policies import questions
from medsanitize.policies.json_schema import json_schema
from medsanitize.policies.load import loads
from medsanitize.policies.questions import POLICY_QUESTIONS

__all__ = ["POLICY_QUESTIONS", "draft_policy", "policy_problems", "policy_schema"]


def draft_policy(answers: Mapping[str, str], *, name: str = "my-release", version: str = "1.0") -> str:
    """Write a commented policy from answers to six questions, as ``medsanitize init`` does.

    Parameters
    ----------
    answers : mapping of str to str
        Values of the choices in `POLICY_QUESTIONS`, by the name of the question, and the folder of the
        ``export``. What is missing is answered with the first choice.
    name, version : str
        Of the release.

    Returns
    -------
    str
        The YAML of a policy.

    Raises
    ------
    UsageError
        An answer is none of the choices, or the name is invalid.

    Examples
    --------
    >>> from medsanitize import draft_policy
    >>> text = draft_policy({"export": "./export", "dates": "year"}, name="chest-ct")
    >>> "method: year" in text
    True
    """
    return questions.draft_policy(answers, name=name, version=version)


def policy_problems(text: str, *, base: str | os.PathLike[str]) -> tuple[Problem, ...]:
    """Check the text of a policy, as ``medsanitize validate`` does.

    Parameters
    ----------
    text : str
        YAML.
    base : path
        The folder that paths are relative to.

    Returns
    -------
    tuple of Problem
        ``line``, ``column``, ``message`` and ``remedy`` of each problem; empty for a valid policy.

    Examples
    --------
    >>> from medsanitize import policy_problems
    >>> policy_problems("version: 2", base=".")[0].line
    1
    """
    try:
        loads(text, base=Path(base).absolute())
    except PolicyError as error:
        return error.problems
    return ()


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema of policies, for editors.

    Returns
    -------
    dict
        JSON Schema, draft 7.
    """
    return json_schema()
