"""A run that reads from a real archive makes the release that the same files make from disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy

from tests.pipeline.conftest import prepare

ONE = Options(workers=1)
Reads = Callable[..., Policy]


def sums(policy: Policy) -> str:
    return (Path(policy.output) / "SHA256SUMS").read_text()


@pytest.fixture(scope="module")
def from_disk(tmp_path_factory: pytest.TempPathFactory, hospital: Path) -> str:
    policy = prepare(tmp_path_factory.mktemp("disk"), inputs=f"[{hospital}]")
    run(policy, ONE)
    return sums(policy)


@pytest.mark.parametrize("way", ["web", "get", "move"])
def test_a_release_read_from_an_archive_is_the_one_read_from_disk(
    way: str, reads: Reads, everything: str, from_disk: str
) -> None:
    policy = reads(way, everything)
    import time; t=time.time()
    r=run(policy, ONE); print(r.quarantined, r.stages[:2], time.time()-t)
    assert sums(policy) == from_disk
