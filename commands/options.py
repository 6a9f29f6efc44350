"""What commands that read a table of images and patients share: options, and names of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.labels import LabelColumns

IMAGES = click.option(
    "--images", type=FILE, required=True, metavar="ROOT", help="Folder that the table's files are in."
)
LABELS = click.option(
    "--labels", type=FILE, required=True, metavar="TABLE", help="CSV or Parquet: image, patient, split."
)
COLUMN = click.option(
    "--column",
    "renamed",
    multiple=True,
    metavar="NAME=COLUMN",
    help="What the table calls file, patient_id, split, view or offset_days, such as patient_id=subject.",
)


def table_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add --images, --labels and --column; `columns_of` makes columns of the last."""
    return IMAGES(LABELS(COLUMN(function)))


def columns_of(renamed: tuple[str, ...]) -> LabelColumns:
    """Read what ``--column`` was given.

    Raises
    ------
    UsageError
        When one of them is not NAME=COLUMN, with a name that has a meaning.
    """
    from medsanitize.errors import UsageError
    from medsanitize.verifiers.reid.labels import LabelColumns

    names: dict[str, Any] = {}
    known = [one.name for one in fields(LabelColumns)]
    for one in renamed:
        name, equals, column = one.partition("=")
        if not equals or not column or name not in known or name in names:
            raise UsageError(
                "--column is not NAME=COLUMN, or names one thing twice", f"The names are {', '.join(known)}"
            )
        names[name] = column
    return LabelColumns(**names)
