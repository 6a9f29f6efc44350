"""The figures of a dataset card: counts with noise, made consistent, each with its error.

Unit of privacy: one patient with all images. Neighbors: one patient more or less. The count of patients and
each table are one query; all queries share epsilon equally, and delta is 0.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

from medsanitize.errors import IntegrityError
from medsanitize.release.canonical_json import canonical_json
from medsanitize.release.dataset_card.consistency import (
    Weighted,
    clipped_rows,
    common_total,
    nearest_rows,
    whole_rows,
)
from medsanitize.release.dataset_card.discrete_laplace import KeyedBits, discrete_laplace
from medsanitize.release.dataset_card.tables import CardCounts, TableShape

CONFIDENCE: Final = 0.95
# Figures of the privacy map are rounded up: by less than this.
_ROUNDING: Final = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class CardTable:
    """One published table.

    Attributes
    ----------
    name, title : str
    rows : tuple of (str, int)
        Category and noisy number of patients.
    per_patient : int
        Most categories that count of one patient.
    epsilon : float
        Its part of the budget.
    error, joint_error : int
        The noise of a figure, and of all figures of the table at once, is at most this with 95 % confidence.
    """

    name: str
    title: str
    rows: tuple[tuple[str, int], ...]
    per_patient: int
    epsilon: float
    error: int
    joint_error: int


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """A published dataset card: no exact number, and nothing that determines one.

    Attributes
    ----------
    name, version : str
        The release.
    epsilon : str
        What the card spends, as a decimal number.
    patients, error : int
        Noisy number of patients, and its error with 95 % confidence.
    tables : tuple of CardTable
    """

    name: str
    version: str
    epsilon: str
    patients: int
    error: int
    tables: tuple[CardTable, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the figures: two cards that are equal are one query."""
        return sha256(canonical_json(asdict(self)).encode()).hexdigest()


def card_from_facts(facts: Mapping[str, Any]) -> DatasetCard:
    """Rebuild a card from the JSON of `asdict`."""
    tables = tuple(
        CardTable(**{**one, "rows": tuple((str(name), int(count)) for name, count in one["rows"])})
        for one in facts["tables"]
    )
    return DatasetCard(**{**facts, "tables": tables})


def make_card(counts: CardCounts, name: str, version: str, epsilon: float, key: bytes) -> DatasetCard:
    """Add noise to counts, and make the figures consistent.

    Parameters
    ----------
    counts : CardCounts
        Exact counts of one site, or the sums over several.
    name, version : str
        The release.
    epsilon : float
        What the whole card spends.
    key : bytes
        Secret of the holder. The noise follows from it, the counts and everything that is published: a
        repeated run gives the same card, and another version or other counts independent noise.

    Raises
    ------
    IntegrityError
        opendp states another privacy loss for this noise than this module.
    """
    spent = str(epsilon)
    share = Fraction(spent) / (1 + len(counts.shapes))
    scales = scales_of(counts.shapes, spent)
    bits = KeyedBits(_noise_key(counts, name, version, spent, key))
    patients = counts.patients + discrete_laplace(bits, scales[0])
    noisy = [
        tuple(count + discrete_laplace(bits, scale) for count in rows)
        for scale, rows in zip(scales[1:], counts.rows, strict=True)
    ]
    return DatasetCard(
        name, version, spent, *consistent(counts.shapes, patients, noisy, share, largest_error)
    )


def scales_of(shapes: tuple[TableShape, ...], epsilon: str) -> tuple[Fraction, ...]:
    """Return the scale of the noise of the number of patients, and of each table.

    Raises
    ------
    IntegrityError
        opendp states another privacy loss for this noise than this module.
    """
    share = Fraction(epsilon) / (1 + len(shapes))
    return (_scale(1, share), *(_scale(shape.per_patient, share) for shape in shapes))


def _scale(sensitivity: int, share: Fraction) -> Fraction:
    """Return the scale of the noise, after opendp has stated that it spends no more than its share."""
    scale = sensitivity / share
    if _stated_loss(float(scale), sensitivity) > float(share) * _ROUNDING:
        raise IntegrityError(
            "opendp states a larger privacy loss than the dataset card", "Use the tested version of opendp"
        )
    return scale


def _stated_loss(scale: float, sensitivity: int) -> float:
    """Return the privacy loss of discrete Laplace noise as opendp states it."""
    import opendp.prelude as dp

    # Everything that is not proved yet is called a contribution, the Laplace mechanism for integers included.
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    return float(dp.m.make_laplace(*space, scale=scale).map(sensitivity))


def _noise_key(counts: CardCounts, name: str, version: str, epsilon: str, key: bytes) -> bytes:
    # The counts are part of it: the same noise on other counts would reveal their difference exactly.
    asked = {
        "name": name,
        "version": version,
        "epsilon": epsilon,
        "shapes": [asdict(shape) for shape in counts.shapes],
        "patients": counts.patients,
        "rows": counts.rows,
    }
    return hmac.digest(key, b"dataset card noise/1\0" + canonical_json(asked).encode(), "sha256")


def consistent(
    shapes: tuple[TableShape, ...],
    patients: int,
    noisy: Sequence[tuple[int, ...]],
    share: Fraction,
    error: Callable[[float, float], int],
) -> tuple[int, int, tuple[CardTable, ...]]:
    """Return the number of patients, its error, and the tables.

    Parameters
    ----------
    shapes : tuple of TableShape
        The tables.
    patients, noisy
        Number of patients and rows, with noise.
    share : Fraction
        Part of epsilon of each query.
    error : callable
        The bound of the noise of a scale that is exceeded with a probability.
    """
    weight = share**2  # all of these have sensitivity 1
    parts = [Weighted(rows, weight) for shape, rows in zip(shapes, noisy, strict=True) if shape.partition]
    total = common_total(patients, weight, parts)
    tables = []
    for shape, rows in zip(shapes, noisy, strict=True):
        kept = whole_rows(nearest_rows(rows, total), total) if shape.partition else clipped_rows(rows, total)
        scale = float(shape.per_patient / share)
        # Bonferroni: the errors of all rows hold at once.
        joint = (1 - CONFIDENCE) / len(rows)
        tables.append(
            CardTable(
                shape.name,
                shape.title,
                tuple(zip(shape.categories, kept, strict=True)),
                shape.per_patient,
                float(share),
                error(scale, 1 - CONFIDENCE),
                error(scale, joint),
            )
        )
    return total, error(float(1 / share), 1 - CONFIDENCE), tuple(tables)


def largest_error(scale: float, alpha: float) -> int:
    """Return the least m for which noise of this scale is beyond -m to m with a probability up to alpha."""
    # P(|X| > m) = 2 q^(m+1) / (1 + q), with q = exp(-1 / scale).
    tail = alpha * (1 + math.exp(-1 / scale)) / 2
    return max(0, math.ceil(-scale * math.log(tail)) - 1)
