"""Drafts of the site's lists: commented text files that a person edits, readable by their owner only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.policies.site_lists import entry_problem
from medsanitize.release.atomic_io import storage_errors

_MOST_SHOWN: Final = 1000
_MOST_ATTRIBUTES: Final = 3
_SECTIONS: Final = (
    ("Persons in headers", ("name",)),
    (
        "Institutions, departments, stations and wards in headers",
        ("institution", "organization", "label", "place"),
    ),
)


@dataclass(frozen=True, slots=True, repr=False)
class Candidate:
    """A word or value, the number of objects and patients with it, and where it occurs, most often first."""

    text: str
    objects: int
    patients: int
    where: tuple[str, ...]

    def __repr__(self) -> str:
        return "Candidate(...)"


@dataclass(frozen=True, slots=True, repr=False)
class Drafts:
    """Candidates of both lists: values of staff and places, kept words, removed words."""

    objects: int
    patients: int
    staff: tuple[Candidate, ...]
    kept: tuple[Candidate, ...]
    removed: tuple[Candidate, ...]

    def __repr__(self) -> str:
        return "Drafts(...)"


def draft_paths(workspace: Workspace) -> tuple[Path, Path]:
    """Return the paths of both drafts.

    Raises
    ------
    UsageError
        One exists already: a person may have edited it.
    """
    paths = workspace.list_draft("deny"), workspace.list_draft("allow")
    if any(os.path.lexists(path) for path in paths):
        raise UsageError(
            "The state folder contains drafts of an earlier call, which may have been edited",
            "Move or delete NAME-VERSION.deny-list.txt and NAME-VERSION.allow-list.txt",
        )
    return paths


def write_drafts(paths: tuple[Path, Path], drafts: Drafts) -> tuple[int, int]:
    """Write both drafts, and return the number of their entries."""
    texts = [list(_deny_lines(drafts)), list(_allow_lines(drafts))]
    for path, lines in zip(paths, texts, strict=True):
        with storage_errors():
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(path, flags, 0o600)
            except FileExistsError:
                raise UsageError("A draft was created meanwhile", "Move or delete it") from None
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
    deny, allow = (sum(bool(line) and not line.startswith("# ") for line in lines) for lines in texts)
    return deny, allow


def _deny_lines(drafts: Drafts) -> Iterator[str]:
    from medsanitize.sanitize.text.word_proposals import identifies

    yield "# Never-words that medsanitize words proposes: names that are removed from every text."
    yield from _introduction(drafts, "deny_list")
    ordinary = [one for one in drafts.staff if not identifies(one.text)]
    for title, categories in _SECTIONS:
        own = [one for one in drafts.staff if one not in ordinary and one.where[0] in categories]
        yield from _section(title, own, used=True, places=False)
    title = (
        "Values of the same attributes with ordinary words only: as never-words they would remove these words"
    )
    yield from _section(title, ordinary, used=False, places=False)
    title = "Words and phrases that were kept and are also names"
    yield from _section(title, drafts.kept, used=False, places=True)


def _allow_lines(drafts: Drafts) -> Iterator[str]:
    yield "# Safe words that medsanitize words proposes: they were removed, but do not look like names."
    yield from _introduction(drafts, "allow_list")
    yield from _section("Words that were removed", drafts.removed, used=False, places=True)


def _introduction(drafts: Drafts, name: str) -> Iterator[str]:
    yield f"# From {drafts.objects:,} objects of {drafts.patients:,} patients. One entry per line."
    yield "# An entry with a # directly before it is not used: delete the # to use it. Delete wrong entries."
    yield f"# Then name this file in the policy as text.{name}. It may contain names: keep it private."


def _section(title: str, found: Iterable[Candidate], *, used: bool, places: bool) -> Iterator[str]:
    lines = [line for one in found if (line := _line(one, used=used, places=places))]
    if lines:
        yield ""
        yield f"# {title}"
        yield from lines[:_MOST_SHOWN]


def _line(one: Candidate, *, used: bool, places: bool) -> str:
    entry = " ".join(one.text.split())
    # Such values, as "#3", would read as comments, and single letters are no entries.
    if "#" in entry or entry_problem(entry) is not None:
        return ""
    counts = f"{_counted(one.patients, 'patient')}, {_counted(one.objects, 'object')}"
    where = f": {', '.join(one.where[:_MOST_ATTRIBUTES])}" if places else ""
    return f"{'' if used else '#'}{entry}  # {counts}{where}"


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
