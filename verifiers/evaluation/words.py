"""How numbers are told to people."""

from __future__ import annotations

from collections.abc import Mapping

from medsanitize.verifiers.evaluation.bootstrap import Interval


def number(value: float, interval: Interval | None = None) -> str:
    """A rate with its interval, four decimals."""
    return f"{value:.4f}" + (f" ({interval[0]:.4f} to {interval[1]:.4f})" if interval else "")


def excluded_lines(excluded: Mapping[str, int]) -> list[str]:
    """One line on what was left out, none when nothing was."""
    if not excluded:
        return []
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in excluded.items())
    return [f"Left out: {sum(excluded.values()):,} ({reasons})."]
