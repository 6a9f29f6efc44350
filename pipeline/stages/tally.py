"""Counts over the rows of the manifest, taken while it is written."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from medsanitize.policies.dataset_card import OLDEST
from medsanitize.release.manifest import ObjectRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ACTIONS = {"D": "replaced", "Z": "emptied", "X": "removed", "C": "cleaned", "U": "uid", "K": "kept"}
# Columns of the research index whose values the report counts.
DESCRIBED = MappingProxyType(
    {
        "Age in years": "PatientAgeYears",
        "Sex": "PatientSex",
        "Body part": "BodyPartExamined",
        "Manufacturer": "Manufacturer",
    }
)
_YEARS = 10
_CHECKS = ("pixels", "faces", "identifiers", "duplicates", "registry", "overlap")


@dataclass(slots=True)
class Tally:
    """Counts over the rows of the manifest.

    Attributes
    ----------
    objects, patients, studies, series : int
        Numbers of each in the release.
    bytes : int
        Size of the released objects.
    regions : int
        Pixel regions that were cleaned.
    kinds, modalities, sop_classes : Counter of str
        Objects by kind, modality and SOP Class UID.
    rules : Counter of str
        Attributes changed, by rule.
    checks : dict of str to Counter of str
        Objects by the value of each check.
    times : pair of array
        Digests of the objects' times of day, in the source and in the release.
    distributions : dict of str to Counter of str
        Patients by each value of `DESCRIBED` that the released headers state.
    """

    objects: int = 0
    patients: int = 0
    studies: int = 0
    series: int = 0
    bytes: int = 0
    regions: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    modalities: Counter[str] = field(default_factory=Counter)
    sop_classes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    checks: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in _CHECKS})
    times: tuple[array[int], array[int]] = field(default_factory=lambda: (array("Q"), array("Q")))
    distributions: dict[str, Counter[str]] = field(
        default_factory=lambda: {title: Counter() for title in DESCRIBED}
    )
    _last: tuple[str, str, str] = ("", "", "")
    _counted: set[tuple[str, str]] = field(default_factory=set)

    def add(
        self,
        row: ObjectRow,
        rules: Mapping[str, int],
        times: tuple[str, str] = ("", ""),
        research: Mapping[str, str | int | float] = MappingProxyType({}),
    ) -> None:
        """Count one row; rows must be ordered by patient, study and series.

        ``times`` and ``research`` are those of `ObjectRecord`.
        """
        # Comparing with the previous row needs no set of all patients in memory.
        patient, study, series = self._last
        new_patient = self.objects == 0 or row.patient != patient
        new_study = new_patient or row.study != study
        self.patients += new_patient
        self.studies += new_study
        self.series += new_study or row.series != series
        self._last = (row.patient, row.study, row.series)
        if new_patient:
            self._counted.clear()
        self._describe(research)
        self.objects += 1
        self.bytes += row.bytes
        self.regions += row.pixel_regions_cleaned
        self.modalities[row.modality or "none"] += 1
        self.kinds[row.kind] += 1
        if row.sop_class:
            self.sop_classes[row.sop_class] += 1
        self.rules.update(rules)
        for known, digest in zip(self.times, times, strict=True):
            # 0 stands for an object without times; a digest of 64 bits is 0 by chance once in 10^19.
            known.append(int(digest or "0", 16))
        for name in _CHECKS:
            self.checks[name][str(getattr(row, f"check_{name}"))] += 1

    def _describe(self, research: Mapping[str, str | int | float]) -> None:
        """Count a patient once for each value of its objects."""
        for title, attribute in DESCRIBED.items():
            value = research.get(attribute)
            shown = "" if value is None else _band(value) if isinstance(value, int) else str(value)
            if shown and (title, shown) not in self._counted:
                self._counted.add((title, shown))
                self.distributions[title][shown] += 1

    @property
    def actions(self) -> dict[str, int]:
        """Attributes by action; see `count_actions`."""
        return count_actions(self.rules)


def _band(years: int) -> str:
    """Return the ten years that an age is in; released ages end at 90."""
    first = years // _YEARS * _YEARS
    return f"{first}-{first + _YEARS - 1}" if years < OLDEST else f"{OLDEST} or more"


def count_by_times(times: tuple[array[int], array[int]]) -> dict[str, int]:
    """Count the objects that their times of day single out among all objects of the release.

    Parameters
    ----------
    times : pair of array
        Digests of modality and times of day, before and after, by object; 0 without times.

    Returns
    -------
    dict of str to int
        ``stated``: objects whose source states a time; ``before`` and ``after``: objects whose times no other
        object has, in the source and in the release; ``found``: objects whose released times are those of
        exactly one source object, which is theirs.
    """
    import numpy as np

    def alone(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
        _, place, counts = np.unique(digests, return_inverse=True, return_counts=True)
        return np.asarray((counts[place] == 1) & (digests != 0), np.bool_)

    before, after = (np.array(known, np.uint64) for known in times)
    return {
        "stated": int((before != 0).sum()),
        "before": int(alone(before).sum()),
        "after": int(alone(after).sum()),
        "found": int((alone(before) & (before == after)).sum()),
    }


def count_actions(rules: Mapping[str, int]) -> dict[str, int]:
    """Sum the counts of rules by the action code (PS3.15 E.1) that each rule ID starts with.

    Parameters
    ----------
    rules : mapping of str to int
        Counts by rule ID.

    Returns
    -------
    dict of str to int
        Counts by the values of `ACTIONS`; values kept unchanged are not counted.
    """
    counts = dict.fromkeys(ACTIONS.values(), 0)
    for rule, count in rules.items():
        if rule[:1] in ACTIONS and rule[1:2] == ":" and rule != "K:unchanged":
            counts[ACTIONS[rule[0]]] += count
    return counts
