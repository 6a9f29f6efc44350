"""Cost of a private comparison of two hospitals: wall time and bytes by number of items.

    python benchmarks/partners.py OUT [--items 10000 100000] [--near 100x1000 250x2000 500x4000]

Both parties run in this process, one after the other, with random items of which 3 are common; the library
of private set intersection is installed into OUT. Exits 1 if a count is wrong, or if a comparison takes
longer or more bytes than the bar: 10 s for 10,000 items, 60 s and 25 MB for 100,000.

With --near, SPU is installed as well and near comparisons are made, by both parties at once over TLS on this
machine, of random embeddings of 256 numbers. The bars are 60 s for 100 by 1,000 patients and 30 minutes for
1,000 by 10,000, which is extrapolated from three or more sizes unless it is one of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from common import fresh, machine, table
from medsanitize.federation.libraries.install import install_library
from medsanitize.federation.near.install import SPU
from medsanitize.federation.parties.identity import IDENTITY, LocalParty, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.private_overlap.answer import Offer, answer
from medsanitize.federation.private_overlap.ask import Asking, learned, proceed, start
from medsanitize.federation.private_overlap.terms import Comparison, PartnerTerms
from medsanitize.federation.psi.install import PSI
from near_partners import near_costs

COMMON = 3
# Items, seconds, bytes.
BARS = {10_000: (10.0, 25e6), 100_000: (60.0, 25e6)}
TERMS = PartnerTerms((Comparison(what="pixels", reveal="count", contract=""),), largest=10_000_000, runs=1000)


def parties(out: Path) -> tuple[LocalParty, LocalParty]:
    """Make two parties that trust each other; the first has the library."""
    north, south = trusting(out)
    install_library(PSI, north.folder, None)
    return north, south


def trusting(out: Path) -> tuple[LocalParty, LocalParty]:
    """Make two parties that trust each other."""
    for name in ("north", "south"):
        create_party(out / name, name)
    north, south = open_party(out / "north"), open_party(out / "south")
    for one, other in ((north, south), (south, north)):
        trust_partner(one, other.folder / IDENTITY, other.identity.fingerprint)
    return north, south


def compared(north: LocalParty, south: LocalParty, count: int) -> tuple[float, int, int]:
    """Compare ``count`` items of each; seconds, bytes of all messages, and the count that was found."""
    draw = np.random.default_rng(count)
    ours = [draw.bytes(32) for _ in range(count)]
    theirs = [*ours[:COMMON], *(draw.bytes(32) for _ in range(count - COMMON))]
    library, began = PSI.of(north.folder), time.perf_counter()
    asking = Asking(north, south.identity, TERMS, {"pixels": ours}, library)
    offer = Offer({"north": TERMS}, lambda _: {"pixels": theirs}, library)
    asked, following = start(asking)
    size, message = 0, following
    while message is not None:
        reply = answer(south, offer, message)
        size += len(message) + len(reply)
        asked, message = proceed(asking, asked, reply)
    return time.perf_counter() - began, size, learned(asking, asked).counts["pixels"]


def main() -> int:
    """Compare, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--near", nargs="*", default=[], metavar="ASKINGxANSWERING")
    given = parser.parse_args()
    north, south = parties(fresh(given.out))
    rows, failed = list[list[object]](), False
    for count in given.items:
        seconds, size, found = compared(north, south, count)
        longest, most = BARS.get(count, (float("inf"), float("inf")))
        failed = failed or found != COMMON or seconds > longest or size > most
        rows.append([f"{count:,}", f"{seconds:.1f}", f"{size / 1e6:.1f}", found])
    print(machine())
    print(table(["items of each", "seconds", "MB", "in common"], rows))
    if given.near:
        install_library(SPU, north.folder, None)
        failed = not near_costs(north, south, given.near) or failed
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
