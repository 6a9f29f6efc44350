"""The gate ``residual identifiers``: whether the staged files still contain identifiers of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from medsanitize.pipeline.stages.stage import StagedFinding
from medsanitize.release.summary import GateSummary

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch


@dataclass(frozen=True, slots=True)
class Exceptions:
    """Findings that do not fail the gate.

    Attributes
    ----------
    in_pixels : int
        Objects that are quarantined because their pixel data contain a known value.
    chance : int
        Findings that a person judged to be chance.
    """

    in_pixels: int = 0
    chance: int = 0


def count_by_rule(findings: Sequence[StagedFinding]) -> dict[str, int]:
    """Count findings by rule."""
    return dict(sorted(Counter(rule for _, _, rule in findings).items()))


def identifiers_gate(
    findings: Sequence[StagedFinding],
    search: IdentifierSearch | None,
    exceptions: Exceptions = Exceptions(),
    results: Mapping[str, int] = MappingProxyType({}),
) -> GateSummary:
    """Decide the gate ``residual identifiers`` from the findings of the audit.

    Parameters
    ----------
    findings : sequence of StagedFinding
        Findings in objects to be released and in the evidence.
    search : IdentifierSearch or None
        The search of the audit; None in a plan.
    exceptions : Exceptions
        Findings that do not fail the gate.
    results : mapping of str to int
        Released objects by result of the check ``identifiers``.
    """
    from medsanitize.verifiers.leaks.chance import EXPECTED_CHANCE_HITS

    name = "residual identifiers"
    looked = results.get("passed", 0) + results.get("flagged", 0)
    concerned = looked + results.get("not_run", 0)
    if search is None:
        return GateSummary(name, "not_run", "A plan writes no files that could be audited.", 0, concerned)
    if findings:
        rules = ", ".join(f"{rule} ({count})" for rule, count in count_by_rule(findings).items())
        return GateSummary(
            name, "failed", f"The audit of the staged files found: {rules}.", looked, concerned
        )
    if not looked:
        # Without an object to release, that gate fails.
        return GateSummary(name, "not_run", "There was no file to audit.", 0, concerned)
    detail = "Every file was read again by an independent reader and searched for the identifiers of the run."
    if skipped := sum(search.not_searched.values()):
        detail += f" {skipped} short or common values were searched in the objects of their own patient only."
    if search.saying_nothing:
        detail += f" Not searched, because they say nothing, such as XXXX: {search.saying_nothing}."
    detail += (
        f" A hit in image data counts from {search.limit.bits:.0f} bits:"
        f" at most {EXPECTED_CHANCE_HITS} hits by chance are expected."
    )
    if exceptions.in_pixels:
        detail += f" {exceptions.in_pixels} objects with a known value in their pixel data were quarantined."
    if exceptions.chance:
        detail += f" {exceptions.chance} findings were judged by a person to be chance."
    excepted = exceptions.in_pixels or exceptions.chance or looked < concerned
    return GateSummary(name, "flagged" if excepted else "passed", detail, looked, concerned)
