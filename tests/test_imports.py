"""Imports have one direction: between packages, between subpackages, and between files."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import medsanitize

ROOT = Path(__file__).parent.parent
# Each package imports itself and those before it.
ROOMS = (
    *("offline", "progress", "errors", "policies", "sanitize", "release", "verifiers", "generators"),
    *("federation", "pipeline", "api", "desk", "commands", "cli"),
)
# The same within a package: its subpackages and files in order; "" stands for the files not listed.
ORDER: Mapping[str, tuple[str, ...]] = {
    "sanitize": ("", "formats", "text", "burned_in", "faces", "dicom", "raster", "wsi"),
    "desk": (
        *(
            "words",
            "roots",
            "sessions",
            "guard",
            "pages",
            "find_policies",
            "policy_paths",
            "previews",
            "processes",
            "reviews",
            "desk",
        ),
        *(
            "files",
            "projects",
            "new_release",
            "run_pages",
            "plan_pages",
            "review_pages",
            "second_review_pages",
            "curation_pages",
            "release_pages",
            "app",
            "server",
        ),
    ),
    "verifiers": ("html", "leaks", "validity", "reid"),
    "verifiers.reid": (
        *("images", "labels", "alterations", "calibration", "exchangeability", "cohort_normalization"),
        *("models", "index"),
        *("evaluation", "training", "overlap", "linkage", "recovery", "inversion", "membership"),
    ),
    "federation": (
        *("libraries", "parties", "messages", "secure_aggregation"),
        *("psi", "private_overlap", "transport", "near", "ask", "training"),
    ),
    "generators": ("phantoms", "diffusion", "privacy_gate", "quality", "export", "explain"),
    "pipeline": (
        *("runtime", "storage", "state", "engines", "stages", "synthesis"),
        *("sequence", "requeue", "preflight", "resume", "amend", "reporting", "evidence", "review", "jobs"),
        "demo",
        *("run", "plan", "spark"),
    ),
}
# Networks are subclasses of torch classes, and the GCS client of a gcsfs class: these modules import an
# extra at import time. No other module does.
NEED_AN_EXTRA = (
    "desk",
    "generators.diffusion",
    "pipeline.storage.gcs",
    "pipeline.storage.gcs_upload",
    "pipeline.storage.upload",
    "verifiers.reid.membership.shadow_models",
    "verifiers.reid.models.networks",
    "verifiers.reid.models.onnx_export",
    "verifiers.reid.inversion",
    "verifiers.reid.training",
)
# The interface of generators for other packages, which does not need the networks.
PLAIN = tuple(
    f"generators.diffusion.{name}"
    for name in ("config", "generator", "preprocess", "privacy_statement", "recipes")
)
# Import names that differ from the distribution names.
IMPORT_NAMES: Mapping[str, str] = {
    "pillow": "PIL",
    "pyjpegls": "jpeg_ls",
    "python-gdcm": "gdcm",
    "ruamel.yaml": "ruamel",
}


@cache
def base_libraries() -> frozenset[str]:
    """Import names of the libraries that are installed without an extra."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [re.split(r"[\[<>=~!; ]", one)[0] for one in stated]
    return frozenset(IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names)


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by name, without the package's own, and its file."""
    named = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")) or [ROOT / f"{room}.py"]:
            named[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return named


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def imported(name: str) -> Iterator[str]:
    """Full names of all imports of a module, including those within functions and for types."""
    return names_in(ast.walk(tree_of(name)))


def at_once(name: str) -> Iterator[str]:
    """Full names of the imports that run when a module is imported, without those for types."""
    ahead = list(tree_of(name).body)
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            ahead += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            ahead += [
                one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt | ast.excepthandler)
            ]
            yield from names_in([node])


def names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
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


def needs_an_extra(name: str) -> bool:
    return lies_in(name, NEED_AN_EXTRA) and not lies_in(name, PLAIN)


def step_of(name: str, room: str) -> str:
    """The subpackage or file inside ``room`` that a module belongs to."""
    first = name.removeprefix(f"{room}.").split(".")[0]
    return "" if first not in ORDER[room] and "" in ORDER[room] else first


def test_packages_import_in_one_direction_with_absolute_names() -> None:
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


def test_the_desk_imports_the_public_api_alone() -> None:
    """The command line stays the equal: the desk can do nothing that the public API does not offer."""
    public = {f"medsanitize.{name}" for name in medsanitize.__all__}
    wrong = [
        f"{name} imports {one}"
        for name in modules()
        if lies_in(name, ("desk",))
        for one in imported(name)
        if one.split(".")[0] == "medsanitize"
        and one not in public
        and not one.startswith("medsanitize.desk.")
    ]
    assert wrong == []


def test_subpackages_import_in_one_direction() -> None:
    wrong = []
    for room, order in ORDER.items():
        inside = [name for name in modules() if name.startswith(f"{room}.")]
        wrong += [f"{name} has no place in {room}" for name in inside if step_of(name, room) not in order]
        for name in inside:
            allowed = order[: order.index(step_of(name, room)) + 1] if step_of(name, room) in order else ()
            theirs = (one for one in arrows(name) if one.startswith(f"{room}."))
            wrong += [f"{name} imports {one}" for one in theirs if step_of(one, room) not in allowed]
    assert wrong == []


def test_no_import_cycles_exist() -> None:
    """Files without remaining imports are removed repeatedly; the rest forms cycles."""
    left = {name: arrows(name) for name in modules()}
    while free := [name for name, ahead in left.items() if not ahead & left.keys()]:
        for name in free:
            del left[name]
    back = set(left)
    while unasked := {name for name in back if not any(name in left[one] for one in back)}:
        back -= unasked
    assert sorted(back) == []


def test_libraries_of_extras_are_imported_where_used() -> None:
    """Every module reachable by a run without extras can then be imported without them."""
    at_hand = base_libraries() | sys.stdlib_module_names | {"medsanitize"}
    wrong = [
        f"{name} imports {one} at once"
        for name in modules()
        if not needs_an_extra(name)
        for one in at_once(name)
        if one.split(".")[0] not in at_hand or needs_an_extra(one.removeprefix("medsanitize."))
    ]
    assert wrong == []


def test_the_wheel_lists_the_packages_of_the_tree() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {f"medsanitize.{name}" for name, path in modules().items() if path.name == "__init__.py"}
    assert listed == found | {"medsanitize"}
