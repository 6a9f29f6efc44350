"""Options of commands that read a table of images and patients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.labels import LabelColumns

IMAGES = click.option(
    "--images", type=FILE, required=True, metavar="ROOT", help="Folder of the table's files."
)
LABELS = click.option(
    "--labels",
    type=FILE,
    required=True,
    metavar="TABLE",
    help="CSV or Parquet table of files, patients and splits.",
)
COLUMN = click.option(
    "--column",
    "renamed",
    multiple=True,
    metavar="NAME=COLUMN",
    help="Column of the table for file, patient_id, split, view, offset_days, kind or series, such as"
    " patient_id=subject.",
)
KIND = click.option(
    "--kind",
    callback=lambda _context, _parameter, text: kind_of(text),
    help="Kind of images whose file and table state none: radiograph, ct-head, mr-head, fundus, ...",
)


def kind_of(text: str | None) -> Modality | None:
    """Parse the value of ``--kind``; raises UsageError for a name that is no kind."""
    if not text:
        return None
    from medsanitize.verifiers.reid.images.kinds import kind_named

    return kind_named(text)


def table_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options --images, --labels and --column; ``columns_of`` parses the last."""
    return IMAGES(LABELS(COLUMN(function)))


def columns_of(renamed: tuple[str, ...]) -> LabelColumns:
    """Parse the values of ``--column``.

    Raises
    ------
    UsageError
        A value is not NAME=COLUMN with a known name, or a name is repeated.
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
