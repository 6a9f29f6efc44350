"""Shared parts of the tests of runs with synthetic images."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.policies.model import Policy

Make = Callable[..., Policy]
RULE = "synthesize:replaced"


def run_policy(policy: Policy, **options: Any) -> RunResult:
    return run(policy, Options(workers=1), **options)


def synthetic_gate(result: RunResult) -> Any:
    return next(one for one in result.gates if one.name == "synthetic images")


def released_files(policy: Policy) -> list[Path]:
    return sorted(path for path in (policy.output / "data").rglob("*") if path.is_file())


def report_of(policy: Policy) -> str:
    """The text of the release's report."""
    page = (policy.output / "report.html").read_text().split("</style>")[1]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
