"""Where a release is built: in the output folder itself; for a store, in the state until it is put there."""

from __future__ import annotations

from pathlib import Path

from medsanitize.policies.model import Policy
from medsanitize.release.layout import STAGING


def release_folder(policy: Policy) -> Path:
    """The folder in which the release is staged and judged, and from which it is put into a store."""
    if isinstance(policy.output, Path):
        return policy.output
    return policy.state / f"{policy.release.name}-{policy.release.version}.release"


def staging_folder(policy: Policy) -> Path:
    """The folder in it that nobody else may look into."""
    return release_folder(policy) / STAGING
