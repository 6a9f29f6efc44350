"""The file of `registry serve`: a registry of releases, and the members of a consortium that may ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from medsanitize.policies.base import Section, Slug
from medsanitize.policies.partners import LISTEN, Agreement, Partners
from medsanitize.policies.section_file import load_section
from pydantic import Field, StringConstraints

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
    return load_section(path, Consortium, ("registry", "party"), _INVALID, _MANUAL)
