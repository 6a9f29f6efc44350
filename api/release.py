"""A published release: its manifest as rows or a table, its verification, and changes of versions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.api.jobs import verify
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release import layout
from medsanitize.release.manifest import OBJECT_SCHEMA, ObjectRow, read_objects, read_rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from medsanitize.release.differences import Differences
    from medsanitize.release.verify import VerificationResult


class Release:
    """A release in a local folder, read-only.

    Parameters
    ----------
    path : path
        The folder that contains RELEASE.json.

    Raises
    ------
    UsageError
        There is no release at the path.
    IntegrityError
        RELEASE.json is damaged.

    Examples
    --------
    >>> from medsanitize import Release
    >>> release = Release("release")  # doctest: +SKIP
    >>> for row in release.objects():  # doctest: +SKIP
    ...     print(row.path, row.modality, row.check_identifiers)
    >>> release.verify().status  # doctest: +SKIP
    'intact'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            stated = json.loads((self._path / layout.ROOT).read_bytes())
            self._name, self._version, self._mode = (str(stated[key]) for key in ("name", "version", "mode"))
        except OSError:
            raise UsageError(
                "This folder is not a release", "Pass the folder that contains RELEASE.json"
            ) from None
        except (ValueError, TypeError, KeyError):
            raise IntegrityError("RELEASE.json is damaged", "Fetch the release again") from None

    def __repr__(self) -> str:
        return f"Release({self._name!r}, {self._version!r})"

    @property
    def path(self) -> Path:
        """The folder of the release."""
        return self._path

    @property
    def name(self) -> str:
        """The name of the dataset."""
        return self._name

    @property
    def version(self) -> str:
        """The version of the release."""
        return self._version

    @property
    def mode(self) -> str:
        """The release mode: ``pseudonymous`` or ``anonymous``."""
        return self._mode

    def objects(self) -> Iterator[ObjectRow]:
        """Iterate over the objects of the manifest, ordered by pseudonym, in constant memory.

        Yields
        ------
        ObjectRow
            One row per released object; ``path`` is relative to the folder of the release.

        Raises
        ------
        IntegrityError
            The manifest is missing or damaged; its page checksums are verified while reading.
        """
        return read_rows(self._path)

    def to_arrow(self) -> pa.Table:
        """Read the whole manifest into a `pyarrow.Table`.

        Returns
        -------
        pyarrow.Table
            One row per released object; the metadata of each field describes the column.

        Raises
        ------
        IntegrityError
            The manifest is missing or damaged.
        """
        import pyarrow as pa

        # The schema is explicit because an empty release has no batches.
        return pa.Table.from_batches(read_objects(self._path), schema=OBJECT_SCHEMA)

    def to_pandas(self) -> pd.DataFrame:
        """Read the whole manifest into a `pandas.DataFrame`.

        Returns
        -------
        pandas.DataFrame
            One row per released object.

        Raises
        ------
        UsageError
            pandas is not installed.
        IntegrityError
            The manifest is missing or damaged.
        """
        try:
            frame: pd.DataFrame = self.to_arrow().to_pandas()
        except ModuleNotFoundError:
            raise UsageError("pandas is not installed", "Install it with: pip install pandas") from None
        return frame

    def differences(self, earlier: Release) -> Differences:
        """Compare this release with an earlier one: objects and patients added, removed or changed.

        Parameters
        ----------
        earlier : Release
            A release with the same release key; others have no pseudonyms in common with this one.

        Raises
        ------
        IntegrityError
            A manifest is missing or damaged.
        """
        from medsanitize.release.differences import release_differences

        return release_differences(earlier.path, self._path)

    def query(self, sql: str) -> pa.Table:
        """Run a query in DuckDB's SQL on the tables of this release.

        Parameters
        ----------
        sql : str
            Tables: ``objects`` and ``patients``, the manifest; ``index``, the research index, which has what
            the released headers say; ``series``, one row per series. Nothing else can be read.

        Returns
        -------
        pyarrow.Table
            The result.

        Raises
        ------
        UsageError
            The query is not valid or fails.
        IntegrityError
            A table is missing or damaged.
        """
        from medsanitize.release.query import query_release

        return query_release(self._path, sql)

    def verify(self, *, key: str | os.PathLike[str] | None = None) -> VerificationResult:
        """Verify this release; see `medsanitize.verify`."""
        return verify(self._path, key=key)
