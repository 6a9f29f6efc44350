"""Programs for SPU, in StableHLO: the only ones that a comparison runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

_ZERO: Final = "%zero = stablehlo.constant dense<0> : tensor<i32>"


def block_program(rows: int, columns: int, widths: Sequence[int], limit: int) -> str:
    """Compare a block of embeddings, and add the matches to the counters of its rows and columns.

    Arguments are the parts of both matrices in the order of ``widths``, then both counters. A pair matches if
    minus its squared distance is at least minus ``limit``.
    """
    pairs, arguments = f"tensor<{rows}x{columns}xi32>", []
    for number, width in enumerate(widths):
        arguments += [f"%l{number}: tensor<{rows}x{width}xi32>", f"%r{number}: tensor<{width}x{columns}xi32>"]
    arguments += [f"%rows: tensor<{rows}xi32>", f"%columns: tensor<{columns}xi32>"]
    lines = []
    for number, width in enumerate(widths):
        lines.append(
            f"%d{number} = stablehlo.dot_general %l{number}, %r{number}, contracting_dims = [1] x [0]"
            f" : (tensor<{rows}x{width}xi32>, tensor<{width}x{columns}xi32>) -> {pairs}"
        )
        before = "%d0" if number == 1 else f"%s{number - 1}"
        if number:
            lines.append(f"%s{number} = stablehlo.add {before}, %d{number} : {pairs}")
    score = "%d0" if len(widths) == 1 else f"%s{len(widths) - 1}"
    lines += [
        f"%limit = stablehlo.constant dense<{-limit}> : {pairs}",
        _ZERO,
        f"%match = stablehlo.compare GE, {score}, %limit : ({pairs}, {pairs}) -> tensor<{rows}x{columns}xi1>",
        f"%one = stablehlo.convert %match : (tensor<{rows}x{columns}xi1>) -> {pairs}",
        _sum("%inrow", "%one", pairs, 1, f"tensor<{rows}xi32>"),
        _sum("%incolumn", "%one", pairs, 0, f"tensor<{columns}xi32>"),
        f"%a = stablehlo.add %rows, %inrow : tensor<{rows}xi32>",
        f"%b = stablehlo.add %columns, %incolumn : tensor<{columns}xi32>",
    ]
    return _function(arguments, lines, {"%a": f"tensor<{rows}xi32>", "%b": f"tensor<{columns}xi32>"})


def any_program(rows: Sequence[int]) -> str:
    """Whether a counter of any row is above zero: 1 or 0. The last argument is a secret zero."""
    arguments, lines = _counters("r", rows)
    before = "%zero"
    for number, size in enumerate(rows):
        lines.append(_sum(f"%t{number}", f"%r{number}", f"tensor<{size}xi32>", 0, "tensor<i32>"))
        lines.append(f"%u{number} = stablehlo.add {before}, %t{number} : tensor<i32>")
        before = f"%u{number}"
    lines += [
        f"%any = stablehlo.compare GT, {before}, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        "%bit = stablehlo.convert %any : (tensor<i1>) -> tensor<i32>",
        # The sum with a secret is shared additively, whatever the form of the bit.
        "%out = stablehlo.add %bit, %secret : tensor<i32>",
    ]
    return _function([*arguments, "%secret: tensor<i32>"], lines, {"%out": "tensor<i32>"})


def count_program(rows: Sequence[int], columns: Sequence[int], *, each: Literal["", "r", "c"]) -> str:
    """Count rows and columns with a match, and return the smaller number.

    ``each`` returns a bit for each row or each column as well. The last argument is a secret zero.
    """
    arguments, lines = _counters("r", rows)
    more, _ = _counters("c", columns)
    results = {}
    for name, sizes in (("r", rows), ("c", columns)):
        before = "%secret"
        for number, size in enumerate(sizes):
            kind, place = f"tensor<{size}xi32>", f"{name}{number}"
            lines += [
                *_bits(place, size),
                _sum(f"%t{place}", f"%b{place}", kind, 0, "tensor<i32>"),
                f"%u{place} = stablehlo.add {before}, %t{place} : tensor<i32>",
            ]
            before = f"%u{place}"
            if each == name:
                results[f"%b{place}"] = kind
        lines.append(f"%total{name} = stablehlo.add {before}, %zero : tensor<i32>")
    lines.append("%least = stablehlo.minimum %totalr, %totalc : tensor<i32>")
    arguments = [*arguments, *more, "%secret: tensor<i32>"]
    return _function(arguments, lines, {"%least": "tensor<i32>", **results})


def each_program(rows: Sequence[int], columns: Sequence[int], *, each: Literal["r", "c"]) -> str:
    """Return a bit for each row or each column with a match. The last argument is a secret zero."""
    arguments, lines = _counters("r", rows)
    more, _ = _counters("c", columns)
    results = {}
    for number, size in enumerate(rows if each == "r" else columns):
        place = f"{each}{number}"
        lines += _bits(place, size)
        results[f"%b{place}"] = f"tensor<{size}xi32>"
    return _function([*arguments, *more, "%secret: tensor<i32>"], lines, results)


def _bits(place: str, size: int) -> list[str]:
    """Whether each counter is above zero, shared additively."""
    kind = f"tensor<{size}xi32>"
    return [
        f"%z{place} = stablehlo.constant dense<0> : {kind}",
        f"%m{place} = stablehlo.compare GT, %{place}, %z{place} : ({kind}, {kind}) -> tensor<{size}xi1>",
        f"%i{place} = stablehlo.convert %m{place} : (tensor<{size}xi1>) -> {kind}",
        f"%w{place} = stablehlo.broadcast_in_dim %secret, dims = [] : (tensor<i32>) -> {kind}",
        f"%b{place} = stablehlo.add %i{place}, %w{place} : {kind}",
    ]


def _counters(name: str, sizes: Sequence[int]) -> tuple[list[str], list[str]]:
    arguments = [f"%{name}{number}: tensor<{size}xi32>" for number, size in enumerate(sizes)]
    return arguments, [_ZERO]


def _sum(result: str, value: str, kind: str, axis: int, reduced: str) -> str:
    return (
        f"{result} = stablehlo.reduce({value} init: %zero) applies stablehlo.add across dimensions ="
        f" [{axis}] : ({kind}, tensor<i32>) -> {reduced}"
    )


def _function(arguments: Sequence[str], lines: Sequence[str], results: Mapping[str, str]) -> str:
    kinds = ", ".join(results.values())
    body = "\n".join([*lines, f"return {', '.join(results)} : {kinds}"])
    return f"func.func @main({', '.join(arguments)}) -> ({kinds}) {{\n{body}\n}}\n"
