"""Imports go one way only: between rooms, between the rooms inside a room, and between files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = (
    *("offline", "errors", "policies", "sanitize", "release", "verifiers", "generators", "pipeline"),
    *("commands", "cli"),
)
"""Each imports itself and what stands before it."""
ORDER: Mapping[str, tuple[str, ...]] = {
    "sanitize": ("", "formats", "text", "burned_in", "faces", "dicom", "raster", "wsi"),
    "verifiers": ("html", "leaks", "reid"),
    "verifiers.reid": (
        *("labels", "images", "calibration", "models", "index"),
        *("evaluation", "training", "overlap", "linkage"),
    ),
    "generators": ("phantoms", "diffusion", "privacy_gate", "quality", "export", "explain"),
    "pipeline": (
        *("runtime", "storage", "state", "engines", "stages", "synthesis"),
        *("preflight", "resume", "reporting", "gates", "review", "jobs", "demo"),
        *("run", "plan", "spark"),
    ),
}
"""The same inside a room: its rooms and files in order; "" are the files that are not named."""
# Networks are classes of torch's, so their modules import it at once; nothing else imports them at once.
NETWORKS = (
    "generators.diffusion",
    "verifiers.reid.models.networks",
    "verifiers.reid.models.onnx_export",
    "verifiers.reid.training",
)
# What the others see of a generator does not need its networks.
PLAIN = tuple(f"generators.diffusion.{name}" for name in ("config", "generator", "preprocess", "recipes"))
HEAVY = frozenset(
    {
        "dicomweb_client",
        "diffusers",
        "faiss",
        "presidio_analyzer",
        "pynetdicom",
        "pyspark",
        "rapidocr",
        "ray",
        "torch",
    }
)


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name, less the package's own, and the file it is in."""
    named = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")) or [ROOT / f"{room}.py"]:
            named[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return named


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def imported(name: str, *, top_level_only: bool = False) -> Iterator[str]:
    """Full names of what a module imports, within functions and for types too unless asked otherwise."""
    for node in tree_of(name).body if top_level_only else ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{one.name}" for one in node.names)


@cache
def arrows(name: str) -> frozenset[str]:
    """The modules of the package that a module imports."""
    own = (one.removeprefix("medsanitize.") for one in imported(name) if one.startswith("medsanitize."))
    found = (one if one in modules() else one.rpartition(".")[0] for one in own)
    return frozenset(one for one in found if one)


def lies_in(name: str, places: tuple[str, ...]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in places)


def is_network(name: str) -> bool:
    return lies_in(name, NETWORKS) and not lies_in(name, PLAIN)


def step_of(name: str, room: str) -> str:
    """The room or file inside ``room`` that a module belongs to."""
    first = name.removeprefix(f"{room}.").split(".")[0]
    return "" if first not in ORDER[room] and "" in ORDER[room] else first


def test_rooms_import_one_way_and_name_their_package_in_full() -> None:
    wrong = []
    for name in modules():
        allowed = ROOMS[: ROOMS.index(name.split(".")[0]) + 1]
        wrong += [f"{name} imports {one}" for one in arrows(name) if one.split(".")[0] not in allowed]
        wrong += [
            f"{name} imports {one}, which is not its full name"
            for one in imported(name)
            if one.startswith(".") or one.split(".")[0] in ROOMS
        ]
    assert wrong == []


def test_rooms_inside_a_room_import_one_way() -> None:
    wrong = []
    for room, order in ORDER.items():
        inside = [name for name in modules() if name.startswith(f"{room}.")]
        wrong += [f"{name} has no place in {room}" for name in inside if step_of(name, room) not in order]
        for name in inside:
            allowed = order[: order.index(step_of(name, room)) + 1] if step_of(name, room) in order else ()
            theirs = (one for one in arrows(name) if one.startswith(f"{room}."))
            wrong += [f"{name} imports {one}" for one in theirs if step_of(one, room) not in allowed]
    assert wrong == []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Files that import nothing but what was taken away are taken away; what is left is in circles."""
    left = {name: arrows(name) for name in modules()}
    while free := [name for name, ahead in left.items() if not ahead & left.keys()]:
        for name in free:
            del left[name]
    back = set(left)
    while unasked := {name for name in back if not any(name in left[one] for one in back)}:
        back -= unasked
    assert sorted(back) == []


def test_heavy_libraries_are_imported_where_they_are_used() -> None:
    wrong = [
        f"{name} imports {one} at once"
        for name in modules()
        if not is_network(name)
        for one in imported(name, top_level_only=True)
        if one.split(".")[0] in HEAVY or is_network(one.removeprefix("medsanitize."))
    ]
    assert wrong == []


def test_the_packages_of_the_wheel_are_those_of_the_tree() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {f"medsanitize.{name}" for name, path in modules().items() if path.name == "__init__.py"}
    assert listed == found | {"medsanitize"}
