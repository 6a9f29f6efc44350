"""Hits of the identifier search in pixels without identifiers, and planted identifiers that it finds.

    python benchmarks/chance.py OUT [--blocks 400] [--values 10000] [--before PYTHON]

Draws names, ids and institutions of 8 to 30 letters in twelve languages (Faker), and blocks of 64 x 64 pixels
of 8 bits: random, flat, smooth, noise in the range of letters, and letters with separators (text-like); and
compressed ones, which are random bytes. Searches every block as the audit does and counts

1. hits by chance, as for a run of 100 GB: none is expected, since 0.01 are the bound;
2. hits by chance of pieces of 5 letters with at least b bits, compared with the bound values x bytes x 2^-b:
   chance finds many of them, so the model itself is tested;
3. planted values that are found, in four forms: bare, between separators, in a line of words, in UTF-16.

``--before`` names the Python of another checkout, whose search is measured on the same blocks. Blocks are
drawn and searched a megabyte at a time: ten million random, flat, smooth and text-like ones (41 GB) are
``--blocks 2500000 --kinds random flat smooth text-like``, about 12 minutes of one core. Exits 1 if chance
exceeds the bound, or a value planted in a line is missed that was found before.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import fresh, machine, table

LANGUAGES = (
    *("en_US", "de_DE", "es_ES", "fr_FR", "it_IT", "nl_NL"),
    *("pl_PL", "sv_SE", "pt_PT", "cs_CZ", "fi_FI", "da_DK"),
)
CATEGORIES = ("name", "id", "institution")
KINDS = ("compressed", "random", "flat", "smooth", "noise", "text-like")
FORMS = ("bare", "separated", "in a line", "UTF-16")
EDGE = 64
RUN = 100_000_000_000
# Chance hits that are expected in a run at most (EXPECTED_CHANCE_HITS of the search).
EXPECTED = 0.01
PIECE = 5
PLANTS = 300
SEED = 23
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz    ,.-\0", np.uint8)


def values_of(count: int) -> list[tuple[str, str]]:
    """Names, ids and institutions with their categories, from 8 to 30 letters and digits."""
    from faker import Faker

    makers = [Faker(language) for language in LANGUAGES]
    Faker.seed(23)
    chooser = random.Random(23)  # noqa: S311
    found: dict[tuple[str, str], None] = {}
    for turn in itertools.count():
        if len(found) == count:
            break
        # Not by their number: a list of cities may be exhausted.
        maker, category = makers[turn % len(makers)], CATEGORIES[turn // len(makers) % len(CATEGORIES)]
        if category == "name":
            value = f"{maker.last_name()}^{maker.first_name()}"
        elif category == "id":
            value = maker.bothify(
                chooser.choice(["########", "??######", "#########", "???-#######", "############"])
            )
        else:
            value = f"{maker.city()} {chooser.choice(['Clinic', 'Hospital', 'Radiology', 'Institute'])}"
        if 8 <= sum(map(str.isalnum, value)) <= 30:
            found[category, value] = None
    return list(found)


def blocks(kind: str, count: int, random_numbers: np.random.Generator) -> bytes:
    """Blocks of pixels of one kind, one after the other; drawn together, since there are millions."""
    shape = (count, EDGE, EDGE)
    if kind in ("random", "compressed"):
        return random_numbers.bytes(count * EDGE * EDGE)
    if kind == "text-like":
        return _LETTERS[random_numbers.integers(0, len(_LETTERS), shape, np.uint8)].tobytes()
    if kind == "flat":
        pixels = np.repeat(random_numbers.integers(0, 256, count, np.uint8), EDGE * EDGE)
        # One pixel in a hundred is brighter by one.
        brighter = random_numbers.integers(0, pixels.size, pixels.size // 100)
        pixels[brighter] = np.minimum(pixels[brighter], 254) + 1
        return pixels.tobytes()
    normal = random_numbers.standard_normal(shape, np.float32)
    each = (count, 1, 1)
    if kind == "smooth":
        steps = normal * random_numbers.uniform(0.25, 2, each).astype(np.float32)
        values = steps.cumsum(2) + random_numbers.uniform(40, 130, each).astype(np.float32)
    else:
        spread = random_numbers.uniform(4, 9, each).astype(np.float32)
        values = normal * spread + random_numbers.choice(np.float32([78, 109]), each)
    return np.clip(values, 0, 255).astype(np.uint8).tobytes()


def planted(pixels: bytes, value: str, form: str) -> bytes:
    """The block with a value in its middle."""
    text = value.encode("utf-16-le") if form == "UTF-16" else value.encode("latin-1", "replace")
    if form != "bare":
        text = b"\0\0" + text + b"\0\0"
    if form == "in a line":
        text = b"Patient Name: " + text.strip(b"\0") + b" Hospital Study Description: Chest"
    middle = len(pixels) // 2
    return pixels[:middle] + text + pixels[middle + len(text) :]


def search_of(values: Sequence[tuple[str, str]]) -> Any:
    """The search that the audit of a run of 100 GB would use."""
    from medsanitize.policies.tables.vocabulary import words
    from medsanitize.sanitize.context import KnownValue
    from medsanitize.verifiers.leaks.identifier_search import build_identifier_search

    known = [KnownValue(category, value) for category, value in values]
    try:
        return build_identifier_search(known, words(), RUN)
    except TypeError:  # a checkout before the size of a run counted
        return build_identifier_search(known, words())


def found_in(search: Any, data: bytes, *, native: bool) -> tuple[int, int]:
    """Number of places that match, and of those that would be findings in the pixels of an object."""
    from medsanitize.verifiers.leaks.identifier_search import stands_alone

    matches = found = 0
    for hit in search.hits_in_samples(data, 0, len(data)) if native else search.hits(data):
        if hasattr(search, "counts_in_image"):
            counts = search.counts_in_image(data, hit, 0, len(data), native=native)
        else:
            counts = hit.rule == "uid" or (hit.length >= (9 if native else 7) and hit.one_case)
        matches += 1
        found += counts and stands_alone(data, hit, 0, len(data))
    return matches, found


def blocks_of(kind: str, count: int, seed: int = SEED) -> Iterator[bytes]:
    """Blocks of one kind, joined to images of a megabyte."""
    numbers = np.random.default_rng([seed, KINDS.index(kind)])
    for start in range(0, count, 256):
        yield blocks(kind, min(256, count - start), numbers)


def measure(values: list[tuple[str, str]], number: int, kinds: Sequence[str], seed: int) -> dict[str, Any]:
    """Matches, chance hits, planted values found and seconds, by kind of block."""
    search = search_of(values)
    chosen = random.Random(5).sample(values, min(PLANTS, len(values)))  # noqa: S311
    result: dict[str, Any] = {"patterns": len(search._patterns), "kinds": kinds}
    for kind in kinds:
        spent, matches, hits = 0.0, 0, 0
        for data in blocks_of(kind, number, seed):
            start = time.process_time()
            seen, counted = found_in(search, data, native=kind != "compressed")
            matches, hits = matches + seen, hits + counted
            spent += time.process_time() - start
        print(f"{kind}: {number:,} blocks searched, {hits} chance hits", file=sys.stderr)
        places = list(blocks_of(kind, len(chosen)))
        pixels = b"".join(places)
        size = EDGE * EDGE
        found = {
            form: [
                found_in(
                    search,
                    planted(pixels[at * size : (at + 1) * size], value, form),
                    native=kind != "compressed",
                )[1]
                > 0
                for at, (_, value) in enumerate(chosen)
            ]
            for form in FORMS
        }
        result[kind] = {"matches": matches, "hits": hits, "seconds": spent, "found": found}
    result["categories"] = [category for category, _ in chosen]
    return result


def pieces(values: list[tuple[str, str]], number: int) -> list[list[str]]:
    """Rows of hits of short pieces of names, and of their bound, by kind and least bits."""
    from ahocorasick_rs import BytesAhoCorasick
    from medsanitize.verifiers.leaks.chance import hit_bits

    text = "".join(value.lower() for category, value in values if category == "name")
    letters = "".join(one for one in text if "a" <= one <= "z").encode()
    short = sorted({letters[at : at + PIECE] for at in range(0, len(letters) - PIECE, PIECE)})
    short = [piece for piece in short if len(set(piece)) > 2]
    forms = [form for piece in short for form in (piece, piece.upper(), piece.title())]
    machine_ = BytesAhoCorasick(forms)
    rows = []
    for kind in KINDS[1:]:
        found: list[float] = []
        size = 0
        for data in blocks_of(kind, number):
            size += len(data)
            hits = machine_.find_matches_as_indexes(data, overlapping=True)
            found += [hit_bits(data, a, b, native=True, bounds=(0, len(data))) for _, a, b in hits]
        for least in (20, 24, 28, 32):
            bound = len(forms) * size * 2.0**-least
            rows.append([kind, str(least), str(sum(one >= least for one in found)), f"{bound:.1f}"])
    return rows


def report(now: dict[str, Any], before: dict[str, Any] | None, number: int) -> list[list[str]]:
    """Rows of chance hits and planted values by kind, of this search and of the one before."""
    # The bound of a run of that size holds for the part of it that is searched here.
    expected = f"{EXPECTED * number * EDGE * EDGE / RUN:.4f}"
    rows = []
    for kind in now["kinds"]:
        one, other = now[kind], before[kind] if before else None
        row = [kind, f"{one['matches']:,}", str(one["hits"]), str(other["hits"]) if other else "", expected]
        for form in FORMS:
            row.append(_share(one["found"][form], other["found"][form] if other else None))
        row.append(f"{one['seconds']:.2f}" + (f" ({other['seconds']:.2f})" if other else ""))
        rows.append(row)
    return rows


def _share(now: Sequence[bool], before: Sequence[bool] | None) -> str:
    return f"{sum(now)}/{len(now)}" + (f" ({sum(before)})" if before is not None else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--blocks", type=int, default=400)
    parser.add_argument("--values", type=int, default=10_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seed", type=int, default=SEED, help="of the searched blocks, to run parts at once")
    parser.add_argument("--before")
    parser.add_argument("--raw", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.raw:
        values = [
            (category, value) for category, value in json.loads((options.out / "values.json").read_text())
        ]
        print(json.dumps(measure(values, options.blocks, options.kinds, options.seed)))
        return 0
    fresh(options.out)
    values = values_of(options.values)
    (options.out / "values.json").write_text(json.dumps(values))
    now, before = measure(values, options.blocks, options.kinds, options.seed), None
    if options.before:
        command = [
            options.before,
            __file__,
            str(options.out),
            "--raw",
            "--blocks",
            str(options.blocks),
            "--seed",
            str(options.seed),
            "--kinds",
        ]
        command += options.kinds
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        before = json.loads(done.stdout)
    print(machine())
    print(f"\n{now['patterns']:,} patterns, {options.blocks:,} blocks of each kind\n")
    head = ["pixels", "matches", "chance hits", "before", "expected, at most", *FORMS, "CPU s (before)"]
    print(table(head, report(now, before, options.blocks)))
    # Chance finds so many pieces that a part of the blocks suffices.
    short = pieces(values, min(options.blocks, 20_000))
    print(f"\nPieces of {PIECE} letters:\n")
    print(table(["pixels", "least bits", "hits", "bound"], short))
    (options.out / "chance.json").write_text(json.dumps({"now": now, "before": before, "pieces": short}))
    exceeded = any(int(hits) > 2 * float(bound) + 3 for _, _, hits, bound in short)
    missed = before is not None and any(
        sum(now[kind]["found"]["in a line"]) < sum(before[kind]["found"]["in a line"])
        for kind in options.kinds
    )
    return int(exceeded or missed or any(now[kind]["hits"] for kind in options.kinds))


if __name__ == "__main__":
    sys.exit(main())
