"""The lists of a site: never-words (`text.deny_list`) and safe words (`text.allow_list`).

A list is part of the policy, or a UTF-8 file with one entry per line; ``#`` at the start of a line, or
between spaces behind an entry, begins a comment. The state folder may have a file of each as well, which all
releases with this folder share (``medsanitize lists``). Errors name lines, never entries: a list may name
persons.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from medsanitize.errors import PolicyError, Problem, UsageError
from medsanitize.policies.model import Policy, TextSection

ListName = Literal["deny_list", "allow_list"]
NAMES: Final[tuple[ListName, ...]] = ("deny_list", "allow_list")

STATE_FILES: Final[Mapping[ListName, str]] = MappingProxyType(
    {"deny_list": "never-words.txt", "allow_list": "safe-words.txt"}
)
"""Names of the lists in the state folder."""

LONGEST_ENTRY: Final = 256
_MAX_BYTES: Final = 8_000_000
_MOST_ENTRIES: Final = 100_000
_MOST_PROBLEMS: Final = 20
_BLANKS: Final = re.compile(r"[ \t]+")
_COMMENT: Final = re.compile(r"^\s*#.*|\s#(\s.*)?$")


@dataclass(frozen=True, slots=True, repr=False)
class SiteLists:
    """The entries of both lists, sorted and without duplicates; the repr shows none."""

    deny: tuple[str, ...] = field(default=())
    allow: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return f"SiteLists({len(self.deny)}, {len(self.allow)})"


def read_site_lists(rules: TextSection, state: Path | None = None) -> SiteLists:
    """Read the lists that a policy contains or names, and those of a state folder.

    Raises
    ------
    PolicyError
        Entries of a file are invalid; each is listed with line and column.
    UsageError
        A file cannot be read.
    """
    return SiteLists(*(_all_entries(name, getattr(rules, name), state) for name in NAMES))


def with_site_lists(policy: Policy) -> Policy:
    """Return a policy that contains its lists instead of the names of their files.

    Sanitizers read no files, so that every run, plan and worker starts from such a policy.
    """
    return holding(policy, read_site_lists(policy.text, policy.state))


def holding(policy: Policy, lists: SiteLists) -> Policy:
    """Return a policy that contains these lists."""
    text = policy.text.model_copy(update={"deny_list": lists.deny, "allow_list": lists.allow})
    return policy.model_copy(update={"text": text})


def state_entries(state: Path, name: ListName) -> tuple[str, ...]:
    """Return the entries of a list in a state folder; none if there is no such file."""
    path = state / STATE_FILES[name]
    return _entries(name, path) if os.path.lexists(path) else ()


def without_entries(policy: Policy) -> Policy:
    """Return a policy for display: lists that it contains are replaced by the number of their entries."""
    hidden: dict[str, tuple[str, ...]] = {
        name: (f"{len(value)} entries, not shown",)
        for name in NAMES
        if not isinstance(value := getattr(policy.text, name), Path) and value
    }
    return policy.model_copy(update={"text": policy.text.model_copy(update=hidden)})


def entry_problem(entry: str) -> tuple[str, str] | None:
    """Return message and remedy if a text cannot be an entry, else None."""
    letters = [char for char in entry if char.isalnum()]
    if not entry.isprintable():
        return "The entry contains a control character", "Write letters, digits and spaces"
    if len(entry) > LONGEST_ENTRY:
        return f"The entry is longer than {LONGEST_ENTRY} characters", "Write one name or phrase per line"
    if not letters:
        return "The entry has no letter or digit", "Write a word, or put # before a comment"
    if len(letters) < 3 and all(char.isdigit() for char in letters):
        return "The entry is a number of fewer than three digits", "Write the words around it, too"
    # In scripts that are written in syllables, one character may be a whole name.
    if len(letters) == 1 and letters[0].isascii():
        return "The entry is a single character, which is in almost every text", "Write a whole word"
    return None


def line_entry(line: str) -> str:
    """Return the entry of one line of a list, without comment; empty if there is none."""
    return _BLANKS.sub(" ", _COMMENT.sub("", line).strip())


def _all_entries(name: ListName, listed: Path | tuple[str, ...], state: Path | None) -> tuple[str, ...]:
    own = _entries(name, listed)
    return own if state is None else _sorted(name, (*own, *state_entries(state, name)))


def _entries(name: ListName, listed: Path | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(listed, Path):
        found, problems = [], []
        for line, column, entry in _lines(name, listed):
            problem = entry_problem(entry)
            if problem is not None:
                problems.append(Problem(line, column, *problem))
            found.append(entry)
        if problems:
            raise PolicyError(f"text.{name}: the file has invalid lines", tuple(problems[:_MOST_PROBLEMS]))
    else:
        found = [" ".join(entry.split()) for entry in listed]
    return _sorted(name, found)


def _sorted(name: ListName, found: Sequence[str]) -> tuple[str, ...]:
    if len(found) > _MOST_ENTRIES:
        raise UsageError(f"text.{name} has more than {_MOST_ENTRIES:,} entries", "Shorten the list")
    return tuple(sorted(set(found)))


def _lines(name: ListName, path: Path) -> Iterator[tuple[int, int, str]]:
    """Yield line, column and text of each entry of a file."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            f"text.{name}: the file cannot be read as UTF-8 text", "Correct the path, or the file"
        ) from None
    if len(raw) > _MAX_BYTES:
        raise UsageError(f"text.{name}: the file is larger than 8 MB", "Write one name or phrase per line")
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        entry = _COMMENT.sub("", line)
        if entry.strip():
            yield number, len(entry) - len(entry.lstrip()) + 1, _BLANKS.sub(" ", entry.strip())
