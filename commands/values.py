"""The command values: what is left in a release, by attribute."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, command, long_running, print_result

if TYPE_CHECKING:
    from medsanitize.pipeline.state.value_index import ListedAttribute, ValueIndex

_PAGE = 500


@command("values", "medsanitize values release --most 5")
@click.argument("target", metavar="RELEASE|POLICY", type=FILE)
@click.option("--attribute", metavar="PATH", help="Only this attribute, as it is listed.")
@click.option("--private", is_flag=True, help="Only private attributes.")
@click.option(
    "--at-most", type=click.IntRange(1), metavar="N", help="Only values in at most this number of objects."
)
@click.option(
    "--most",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    metavar="N",
    help="Values per attribute, the rarest first; 0 for all.",
)
@click.option(
    "--remove",
    metavar="ATTRIBUTE",
    help="Do not list: add the rule that removes this attribute to the policy.",
)
def values(
    target: Path,
    attribute: str | None,
    private: bool,
    at_most: int | None,
    most: int,
    remove: str | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """List every value that is left in a release, or in the staged objects of a policy, with its count.

    Values are sorted by rarity within their attribute; sequences are shown by path. What is listed may
    identify patients: it belongs to the holder of the data. A word that is wrong wherever it is becomes a
    never-word with medsanitize lists; an attribute that is wrong is removed with --remove. Both keep the
    decisions of a review, and make the next run sanitize all objects again.
    """
    if remove is not None:
        from medsanitize.pipeline.jobs.add_rule import add_rule

        add_rule(target, remove)
        print_result(
            as_json,
            {"policy": str(target), "rule": "X", "exit_code": 0},
            f"{target} removes the attribute. Now run again: medsanitize run {target}",
        )
        return 0
    from medsanitize.pipeline.jobs.list_values import open_values
    from medsanitize.policies.load import load

    with long_running(log_json) as (progress, stop):
        source = target if target.is_dir() else load(target)
        with open_values(source, progress, stop) as index:
            listed = _Listing(index, attribute, private, at_most, most or None)
            (_print_json if as_json else _print_text)(listed)
    return 0


class _Listing:
    """What is to be printed, page by page."""

    def __init__(
        self, index: ValueIndex, attribute: str | None, private: bool, at_most: int | None, most: int | None
    ) -> None:
        self.index = index
        self._only, self._private = attribute, True if private else None
        self._at_most, self._most = at_most, most

    def attributes(self) -> Iterator[ListedAttribute]:
        """Yield the attributes, by path."""
        offset = 0
        while page := self.index.attributes(private=self._private, offset=offset, limit=_PAGE):
            yield from (one for one in page if self._only in (None, one.path))
            offset += len(page)

    def values(self, one: ListedAttribute) -> Iterator[dict[str, Any]]:
        """Yield the values of an attribute, the rarest first."""
        for value in islice(self.index.all_values(one.path, self._at_most), self._most):
            yield {name: fact for name, fact in asdict(value).items() if name != "attribute"}


def _print_json(listed: _Listing) -> None:
    """Print one object, without holding all values in memory."""
    head = {"type": "result", "objects": listed.index.objects, "unlisted": listed.index.unlisted}
    click.echo(json.dumps(head)[:-1] + ', "attributes": [', nl=False)
    for number, one in enumerate(listed.attributes()):
        click.echo((", " if number else "") + json.dumps(asdict(one))[:-1] + ', "values": [', nl=False)
        for place, value in enumerate(listed.values(one)):
            click.echo((", " if place else "") + json.dumps(value), nl=False)
        click.echo("]}", nl=False)
    click.echo('], "exit_code": 0}')


def _print_text(listed: _Listing) -> None:
    index = listed.index
    click.echo(f"Values of {index.objects:,} DICOM objects; {index.unlisted:,} objects are not listed.")
    for one in listed.attributes():
        kind = ", private" if one.private else ""
        click.echo(f"\n{one.path} ({one.vr}{kind}): {one.distinct:,} values in {one.objects:,} objects")
        for value in listed.values(one):
            # Escaped: a value may contain control characters of a terminal.
            click.echo(f"  {value['objects']:>9,}  {_printable(value['value']) or '(empty)'}")


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
