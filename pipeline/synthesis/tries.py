"""The record of tries: how often a generator was judged on the same training patients.

Whoever samples with other seeds until the gate passes finds a draw that passes by chance. The holder's side
therefore records every draw that is judged, and each further one has a smaller error probability.

Tries are counted by the training split, not by the generator: a draw counts as one on the same patients if
one patient or one image is the same. Judging a draw again, as after an interruption, is no new try.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure, IntegrityError
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.release.atomic_io import file_lock, storage_errors, write_atomic
from medsanitize.release.canonical_json import canonical_json

_PURPOSE: Final = b"tries"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, repr=False)
class Try:
    """A draw that was judged.

    Attributes
    ----------
    draw
        Digest of everything that determines the draw and its verdict.
    marks
        Digests of the training patients and images.
    """

    draw: str
    marks: frozenset[str]


@dataclass(frozen=True, slots=True, repr=False)
class TryRecord:
    """The file of tries, readable by its owner only.

    Attributes
    ----------
    path
        The file.
    seal
        Encrypts it, so that no entry can be changed or removed without the key; None chains the entries by
        digests, which shows changes, but not that the last entries or the whole file were removed.
    """

    path: Path
    seal: Seal | None

    def read(self) -> tuple[Try, ...]:
        """Return the tries in their order; none without a file.

        Raises
        ------
        IntegrityError
            The file was changed.
        KeyMaterialError
            The file was changed, or sealed under another key.
        """
        with storage_errors():
            if not self.path.exists():
                return ()
            data = self.path.read_bytes()
        if self.seal is not None:
            data = self.seal.open(data, _PURPOSE)
        try:
            return _parsed(json.loads(data))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise IntegrityError(
                "The record of tries of the privacy gate was changed or is damaged",
                "Restore it from a backup",
            ) from None

    def add(self, judged: Try, number: int) -> None:
        """Record a try before its images are judged; one that is recorded already stays as it is.

        Parameters
        ----------
        judged : Try
            The try.
        number : int
            The number by which its error probability was chosen.

        Raises
        ------
        EnvironmentFailure
            Another draw on the same patients was recorded meanwhile, so that the number is another.
        IntegrityError, KeyMaterialError
            The file was changed.
        """
        # Two commands at once must not overwrite each other's try.
        with file_lock(self.path.with_name(f".{self.path.name}.lock")):
            tries = self.read()
            if _number(tries, judged) != number:
                raise EnvironmentFailure(
                    "Another draw on the same training patients is judged at the same time",
                    "Wait until that has ended, and run the same command again",
                )
            if any(one.draw == judged.draw for one in tries):
                return
            facts = {"format": _FORMAT, "tries": _chained([*tries, judged])}
            data = canonical_json(facts).encode()
            sealed = data if self.seal is None else self.seal.close(data, _PURPOSE)
            write_atomic(self.path, sealed, sync=True, private=True)

    def number(self, judged: Try) -> int:
        """Return the number of a try on its patients, from 1; that of a recorded draw does not change."""
        return _number(self.read(), judged)

    def entry(self, judged: Try) -> tuple[int, str]:
        """Return the place of a try in the record, from 1, and its digest, which depends on all before it.

        Place and digest are 0 and empty for a try that is not recorded.
        """
        rows = _chained(self.read())
        found = (
            (place, str(row["chain"])) for place, row in enumerate(rows, 1) if row["draw"] == judged.draw
        )
        return next(found, (0, ""))


def _number(tries: Sequence[Try], judged: Try) -> int:
    number = 1
    for one in tries:
        if one.draw == judged.draw:
            break
        number += not one.marks.isdisjoint(judged.marks)
    return number


def marks_of(patients: Iterable[str], images: Sequence[Path], seal: Seal | None) -> frozenset[str]:
    """Return the digests of patients and images by which tries on the same training data are recognized.

    Parameters
    ----------
    patients
        Patients of the training split, as the table names them.
    images
        Files of the training split.
    seal
        Keys the digests; None leaves them plain, for a record beside the table that names the patients.
    """
    mark = _keyed(seal)
    with storage_errors():
        digests = [_file_digest(path) for path in images]
    return frozenset(
        [*(mark(f"patient:{one}") for one in patients), *(mark(f"image:{one}") for one in digests)]
    )


def draw_digest(facts: object) -> str:
    """Return the digest of what determines a draw and its verdict."""
    return sha256(canonical_json(facts).encode()).hexdigest()


def _keyed(seal: Seal | None) -> Callable[[str], str]:
    if seal is None:
        return lambda text: sha256(text.encode()).hexdigest()[:32]
    return lambda text: seal.name("try", text).hex()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _chained(tries: Sequence[Try]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    chain = ""
    for one in tries:
        row = {"draw": one.draw, "marks": sorted(one.marks)}
        chain = sha256(f"{chain}{canonical_json(row)}".encode()).hexdigest()
        rows.append({**row, "chain": chain})
    return rows


def _parsed(facts: Any) -> tuple[Try, ...]:
    """Rebuild the tries, or raise ValueError, TypeError, KeyError or AttributeError."""
    if set(facts) != {"format", "tries"} or facts["format"] != _FORMAT:
        raise ValueError
    tries = tuple(Try(str(one["draw"]), frozenset(map(str, one["marks"]))) for one in facts["tries"])
    if _chained(tries) != facts["tries"]:
        raise ValueError
    return tries
