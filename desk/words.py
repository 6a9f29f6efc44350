"""What states, outcomes and stages are called on the pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STATES: Final[Mapping[str, str]] = {
    "new": "New",
    "planned": "Planned",
    "running": "Running",
    "awaiting_review": "Awaiting review",
    "published": "Published",
    "refused": "Refused",
    "stopped": "Stopped",
}
CHECKS: Final[Mapping[str, str]] = {
    "passed": "passed",
    "flagged": "flagged",
    "failed": "failed",
    "not_run": "not run",
    "not_applicable": "not applicable",
}
