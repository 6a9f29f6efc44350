"""The lists of the site in the state folder: never-words and safe words, added and removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from medsanitize.errors import UsageError
from medsanitize.pipeline.amend import amending
from medsanitize.pipeline.state.database import translated_errors
from medsanitize.policies.model import Policy
from medsanitize.policies.site_lists import (
    STATE_FILES,
    ListName,
    SiteLists,
    entry_problem,
    line_entry,
    read_site_lists,
    state_entries,
)
from medsanitize.release.atomic_io import storage_errors, write_atomic


@dataclass(frozen=True, slots=True)
class SiteListCounts:
    """What became of both lists: entries in the state folder, entries in force, and what was changed.

    Attributes
    ----------
    never, safe : int
        Entries of the state folder.
    never_in_force, safe_in_force : int
        Entries of the state folder and of the policy, each once.
    added, removed : int
        Entries that this call added and removed.
    """

    never: int
    safe: int
    never_in_force: int
    safe_in_force: int
    added: int
    removed: int


def site_lists(policy: Policy) -> SiteLists:
    """Return the lists of the state folder, without those that the policy names itself.

    Raises
    ------
    PolicyError, UsageError
        A list is invalid or cannot be read.
    """
    return SiteLists(state_entries(policy.state, "deny_list"), state_entries(policy.state, "allow_list"))


@translated_errors()
def edit_site_lists(
    policy: Policy,
    *,
    add_never: Iterable[str] = (),
    add_safe: Iterable[str] = (),
    remove_never: Iterable[str] = (),
    remove_safe: Iterable[str] = (),
) -> SiteListCounts:
    """Add and remove entries of the lists in the state folder; the next run of its policies uses them.

    Parameters
    ----------
    policy : Policy
        Names the state folder. The decisions of its review stay; the next run sanitizes all objects again.
    add_never, add_safe, remove_never, remove_safe : iterable of str
        Words and phrases.

    Raises
    ------
    UsageError
        An entry is invalid, or not in the list from which it is to be removed; nothing is changed.
    EnvironmentFailure
        Another process holds the release, or the disk failed.
    """
    added: dict[ListName, Sequence[str]] = {"deny_list": _valid(add_never), "allow_list": _valid(add_safe)}
    gone: dict[ListName, Sequence[str]] = {
        "deny_list": _plain(remove_never),
        "allow_list": _plain(remove_safe),
    }
    before = site_lists(policy)
    lines = {name: _edited(policy, name, added[name], gone[name]) for name in STATE_FILES}
    after = {name: tuple(filter(None, map(line_entry, lines[name]))) for name in STATE_FILES}
    own = read_site_lists(policy.text)
    force = SiteLists(
        tuple(sorted({*own.deny, *after["deny_list"]})), tuple(sorted({*own.allow, *after["allow_list"]}))
    )
    if (set(before.deny), set(before.allow)) != (set(after["deny_list"]), set(after["allow_list"])):
        with amending(policy, policy, force, added["deny_list"]):
            for name in STATE_FILES:
                if added[name] or gone[name]:
                    text = "".join(f"{line}\n" for line in lines[name])
                    write_atomic(policy.state / STATE_FILES[name], text.encode(), sync=True, private=True)
    counts = {*before.deny}, {*before.allow}, {*after["deny_list"]}, {*after["allow_list"]}
    return SiteListCounts(
        never=len(counts[2]),
        safe=len(counts[3]),
        never_in_force=len(force.deny),
        safe_in_force=len(force.allow),
        added=len(counts[2] - counts[0]) + len(counts[3] - counts[1]),
        removed=len(counts[0] - counts[2]) + len(counts[1] - counts[3]),
    )


def _plain(entries: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(" ".join(one.split()) for one in entries))


def _valid(entries: Iterable[str]) -> tuple[str, ...]:
    found = _plain(entries)
    for one in found:
        problem = entry_problem(one)
        # A number sign would begin a comment in the file.
        if problem is None and line_entry(one) != one:
            problem = "The entry contains # where a comment begins", "Write it without #"
        if problem is not None:
            raise UsageError(*problem)
    return found


def _edited(policy: Policy, name: ListName, added: Sequence[str], gone: Sequence[str]) -> list[str]:
    """Return the lines of a list after the change; comments and order of the other lines stay."""
    path = policy.state / STATE_FILES[name]
    entries = set(state_entries(policy.state, name))
    if missing := set(gone) - entries:
        raise UsageError(
            f"{len(missing)} entries to remove are not in {STATE_FILES[name]}",
            "Lists that the policy names itself are edited by hand",
        )
    lines: list[str] = []
    if entries:
        with storage_errors():
            lines = path.read_text("utf-8-sig").splitlines()
    kept = [line for line in lines if not line_entry(line) or line_entry(line) not in gone]
    return [*kept, *(one for one in added if one not in entries)]
