"""The part of benchmarks/partners.py on near comparisons: seconds, bytes and memory by number of patients."""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from common import table
from medsanitize.federation.near.bounds import own_calibration
from medsanitize.federation.near.client import ask_near_over_https
from medsanitize.federation.near.embeddings import limit_of, near_set
from medsanitize.federation.near.install import SPU
from medsanitize.federation.near.session import NearLearned, NearSide
from medsanitize.federation.near.terms import NearLimits, NearTerms
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.transport.https_server import Near, serve
from medsanitize.pipeline.jobs.near_overlap import answer_with
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.index.search import VectorSearch
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, Embeddings

KIND, DIMENSION, SHARED, IMAGES = Modality.RADIOGRAPH, 256, 3, 2
TERMS = NearTerms(kind=KIND, model="random numbers", reveal="count", contract="")
LIMITS = NearLimits(smallest=1, largest=1_000_000, runs=1000, days=30)
BAR, LARGE, LARGE_BAR = 60.0, (1_000, 10_000), 1800.0
HUGE_PAIRS, YEAR = 1e12, 3.156e7


def near_costs(north: LocalParty, south: LocalParty, sizes: Sequence[str]) -> bool:
    """Compare, print, and return whether counts and bars hold."""
    rows, points, holds = list[list[object]](), list[tuple[int, float, float, float]](), True
    for text in sizes:
        asking, answering = (int(one) for one in text.split("x"))
        sides = sides_of(north, south, asking, answering)
        began, before = time.perf_counter(), cpu_seconds()
        with serving(sides[1]) as address:
            found = ask_near_over_https(sides[0], address)
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - before
        holds = holds and is_right(sides, found) and (text != "100x1000" or seconds <= BAR)
        points.append((asking * answering, seconds, cpu, float(found.carried)))
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        rows.append(
            [
                f"{asking:,} x {answering:,}",
                f"{seconds:.1f}",
                f"{cpu:.1f}",
                f"{found.carried / 1e6:.1f}",
                f"{memory / 1e9:.1f}",
                found.opened.number,
            ]
        )
    print(table(["patients", "seconds", "CPU s", "MB", "GB of a process so far", "match"], rows))
    return holds if len(points) < 3 else predicted(points) <= LARGE_BAR and holds


def predicted(points: Sequence[tuple[int, float, float, float]]) -> float:
    """Print the model of cost, how well it fits, and what it predicts; seconds of 1,000 x 10,000."""
    pairs, seconds, cpu, carried = (np.array(one) for one in zip(*points, strict=True))
    rows = list[list[object]]()
    for name, values, year in (("seconds", seconds, True), ("CPU s", cpu, True), ("bytes", carried, False)):
        slope, start = np.polyfit(pairs, values, 1)
        at, huge = start + slope * LARGE[0] * LARGE[1], slope * HUGE_PAIRS
        told = f"{huge / YEAR:.2g} years" if year else f"{huge / 1e12:.0f} TB"
        rows.append(
            [name, f"{start:.3g}", f"{slope:.3g}", f"{_missed(pairs, values):.0%}", f"{at:.3g}", told]
        )
    head = ["cost", "at the start", "for each pair", "error", "1,000 x 10,000", "1,000,000 x 1,000,000"]
    print("\nA line through these; its error is that at a size which is left out:\n" + table(head, rows))
    slope, start = np.polyfit(pairs, seconds, 1)
    return float(start + slope * LARGE[0] * LARGE[1])


def _missed(pairs: Any, values: Any) -> float:
    found = []
    for one in range(len(pairs)):
        line = np.polyfit(np.delete(pairs, one), np.delete(values, one), 1)
        found.append(abs(np.polyval(line, pairs[one]) / values[one] - 1))
    return float(max(found))


def cpu_seconds() -> float:
    """CPU time of this process and of those of the library that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def sides_of(north: LocalParty, south: LocalParty, asking: int, answering: int) -> tuple[NearSide, NearSide]:
    """Two parties with random patients, of whom three are the same people in other images."""
    people = np.random.default_rng(asking).normal(size=(asking + answering - SHARED, DIMENSION))
    people /= np.linalg.norm(people, axis=1, keepdims=True)
    found = []
    for party, partner, own in (
        (north, south, people[:asking]),
        (south, north, people[asking - SHARED :]),
    ):
        seen = fingerprint(own, len(own))
        embeddings = near_set(seen, KIND)
        calibration = own_calibration(seen, KIND, None, DIMENSION)
        library = SPU.of(north.folder)
        found.append(NearSide(party, partner.identity, TERMS, LIMITS, embeddings, calibration, library))
    return found[0], found[1]


def fingerprint(people: Any, seed: int) -> DatasetFingerprint:
    """A release with two radiographs of each person."""
    vectors = np.repeat(people, IMAGES, axis=0)
    vectors = vectors + 0.4 * np.random.default_rng(seed).normal(size=vectors.shape) / DIMENSION**0.5
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    count, numbers = len(vectors), np.repeat(np.arange(len(people)), IMAGES)
    nothing = (None,) * count
    search = VectorSearch(vectors.astype(np.float32))
    return DatasetFingerprint(
        title="The release",
        images=(),
        patients=numbers,
        names=tuple(f"p{number}" for number in range(len(people))),
        digests=nothing,
        pixels=nothing,
        perceptual_hashes=nothing,
        stamps=("",) * count,
        vectors={KIND: Embeddings(np.arange(count), numbers, search, None)},
        unread={},
        non_images=0,
    )


def is_right(sides: tuple[NearSide, NearSide], found: NearLearned) -> bool:
    """Whether the count is that of the clear comparison of the same embeddings."""
    ours, theirs = (side.own.vectors.astype(np.int64) for side in sides)
    squares = (ours**2).sum(axis=1)[:, None] + (theirs**2).sum(axis=1) - 2 * (ours @ theirs.T)
    matches = squares <= limit_of(found.distance)
    return found.opened.number == min(matches.any(axis=1).sum(), matches.any(axis=0).sum())


@contextmanager
def serving(side: NearSide) -> Iterator[str]:
    """Serve near comparisons in a thread; yields the address."""
    answered = answer_with(side.party, {side.partner.name: side})
    with serving_line(side.party, side.partner, answered) as address:
        yield address


@contextmanager
def serving_line(party: LocalParty, partner: Identity, answered: Near) -> Iterator[str]:
    """Serve in a thread what answers a connection; yields the address."""
    told, ends, ready = list[int](), list[Any](), threading.Event()

    async def served() -> None:
        stop = asyncio.Event()
        ends.extend([asyncio.get_running_loop(), stop])
        await serve(
            party,
            {partner.name: partner},
            ("127.0.0.1", 0),
            lambda _, __: b"",
            most_bytes=1 << 26,
            started=lambda port: (told.append(port), ready.set())[0],
            stop=stop,
            near=answered,
        )

    thread = threading.Thread(target=lambda: asyncio.run(served()))
    thread.start()
    try:
        if not ready.wait(60):
            raise RuntimeError("the server does not start")
        yield f"https://127.0.0.1:{told[0]}"
    finally:
        ends[0].call_soon_threadsafe(ends[1].set)
        thread.join()
