"""Strict loading of the smaller files that are no policies: every problem with line and column."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from medsanitize.errors import PolicyError, Problem
from medsanitize.policies.base import Section
from medsanitize.policies.load import place_in, policy_text
from medsanitize.policies.strict_yaml import Node, read_yaml
from pydantic import ValidationError

_Loaded = TypeVar("_Loaded", bound=Section)


def load_section(
    path: Path, model: type[_Loaded], paths: Sequence[str], invalid: str, manual: str
) -> _Loaded:
    """Load and check a file.

    Parameters
    ----------
    path : Path
        The file.
    model : type
        What it contains.
    paths : sequence of str
        Its keys whose values are paths relative to it.
    invalid, manual : str
        What is said of an invalid file, and the remedy of every problem.

    Raises
    ------
    PolicyError
        The file is invalid; it lists every problem with line and column.
    UsageError
        The file does not exist or cannot be read.
    """
    tree, problems = read_yaml(policy_text(path))
    if tree is None or problems:
        raise PolicyError(invalid, tuple(problems))
    data, base = tree.plain(), Path(os.path.abspath(path)).parent
    for name in paths:
        if isinstance(data.get(name), str):
            data[name] = os.path.abspath(base / data[name])
    try:
        return model.model_validate_json(json.dumps(data))
    except ValidationError as errors:
        raise PolicyError(invalid, tuple(_problems(errors, tree, manual))) from None


def _problems(errors: ValidationError, tree: Node, manual: str) -> Iterator[Problem]:
    for error in errors.errors(include_url=False, include_context=False, include_input=False):
        # pydantic calls a list short whose items are invalid; they are reported themselves.
        if error["type"] == "too_short" and errors.error_count() > 1:
            continue
        path = tuple(error["loc"])
        dotted = ".".join(str(step + 1) if isinstance(step, int) else step for step in path)
        said = {"missing": "is missing", "extra_forbidden": "is unknown"}
        message = f"The key '{dotted}' {said.get(error['type'], 'has an invalid value')}"
        yield Problem(*place_in(tree, path), message, manual)
