"""What a person decides between a run and its publication: values that are left, rules, site lists."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.api.jobs import Listener, PathLike, as_progress
from medsanitize.api.policy import PolicySource, load_policy
from medsanitize.policies.model import Policy

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.edit_site_lists import SiteListCounts
    from medsanitize.pipeline.state.value_index import ValueIndex
    from medsanitize.policies.model import Action
    from medsanitize.policies.site_lists import SiteLists


def open_values(
    target: PathLike | Policy, *, progress: Listener | None = None
) -> AbstractContextManager[ValueIndex]:
    """List the values that are left in a release, or in the staged objects of a policy.

    Parameters
    ----------
    target : path or Policy
        The folder of a release, a policy file or a policy.
    progress : callable or Progress, optional
        See `run`.

    Returns
    -------
    context manager of ValueIndex
        ``attributes()``, ``values()`` and ``count()`` page, search and filter by SQL. Values may identify
        patients.

    Raises
    ------
    UsageError
        There is no release, or no run of the policy has staged objects.
    EnvironmentFailure, IntegrityError
        Another process holds the release, or a file is damaged.

    Examples
    --------
    >>> import medsanitize
    >>> with medsanitize.open_values("release") as index:  # doctest: +SKIP
    ...     rare = index.values("StudyDescription", at_most=2, limit=100)
    """
    from medsanitize.pipeline.jobs.list_values import open_values as open_index

    source: Path | Policy = target if isinstance(target, Policy) else Path(target)
    if isinstance(source, Path) and not source.is_dir():
        source = load_policy(source)
    return open_index(source, as_progress(progress))


def add_rule(policy: PathLike, attribute: str, action: Action = "X") -> None:
    """Add an override to a policy file; the decisions of its review stay.

    Parameters
    ----------
    policy : path
        A policy file; its comments and other lines stay as they are.
    attribute : str
        Keyword, tag or mask of a public attribute, or the path under which `open_values` lists it.
    action : str, optional
        Action of PS3.15 Table E.1-1a; ``X`` removes the attribute.

    Raises
    ------
    PolicyError, UsageError
        The policy cannot be extended, or the attribute is private or unknown.
    EnvironmentFailure
        Another process holds the release, or the disk failed.

    Examples
    --------
    >>> import medsanitize
    >>> medsanitize.add_rule("policy.yaml", "StudyDescription")  # doctest: +SKIP
    """
    from medsanitize.pipeline.jobs.add_rule import add_rule as add

    add(Path(policy), attribute, action)


def site_lists(policy: PolicySource) -> SiteLists:
    """Return the never-words (``deny``) and safe words (``allow``) of the state folder of a policy.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`.

    Raises
    ------
    PolicyError, UsageError
        A list is invalid or cannot be read.
    """
    from medsanitize.pipeline.jobs.edit_site_lists import site_lists as read

    return read(load_policy(policy))


def edit_site_lists(
    policy: PolicySource,
    *,
    add_never: Iterable[str] = (),
    add_safe: Iterable[str] = (),
    remove_never: Iterable[str] = (),
    remove_safe: Iterable[str] = (),
) -> SiteListCounts:
    """Add and remove never-words and safe words; the next run uses them, and decisions of a review stay.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`. All policies with its state folder share the lists.
    add_never, add_safe, remove_never, remove_safe : iterable of str
        Words and phrases.

    Raises
    ------
    UsageError
        An entry is invalid or not listed; nothing is changed.
    EnvironmentFailure
        Another process holds the release, or the disk failed.
    """
    from medsanitize.pipeline.jobs.edit_site_lists import edit_site_lists as edit

    return edit(
        load_policy(policy),
        add_never=add_never,
        add_safe=add_safe,
        remove_never=remove_never,
        remove_safe=remove_safe,
    )
