"""Questions about single images: seconds, bytes, memory, agreement with the clear, and whole networks.

    python benchmarks/ask.py OUT [--images 1 100] [--random 1000] [--phantoms 150] [--patients 1000]
                             [--library FOLDER]

Both parties run on this machine, over TLS; SPU is installed into OUT, unless a folder with it is named.
A classifier of random numbers (8,192 features, 256 dimensions, 5 classes) is asked about random embeddings,
patients are searched, and the parts of a convolution layer are measured, from which follows what
EfficientNet-Lite0 would take by its numbers of multiplications and activations. Then the random classifier,
and one trained on phantoms (`train classifier --recipe frozen`), are asked about more embeddings, of random
numbers and of other phantoms. Exits 1 if less than 99.9 % of the classes are those in the clear, a class is
another one instead of unsure, or a search is wrong.
"""

from __future__ import annotations

import argparse
import csv
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ask_layers import layer_costs
from common import fresh, machine, medsanitize, table
from medsanitize.federation.ask.head import SecretHead, secret_head
from medsanitize.federation.ask.process import TIE
from medsanitize.federation.ask.session import ClassLearned, ClassSide, ask_classes
from medsanitize.federation.ask.terms import AskLimits, ClassTerms
from medsanitize.federation.libraries.install import install_library
from medsanitize.federation.near.client import ask_near_over_https, converse, over_https
from medsanitize.federation.near.embeddings import NearSet, limit_of
from medsanitize.federation.near.install import SPU
from medsanitize.federation.near.terms import NearLimits
from medsanitize.federation.parties.identity import LocalParty
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.pipeline.jobs.near_overlap import answer_with
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.read import read_image
from medsanitize.verifiers.reid.models.packaged_head import PackagedHead, open_packaged_head
from medsanitize.verifiers.reid.models.pretrained import packaged_digest, packaged_retrieval
from near_partners import TERMS, cpu_seconds, serving_line, sides_of
from numpy.typing import NDArray
from partners import trusting

FEATURES, WIDTH, CLASSES, BLOCK = 8192, 256, 5, 100
BAR = 0.999
LIMITS = AskLimits(answers=1_000_000, days=30)


def random_head() -> PackagedHead:
    """A classifier of random numbers, with logits of several units."""
    draw = np.random.default_rng(0)
    parts = (
        draw.normal(size=(WIDTH, FEATURES)),
        draw.normal(size=WIDTH) / 4,
        2 * draw.normal(size=(CLASSES, WIDTH)),
        draw.normal(size=CLASSES),
    )
    names = tuple(f"class {place}" for place in range(CLASSES))
    digest = packaged_digest(Modality.RADIOGRAPH)
    return PackagedHead(
        "0" * 64, Modality.RADIOGRAPH, digest, names, *(one.astype(np.float32) for one in parts)
    )


def random_features(count: int) -> NDArray[np.float32]:
    """Embeddings of unit length in random directions."""
    drawn = np.random.default_rng(1).normal(size=(count, FEATURES))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def phantoms(out: Path, count: int) -> tuple[PackagedHead, NDArray[np.float32]]:
    """Train a classifier on phantoms, and embed as many others."""
    write_chests(out / "fit", range(count), visits=(1, 1), size=96, seed=4)
    write_chests(out / "asked", range(count, 2 * count), visits=(1, 1), size=96, seed=4)
    given = ("--images", out / "fit", "--labels", out / "fit" / "labels.csv", "--class", "finding")
    done = medsanitize(
        "train", "classifier", *given, "--recipe", "frozen", "--output", out / "model", cwd=out
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    with (out / "asked" / "labels.csv").open(newline="") as file:
        paths = [out / "asked" / row["file"] for row in csv.DictReader(file)]
    model, kind = packaged_retrieval(Modality.RADIOGRAPH), Modality.RADIOGRAPH
    vectors = [model.embed([read_image(path, kind=kind)]) for path in paths]
    return open_packaged_head(out / "model"), np.concatenate(vectors)


def logits(head: PackagedHead, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """The logits of the model in the clear."""
    mapped = vectors.astype(np.float64) @ head.map.astype(np.float64).T + head.shift
    mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
    return np.asarray(mapped @ head.weight.astype(np.float64).T + head.bias)


@contextmanager
def answering(ends: tuple[LocalParty, LocalParty], head: SecretHead) -> Iterator[Callable[..., ClassLearned]]:
    """Serve a classifier; yields what asks about features."""
    terms = ClassTerms(model="classifier", features=head.features, confidence=0.5, contract="")
    library = SPU.of(ends[0].folder)
    north, south = (
        ClassSide(ends[place], ends[1 - place].identity, terms, LIMITS, library) for place in (0, 1)
    )
    offered = {ends[0].identity.name: {"classifier": (south, head)}}
    with serving_line(ends[1], ends[0].identity, answer_with(ends[1], {}, {}, offered)) as address:
        yield lambda vectors: over_https(
            converse(north.party, north.partner, address, partial(ask_classes, north, vectors))
        )


def asked(
    ends: tuple[LocalParty, LocalParty], name: str, head: PackagedHead, vectors: NDArray[np.float32]
) -> tuple[list[object], bool]:
    """Ask about all features, in blocks; a row of the table, and whether the bar is met."""
    wanted, answers = logits(head, vectors), list[int | None]()
    with answering(ends, secret_head(head)) as ask:
        for start in range(0, len(vectors), BLOCK):
            answers += ask(vectors[start : start + BLOCK]).answers
    best, ordered = wanted.argmax(axis=1), np.sort(wanted, axis=1)
    agree = float(np.mean([one == other for one, other in zip(answers, best, strict=True)]))
    other = sum(one not in (None, two) for one, two in zip(answers, best, strict=True))
    ties = int((ordered[:, -1] - ordered[:, -2] <= TIE).sum())
    row = [name, f"{len(vectors):,}", f"{agree:.2%}", answers.count(None), ties, other, len(set(answers))]
    return row, agree >= BAR and not other


def costs(
    ends: tuple[LocalParty, LocalParty], counts: Sequence[int], patients: int
) -> tuple[list[list[object]], bool]:
    """Seconds, CPU, bytes and memory of a classification and of a search."""
    rows, holds = list[list[object]](), True

    def measured(name: str, count: int, question: Callable[[], Any]) -> Any:
        began, before = time.perf_counter(), cpu_seconds()
        found = question()
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - before
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        told = (f"{seconds:.1f}", f"{cpu:.1f}", f"{found.carried / 1e6:.1f}", f"{memory / 1e9:.2f}")
        rows.append([name, count, *told])
        return found

    with answering(ends, secret_head(random_head())) as ask:
        for count in counts:
            measured("class", count, partial(ask, random_features(count)))
    searching, searched = sides_of(*ends, BLOCK, patients)
    terms = TERMS.model_copy(update={"reveal": "each"})
    limits = NearLimits(smallest=1, largest=1_000_000, runs=1_000_000, days=30, images=BLOCK)
    searched = replace(searched, terms=terms, limits=limits)
    answered = answer_with(ends[1], {}, {ends[0].identity.name: searched})
    for count in counts:
        # The last are those of patients of both.
        own = NearSet(searching.own.vectors[-count:], ("",) * count, 0)
        side = replace(searching, terms=terms, limits=limits, own=own, calibration=None)
        with serving_line(ends[1], ends[0].identity, answered) as address:
            found = measured(f"search, {patients:,}", count, partial(ask_near_over_https, side, address))
        squares = (own.vectors.astype(np.int64)[:, None] - searched.own.vectors) ** 2
        matches = (squares.sum(axis=2) <= limit_of(found.distance)).any(axis=1)
        holds = holds and list(found.opened.patients) == matches.tolist()
    return rows, holds


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=int, nargs="*", default=[1, 100])
    parser.add_argument("--random", type=int, default=1000)
    parser.add_argument("--phantoms", type=int, default=150)
    parser.add_argument("--patients", type=int, default=1000)
    parser.add_argument("--library", type=Path)
    given = parser.parse_args()
    out = fresh(given.out)
    print(machine())
    ends = trusting(out)
    if given.library is None:
        install_library(SPU, ends[0].folder, None)
    else:
        SPU.of(ends[0].folder).symlink_to(given.library.resolve())
    rows, holds = costs(ends, given.images, given.patients)
    head = ["question", "images", "seconds", "CPU s", "MB", "GB of a process so far"]
    print(table(head, rows), flush=True)
    print("\n" + layer_costs(SPU.of(ends[0].folder)), flush=True)
    rows = []
    for name, case in (
        ("random", (random_head(), random_features(given.random))),
        ("phantoms", phantoms(out, given.phantoms)),
    ):
        row, is_met = asked(ends, name, *case)
        rows.append(row)
        holds = holds and is_met
    head = ["embeddings", "images", "same class", "unsure", "ties in the clear", "another class", "answers"]
    print("\n" + table(head, rows))
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
