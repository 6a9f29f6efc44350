"""CPU time and recall of the embedding search, compared with scikit-learn's brute force in the same run.

    python benchmarks/search.py OUT [--vectors 1000000] [--queries 1000] [--dimension 128]

Vectors form clusters of ten, like images of one patient. Prints a Markdown table. Exits 1 if the exact search
misses a neighbor or inverted lists find less than 0.98 of the ten nearest.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from common import fresh, machine, table
from medsanitize.verifiers.reid.index.index import build_index, open_index

NEIGHBORS = 10
TARGET = 0.98
_A_PATIENT = 10
_AT_ONCE = 100_000


def batches(count: int, dimension: int, seed: int) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Unit vectors around a center per patient, and the patient's number."""
    for start in range(0, count, _AT_ONCE):
        size = min(_AT_ONCE, count - start)
        rows = np.arange(start, start + size)
        yield (
            vectors_of(rows // _A_PATIENT, dimension, seed + start),
            pa.RecordBatch.from_pydict({"row": rows}),
        )


def vectors_of(patients: Any, dimension: int, seed: int) -> Any:
    """One vector per patient number: the patient's center plus a deviation of a third of its length."""
    random = np.random.default_rng(seed)
    distinct, which = np.unique(patients, return_inverse=True)
    centers = np.stack([np.random.default_rng(int(one)).standard_normal(dimension) for one in distinct])
    found = centers[which] + random.standard_normal((len(patients), dimension)) / 3
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def brute_force(vectors: Any, queries: Any) -> tuple[Any, float]:
    """Rows of scikit-learn's exact neighbors, and the CPU seconds it took to find them."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=NEIGHBORS, algorithm="brute").fit(np.asarray(vectors))
    began = time.process_time()
    return search.kneighbors(queries, return_distance=False), time.process_time() - began


def recall(found: Any, true: Any) -> float:
    """Share of the true neighbors that were found."""
    hits = [len(set(one) & set(other)) for one, other in zip(found, true, strict=True)]
    return float(sum(hits) / true.size)


def measure(folder: Path, name: str, options: argparse.Namespace, exact_up_to: int) -> dict[str, Any]:
    """Build, open and search one index."""
    count, dimension = options.vectors, options.dimension
    began = time.process_time()
    build_index(
        folder, batches(count, dimension, 0), dimension=dimension, model="benchmark", exact_up_to=exact_up_to
    )
    built = time.process_time()
    index = open_index(folder)
    opened = time.process_time()
    patients = np.random.default_rng(1).integers(0, count // _A_PATIENT, options.queries)
    queries = vectors_of(patients, dimension, 2)
    index.search(queries[:1], NEIGHBORS)
    warm = time.process_time()
    rows = index.search(queries, NEIGHBORS)[1]
    searched = time.process_time() - warm
    size = sum(path.stat().st_size for path in folder.iterdir() if path.suffix != ".parquet")
    return {
        "name": name,
        "seconds": (built - began, opened - built, searched),
        "rows": rows,
        "queries": queries,
        "vectors": index.searched.vectors,
        "size": size,
        "about": index.about,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Build both indexes, search them and scikit-learn, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--dimension", type=int, default=128)
    options = parser.parse_args(arguments)
    out = fresh(options.out)
    exact = measure(out / "exact", "exact (default)", options, options.vectors)
    lists = measure(out / "lists", "inverted lists, ranked again", options, options.vectors - 1)
    lists["name"] += f", {lists['about'].probes} visited"
    true, brute = brute_force(exact["vectors"], exact["queries"])
    rows = [["scikit-learn, brute force", "", "", f"{brute:.2f}", "1.0000", ""]]
    found = {one["name"]: recall(one["rows"], true) for one in (exact, lists)}
    for one in (exact, lists):
        seconds = [f"{value:.2f}" for value in one["seconds"]]
        rows.append([one["name"], *seconds, f"{found[one['name']]:.4f}", f"{one['size'] / 1e6:.0f}"])
    print(machine())
    print()
    searching = f"{options.queries:,} queries, CPU s"
    head = ["search", "build, CPU s", "check and open, CPU s", searching, "recall@10", "MB on disk"]
    print(table(head, rows))
    # Float32 rounding in scikit-learn may swap neighbors at almost equal distances.
    return 0 if found[exact["name"]] > 0.9999 and found[lists["name"]] >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
