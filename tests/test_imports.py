"""Imports go one way only: policies <- sanitize <- release <- verifiers <- generators <- pipeline <- cli."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = ("policies", "sanitize", "release", "verifiers", "generators", "pipeline", "cli")
FOR_ALL = frozenset({"errors", "offline", "__version__"})
# Networks are classes of torch's, so their modules import it at once; nothing else imports them at once.
NETWORKS = (
    "medsanitize.generators.latent",
    "medsanitize.verifiers.models.graph",
    "medsanitize.verifiers.models.networks",
    "medsanitize.verifiers.training",
)
# What the others see of a generator does not need its networks.
PLAIN = tuple(
    f"medsanitize.generators.latent.{name}" for name in ("config", "generator", "recipes", "squares")
)
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


def modules() -> list[Path]:
    rooms = [path for room in ORDER for path in sorted((ROOT / room).rglob("*.py"))]
    return [ROOT / "errors.py", *rooms]


def is_network(name: str) -> bool:
    return lies_in(name, NETWORKS) and not lies_in(name, PLAIN)


def lies_in(name: str, places: tuple[str, ...]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in places)


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    """Full names of what a module imports, those within functions included unless asked otherwise."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_rooms_to_its_left(path: Path) -> None:
    room = room_of(path)
    allowed = set() if room == "errors" else set(ORDER[: ORDER.index(room) + 1])
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "medsanitize" and parts[1] not in FOR_ALL:
            assert parts[1] in allowed, f"{room} imports {parts[1]}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_names_its_own_package_in_full(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & {*ORDER, "errors"}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_are_imported_where_they_are_used(path: Path) -> None:
    if is_network(".".join(("medsanitize", *path.relative_to(ROOT).with_suffix("").parts))):
        return
    names = set(imported(path, top_level_only=True))
    assert not {name.split(".")[0] for name in names} & HEAVY
    assert not {name for name in names if is_network(name)}


def test_the_packages_of_the_wheel_are_those_of_the_tree() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    rooms = [folder for room in ORDER for folder in (ROOT / room, *(ROOT / room).rglob("*"))]
    found = {
        ".".join(("medsanitize", *path.relative_to(ROOT).parts))
        for path in rooms
        if (path / "__init__.py").exists()
    }
    assert listed == found | {"medsanitize"}
