"""The steps of a near comparison, run by `libraries.child` in the process of SPU.

Only its native module is loaded: the Python front ends need JAX. The protocol is Cheetah, which has no third
party and trusts neither of the two; SPU's default (Semi2k) trusts the first.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

_PARTIES = ("asking", "answering")
# A partner that is slower than this between two messages has died.
_WAIT_MS = 300_000


def steps() -> dict[str, Any]:
    """Import the library, and return the steps by name."""
    sys.path.insert(0, str(Path(sys.path[0]) / "spu"))
    import libspu  # type: ignore[import-not-found]

    libspu._check_cpu_features()
    return {
        "compare": partial(_compare, libspu),
        "classify": partial(_classify, libspu),
        "open": partial(_open, libspu),
    }


def _compare(spu: Any, facts: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Compare the embeddings of both parties, and return this party's share of each result."""
    import numpy as np

    settings = _settings(spu, facts)
    link = _link(spu, facts)
    runtime = spu.RuntimeWrapper(link, settings)
    inputs = _Inputs(spu, spu.IoWrapper(2, settings), runtime, facts["rank"])
    rows, columns, widths = facts["rows"], facts["columns"], facts["widths"]
    # Two columns more than an embedding; the library itself does not check shapes.
    own = np.frombuffer(parts[0], "<i2").reshape(facts["count"], sum(widths) - 2).astype(np.int32)
    squares = (own * own).sum(axis=1, keepdims=True, dtype=np.int32)
    ones = np.ones_like(squares)
    is_left = facts["rank"] == facts["left"]
    # The product of a row of the left and one of the right is minus the squared distance of both.
    own = np.hstack([2 * own, -squares, -ones] if is_left else [own, ones, squares])
    for name, sizes, owner in (("l", rows, facts["left"]), ("r", columns, 1 - facts["left"])):
        for block, (start, size) in enumerate(_ranges(sizes)):
            inputs.give(f"{name}{block}", None, (size,), 0)
            for part, (place, width) in enumerate(_ranges(widths)):
                given = own[start : start + size, place : place + width] if owner == facts["rank"] else None
                shape = (size, width) if name == "l" else (width, size)
                turned = given if given is None or name == "l" else given.T
                inputs.give(f"{name}{block}-{part}", turned, shape, owner)
    programs = {key: _compiled(spu, text) for key, text in facts["programs"].items()}
    for row, height in enumerate(rows):
        for column, length in enumerate(columns):
            names = [f"{side}-{part}" for part in range(len(widths)) for side in (f"l{row}", f"r{column}")]
            counters = [f"l{row}", f"r{column}"]
            runtime.Run(
                spu.Executable("block", [*names, *counters], counters, programs[f"{height}x{length}"])
            )
    inputs.give("zero", None, (), 0)
    taken = [*(f"l{row}" for row in range(len(rows)))]
    taken += [*(f"r{column}" for column in range(len(columns)))] if facts["counts_columns"] else []
    results = [f"result-{number}" for number in range(facts["results"])]
    runtime.Run(spu.Executable("outcome", [*taken, "zero"], results, _compiled(spu, facts["outcome"])))
    shares = [runtime.GetVar(name) for name in results]
    # What was sent last must arrive before this process ends.
    link.stop_link()
    return {}, [piece for share in shares for piece in _pieces(share)]


def _classify(spu: Any, facts: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Run a program once on the matrices of both parties, and return this party's share of its result."""
    import numpy as np

    settings = _settings(spu, facts)
    link = _link(spu, facts)
    runtime = spu.RuntimeWrapper(link, settings)
    inputs, own = _Inputs(spu, spu.IoWrapper(2, settings), runtime, facts["rank"]), iter(parts)
    for name, shape, owner in facts["inputs"]:
        given = None
        if owner == facts["rank"]:
            given = np.frombuffer(next(own), "<f4").reshape(shape)
        inputs.give(name, given, tuple(shape), owner, np.float32)
    inputs.give("zero", None, (), 0)
    names = [*(name for name, _, _ in facts["inputs"]), "zero"]
    runtime.Run(spu.Executable("classes", names, ["result"], _compiled(spu, facts["program"])))
    share = runtime.GetVar("result")
    link.stop_link()
    return {}, _pieces(share)


def _open(spu: Any, facts: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Combine the shares of both parties, the asking party's first, and return the numbers."""
    import numpy as np

    io, count = spu.IoWrapper(2, _settings(spu, facts)), facts["results"]
    numbers: list[int] = []
    for number in range(count):
        both = [_share(spu, parts[2 * place : 2 * place + 2]) for place in (number, count + number)]
        numbers += np.asarray(io.Reconstruct(both)).reshape(-1).tolist()
    return {"numbers": numbers}, []


class _Inputs:
    """Gives inputs to the runtime; what a party owns never leaves it in the clear."""

    def __init__(self, spu: Any, io: Any, runtime: Any, rank: int) -> None:
        self.spu, self.io, self.runtime, self.rank = spu, io, runtime, rank

    def give(self, name: str, value: Any, shape: tuple[int, ...], owner: int, kind: Any = "i4") -> None:
        """Set an input; the party that does not own it gives zeros, of which only the shape is used."""
        import numpy as np

        given = np.zeros(shape, kind) if value is None else np.ascontiguousarray(value)
        shares = self.io.MakeShares(given, self.spu.Visibility.VIS_SECRET, owner)
        self.runtime.SetVar(name, shares[self.rank])


def _settings(spu: Any, facts: dict[str, Any]) -> Any:
    """Integers of 32 bits, or numbers of 64 bits with a fraction."""
    fraction = facts.get("fraction", 0)
    ring = spu.FieldType.FM64 if fraction else spu.FieldType.FM32
    settings = spu.RuntimeConfig(spu.ProtocolKind.CHEETAH, ring, fraction)
    # Inputs stay with their owner, instead of being shared.
    settings.experimental_enable_colocated_optimization = True
    return settings


def _link(spu: Any, facts: dict[str, Any]) -> Any:
    """Connect both processes by sockets in a folder that only this user can enter."""
    told = spu.link.Desc()
    told.id = facts["session"]
    for rank, name in enumerate(_PARTIES):
        told.add_party(name, f"unix:{facts['own' if rank == facts['rank'] else 'peer']}")
    told.recv_timeout_ms = told.http_timeout_ms = _WAIT_MS
    told.connect_retry_times, told.connect_retry_interval_ms = 120, 500
    return spu.link.create_brpc(told, facts["rank"])


def _compiled(spu: Any, text: str) -> Any:
    secret = spu.Visibility.VIS_SECRET
    arguments = [secret] * text.partition(" -> ")[0].count("%")
    source = spu.CompilationSource(spu.SourceIRType.STABLEHLO, text.encode("ascii"), arguments)
    return spu.compile(source, spu.CompilerOptions())


def _ranges(sizes: list[int]) -> list[tuple[int, int]]:
    return [(sum(sizes[:place]), size) for place, size in enumerate(sizes)]


def _pieces(share: Any) -> list[bytes]:
    """A share as two parts: what it is, and its bytes."""
    # Results are much smaller than a chunk, of 128 MiB.
    if len(share.share_chunks) != 1:
        raise ValueError
    return [bytes(share.meta), bytes(share.share_chunks[0])]


def _share(spu: Any, pieces: list[bytes]) -> Any:
    share = spu.Share()
    share.meta, share.share_chunks = pieces[0], [pieces[1]]
    return share
