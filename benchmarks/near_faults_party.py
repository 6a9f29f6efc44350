"""A party of benchmarks/near_faults.py, as a process: serves or asks near comparisons of random embeddings.

    python benchmarks/near_faults_party.py serve FOLDER
    python benchmarks/near_faults_party.py ask FOLDER ADDRESS

What `party serve` and `overlap --with` do after a release was embedded. FOLDER has the folders of both
parties, and of strangers whom the answering party trusts and agrees with.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from medsanitize.commands.party import started_as, stop_on_signals
from medsanitize.errors import MedsanitizeError
from medsanitize.federation.near.session import NearSide
from medsanitize.federation.parties.identity import open_party
from medsanitize.federation.parties.trust import trusted_partners
from medsanitize.federation.transport.https_server import serve
from medsanitize.pipeline.jobs.near_overlap import answer_with
from medsanitize.pipeline.runtime.result import describe_error, exit_code
from medsanitize.pipeline.stages.near_comparison import ask_partner_near
from near_partners import sides_of

SIZES = (12, 15)
# As for an agreement with the default limits.
MOST_BYTES = 20_000_000


def sides(folder: Path) -> tuple[NearSide, NearSide]:
    """Both parties with their random patients."""
    return sides_of(open_party(folder / "north"), open_party(folder / "south"), *SIZES)


async def served(folder: Path) -> None:
    """Answer every trusted partner until a signal."""
    _, own = sides(folder)
    partners, stop = trusted_partners(own.party), asyncio.Event()
    stop_on_signals(stop)
    await serve(
        own.party,
        partners,
        ("127.0.0.1", 0),
        lambda _, __: b"",
        most_bytes=MOST_BYTES,
        started=started_as(True),
        stop=stop,
        near=answer_with(own.party, {name: replace(own, partner=one) for name, one in partners.items()}),
    )


def main() -> int:
    """Serve, or ask and print the count."""
    role, folder, *address = sys.argv[1:]
    if role == "serve":
        asyncio.run(served(Path(folder)))
        return 0
    try:
        found = ask_partner_near(sides(Path(folder))[0], address[0])
    except MedsanitizeError as error:
        print(json.dumps({"message": describe_error(error)}))
        return int(exit_code(error))
    counts = {"near": found.learned.opened.number}
    print(json.dumps({"result": found.verdict.result, "counts": counts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
