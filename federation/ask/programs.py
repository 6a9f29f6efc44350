"""The program of a classification, in StableHLO: from features to classes, and nothing between is opened."""

from __future__ import annotations

from collections.abc import Sequence


def class_program(images: int, features: int, width: int, classes: int, margin: float) -> str:
    """Classify images; the result is the number of the class, or ``classes`` where another one is too near.

    Each image is classified twice, and has no class where the results differ.

    Arguments are the features of the images (images, features); the map (features, width), the classes of
    the map (features, classes), the shifts of both (width) and (classes), and the bias of the classes; and
    a secret zero. A class is told if its logit exceeds all others by more than ``margin``. Logits are divided
    by the length of the mapped features, as the model divides its embeddings.
    """
    # Every image twice, in rows of their own: a truncation of the library may err by much, but not in both.
    twice = 2 * images
    rows, mapped, scores = _floats(twice), _floats(twice, width), _floats(twice, classes)
    numbers, places, told = _integers(twice), _integers(twice, classes), _integers(images)
    given, both = _floats(images, features), _floats(twice, features)
    arguments = [
        f"%one_each: {given}",
        f"%map: {_floats(features, width)}",
        f"%class: {_floats(features, classes)}",
        f"%shift: {_floats(width)}",
        f"%offset: {_floats(classes)}",
        f"%bias: {_floats(classes)}",
        "%secret: tensor<i32>",
    ]
    lines = [
        "%zero = stablehlo.constant dense<0> : tensor<i32>",
        "%none = stablehlo.constant dense<0.0> : tensor<f32>",
        "%low = stablehlo.constant dense<-1024.0> : tensor<f32>",
        f"%x = stablehlo.concatenate %one_each, %one_each, dim = 0 : ({given}, {given}) -> {both}",
        # The length of the mapped features.
        _product("%m0", "%x", "%map", both, _floats(features, width), mapped),
        _spread("%m1", "%shift", _floats(width), 1, mapped),
        f"%m = stablehlo.add %m0, %m1 : {mapped}",
        f"%square = stablehlo.multiply %m, %m : {mapped}",
        _reduced("%length", "%square", "%none", "add", mapped, rows),
        f"%r0 = stablehlo.rsqrt %length : {rows}",
        *_newton(rows),
        # Logits, and the largest one.
        _product("%l0", "%x", "%class", both, _floats(features, classes), scores),
        _spread("%l1", "%offset", _floats(classes), 1, scores),
        f"%l2 = stablehlo.add %l0, %l1 : {scores}",
        _spread("%l3", "%r", rows, 0, scores),
        f"%l4 = stablehlo.multiply %l2, %l3 : {scores}",
        _spread("%l5", "%bias", _floats(classes), 1, scores),
        f"%l = stablehlo.add %l4, %l5 : {scores}",
        _reduced("%top", "%l", "%low", "maximum", scores, rows),
        # The classes within the margin of it.
        f"%margin = stablehlo.constant dense<{margin!r}> : {rows}",
        f"%least = stablehlo.subtract %top, %margin : {rows}",
        _spread("%limit", "%least", rows, 0, scores),
        f"%near = stablehlo.compare GE, %l, %limit : ({scores}, {scores}) -> tensor<{twice}x{classes}xi1>",
        f"%one = stablehlo.convert %near : (tensor<{twice}x{classes}xi1>) -> {places}",
        _reduced("%count", "%one", "%zero", "add", places, numbers),
        f"%names = stablehlo.constant dense<{list(range(classes))}> : {_integers(classes)}",
        _spread("%name", "%names", _integers(classes), 1, places),
        f"%named = stablehlo.multiply %one, %name : {places}",
        _reduced("%place", "%named", "%zero", "add", places, numbers),
        f"%two = stablehlo.constant dense<2> : {numbers}",
        f"%sure = stablehlo.compare LT, %count, %two : ({numbers}, {numbers}) -> tensor<{twice}xi1>",
        f"%unsure = stablehlo.constant dense<{classes}> : {numbers}",
        f"%found = stablehlo.select %sure, %place, %unsure : tensor<{twice}xi1>, {numbers}",
        f"%first = stablehlo.slice %found [0:{images}] : ({numbers}) -> {told}",
        f"%second = stablehlo.slice %found [{images}:{twice}] : ({numbers}) -> {told}",
        f"%equal = stablehlo.compare EQ, %first, %second : ({told}, {told}) -> tensor<{images}xi1>",
        f"%differ = stablehlo.constant dense<{classes}> : {told}",
        f"%told = stablehlo.select %equal, %first, %differ : tensor<{images}xi1>, {told}",
        # The sum with a secret is shared additively, whatever the form of the number.
        f"%mask = stablehlo.broadcast_in_dim %secret, dims = [] : (tensor<i32>) -> {told}",
        f"%out = stablehlo.add %told, %mask : {told}",
        f"return %out : {told}",
    ]
    body = "\n".join(lines)
    return f"func.func @main({', '.join(arguments)}) -> ({told}) {{\n{body}\n}}\n"


def _newton(rows: str) -> Sequence[str]:
    """One step of Newton's method: the library's reciprocal root is good to three digits."""
    return [
        f"%half = stablehlo.constant dense<0.5> : {rows}",
        f"%most = stablehlo.constant dense<1.5> : {rows}",
        f"%r1 = stablehlo.multiply %length, %r0 : {rows}",
        f"%r2 = stablehlo.multiply %r1, %r0 : {rows}",
        f"%r3 = stablehlo.multiply %r2, %half : {rows}",
        f"%r4 = stablehlo.subtract %most, %r3 : {rows}",
        f"%r = stablehlo.multiply %r0, %r4 : {rows}",
    ]


def _floats(*shape: int) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def _integers(*shape: int) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xi32>"


def _product(result: str, left: str, right: str, rows: str, columns: str, kind: str) -> str:
    return (
        f"{result} = stablehlo.dot_general {left}, {right}, contracting_dims = [1] x [0]"
        f" : ({rows}, {columns}) -> {kind}"
    )


def _spread(result: str, value: str, kind: str, axis: int, wide: str) -> str:
    return f"{result} = stablehlo.broadcast_in_dim {value}, dims = [{axis}] : ({kind}) -> {wide}"


def _reduced(result: str, value: str, start: str, operation: str, kind: str, rows: str) -> str:
    scalar = "tensor<i32>" if rows.endswith("i32>") else "tensor<f32>"
    return (
        f"{result} = stablehlo.reduce({value} init: {start}) applies stablehlo.{operation}"
        f" across dimensions = [1] : ({kind}, {scalar}) -> {rows}"
    )
