"""The file of `registry serve`: a registry of releases, and the members of a consortium that may ask it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

from medsanitize.errors import PolicyError, Problem
from medsanitize.policies.base import Section, Slug
from medsanitize.policies.load import place_in, policy_text
from medsanitize.policies.partners import LISTEN, Agreement, Partners
from medsanitize.policies.strict_yaml import Node, read_yaml
from pydantic import Field, StringConstraints, ValidationError

_INVALID: Final = "The file of the registry is invalid"
_MANUAL: Final = "See the manual: Compare releases with another hospital"


class Member(Agreement):
    """What a member may ask. The member's policy must say the same, but for address and own releases."""

    compare: tuple[Literal["pixels"], ...] = ("pixels",)
    """A registry has digests of pixels, and nothing of patients."""
    own: tuple[Slug, ...] = ()
    """Names of the registered releases that the member has published itself; they are left out for it."""


class Consortium(Section):
    """A registry, the party that serves it, and its members."""

    version: Literal[1]
    """Version of the file."""
    registry: Path
    """Folder of the registry, relative to the file."""
    party: Path
    """Folder of the keys of the party that serves it, as `party init` made it."""
    members: Annotated[tuple[Member, ...], Field(min_length=1)]
    """Who may ask, and what is revealed."""
    listen: Annotated[str, StringConstraints(pattern=LISTEN)] = "127.0.0.1:8443"
    """Address and port."""

    @property
    def partners(self) -> Partners:
        """The members as partners of the party."""
        return Partners(party=self.party, agreements=self.members, listen=self.listen)


def load_consortium(path: Path) -> Consortium:
    """Load and check the file of a registry.

    Raises
    ------
    PolicyError
        The file is invalid; it lists every problem with line and column.
    UsageError
        The file does not exist or cannot be read.
    """
    tree, problems = read_yaml(policy_text(path))
    if tree is None or problems:
        raise PolicyError(_INVALID, tuple(problems))
    data, base = tree.plain(), Path(os.path.abspath(path)).parent
    for name in ("registry", "party"):
        if isinstance(data.get(name), str):
            data[name] = os.path.abspath(base / data[name])
    try:
        return Consortium.model_validate_json(json.dumps(data))
    except ValidationError as errors:
        raise PolicyError(_INVALID, tuple(_problems(errors, tree))) from None


def _problems(errors: ValidationError, tree: Node) -> Iterator[Problem]:
    for error in errors.errors(include_url=False, include_context=False, include_input=False):
        # pydantic calls a list short whose items are invalid; they are reported themselves.
        if error["type"] == "too_short" and errors.error_count() > 1:
            continue
        path = tuple(error["loc"])
        dotted = ".".join(str(step + 1) if isinstance(step, int) else step for step in path)
        said = {"missing": "is missing", "extra_forbidden": "is unknown"}
        message = f"The key '{dotted}' {said.get(error['type'], 'has an invalid value')}"
        yield Problem(*place_in(tree, path), message, _MANUAL)
