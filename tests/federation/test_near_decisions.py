"""Near comparisons under two-party computation: decisions equal those in the clear, and no more is told."""

from __future__ import annotations

import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from medsanitize.errors import UsageError
from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.near.process import NearPlan, Outcome, open_spu
from numpy.typing import NDArray

from tests.helpers.near import compared

SCALE = 1 << 14
SESSION = "5" * 32


def embeddings(count: int, dimension: int, seed: int) -> NDArray[np.float64]:
    found = np.random.default_rng(seed).normal(size=(count, dimension))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def rounded(vectors: NDArray[np.float64]) -> NDArray[np.int16]:
    return np.round(vectors * SCALE).astype(np.int16)


def squared_distances(ours: NDArray[np.int16], theirs: NDArray[np.int16]) -> NDArray[np.int64]:
    apart = ours[:, None].astype(np.int64) - theirs[None]
    return (apart * apart).sum(axis=2)


@pytest.mark.parametrize(
    ("outcome", "sizes", "dimension"),
    [
        ("bit", (20, 30), 64),
        ("count", (20, 30), 64),
        ("patients", (20, 30), 64),
        # The larger side asks, and an embedding is longer than one block.
        ("patients", (30, 20), 600),
        ("each", (8, 30), 64),
        ("each", (30, 20), 64),
    ],
)
def test_what_is_opened_equals_the_comparison_in_the_clear(
    near_library: Path, outcome: Outcome, sizes: tuple[int, int], dimension: int
) -> None:
    first, second = embeddings(sizes[0], dimension, 0), embeddings(sizes[1], dimension, 1)
    # One patient of the answering party resembles two of the asking party.
    second[:3] = first[3:6] + 0.2 * second[:3]
    first[7] = second[0]
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    ours, theirs = rounded(first), rounded(second)
    limit = int(0.3 * SCALE * SCALE)
    matches = squared_distances(ours, theirs) <= limit
    found = compared(near_library, NearPlan(SESSION, sizes, dimension, limit, outcome), ours, theirs)
    fewer = min(matches.any(axis=1).sum(), matches.any(axis=0).sum())
    ours_match = tuple(matches.any(axis=1))
    assert fewer == 3
    assert found.number == {"bit": 1, "each": sum(ours_match)}.get(outcome, fewer)
    assert found.patients == (ours_match if outcome in ("patients", "each") else ())


def test_no_match_is_no_match(near_library: Path) -> None:
    ours, theirs = rounded(embeddings(5, 64, 0)), rounded(embeddings(7, 64, 1))
    limit = int(squared_distances(ours, theirs).min()) - 1
    assert compared(near_library, NearPlan(SESSION, (5, 7), 64, limit, "bit"), ours, theirs).number == 0


def test_a_pair_at_the_very_limit_matches(near_library: Path) -> None:
    ours, theirs = rounded(embeddings(5, 64, 0)), rounded(embeddings(7, 64, 1))
    limit = int(squared_distances(ours, theirs).min())
    assert compared(near_library, NearPlan(SESSION, (5, 7), 64, limit, "count"), ours, theirs).number == 1


@pytest.mark.parametrize(
    "pairs", [2_000, pytest.param(100_000, marks=pytest.mark.slow)], ids=["few", "100,000"]
)
def test_every_decision_equals_that_in_the_clear_but_within_the_rounding(
    near_library: Path, pairs: int
) -> None:
    dimension = 256
    first, second = embeddings(pairs, dimension, 0), embeddings(1, dimension, 1)
    # Similar to different degrees: half of the decisions are close.
    shares = np.linspace(0, 1, pairs)[:, None]
    first = shares * first + (1 - shares) * second
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    distances = np.linalg.norm(first - second, axis=1)
    threshold = float(np.median(distances))
    ours, theirs = rounded(first), rounded(second)
    plan = NearPlan(SESSION, (pairs, 1), dimension, int((threshold * SCALE) ** 2), "patients")
    found = np.array(compared(near_library, plan, ours, theirs).patients)
    within = np.abs(distances - threshold) <= np.sqrt(dimension) / SCALE
    assert (found == (distances <= threshold))[~within].all()
    assert (found == (squared_distances(ours, theirs)[:, 0] <= plan.limit)).all()
    assert within.sum() < pairs / 100


def test_a_partner_that_does_not_answer_ends_in_an_error(near_library: Path, tmp_path: Path) -> None:
    vectors = rounded(embeddings(2, 64, 0))
    with open_spu(near_library) as spu:
        spu.process.child.process.kill()
        plan = NearPlan(SESSION, (2, 2), 64, 1, "bit")
        with pytest.raises(LibraryFailed):
            spu.compare(plan, vectors, rank=0, sockets=(tmp_path / "a", tmp_path / "b"))


@pytest.mark.parametrize("page", ["/vars", "/flags", "/status", "/pprof/cmdline", "/dir/etc/passwd"])
def test_the_process_of_the_library_shows_no_page_about_the_machine(near_library: Path, page: str) -> None:
    """Its network library has such pages, which a partner could ask for instead of computing."""
    vectors, plan = rounded(embeddings(2, 64, 0)), NearPlan(SESSION, (2, 2), 64, 1, "bit")
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(1) as waiting,
        open_spu(near_library) as spu,
    ):
        sockets = Path(folder) / "own", Path(folder) / "peer"
        work = waiting.submit(spu.compare, plan, vectors, rank=0, sockets=sockets)
        told = asked(sockets[0], f"GET {page} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        spu.process.child.process.kill()
        with pytest.raises(LibraryFailed):
            work.result()
    assert told.startswith(b"HTTP/1.1 404")


def asked(path: Path, request: bytes) -> bytes:
    """Connect to a socket, once there is one, and return the beginning of the answer."""
    end = time.monotonic() + 60
    while True:
        with socket.socket(socket.AF_UNIX) as opened, suppress(FileNotFoundError, ConnectionRefusedError):
            opened.settimeout(60)
            opened.connect(str(path))
            opened.sendall(request)
            return opened.recv(1000)
        assert time.monotonic() < end
        time.sleep(0.1)


def test_shares_that_are_not_of_this_comparison_end_in_an_error(near_library: Path) -> None:
    plan = NearPlan(SESSION, (2, 2), 64, 1, "bit")
    with open_spu(near_library) as spu, pytest.raises(LibraryFailed):
        spu.open(plan, [b"meta", b"share"], [b"\x00" * 9, b"\xff" * 3])


def test_a_library_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="near comparisons"), open_spu(tmp_path):
        pass
