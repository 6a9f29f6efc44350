"""The wheel in separate environments: without extras, and with each extra.

One environment is real: an installer fetches the dependencies. The others link to the libraries of the test
environment, selected by the wheel's metadata: they show what can be imported, not what an installer finds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from medsanitize.pipeline.runtime.optional_dependencies import INCLUDED, MODULES

from tests.helpers.environments import Environment, closure, installed, linked, normal
from tests.helpers.hospital import prepare, write_ct

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[2]
NONE = "none"
EXTRAS = (NONE, *MODULES)
# Tests of code that needs no extra; a test among them that needs one carries its marker.
BASE_TESTS = (
    *("tests/policies", "tests/release", "tests/tools"),
    *(f"tests/sanitize/{folder}" for folder in ("faces", "formats", "text", "wsi")),
)
Make = Callable[[str], Environment]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of sdist and wheel, built from a copy, since a build writes into its source."""
    base = tmp_path_factory.mktemp("built")
    left_out = shutil.ignore_patterns(
        ".git",
        ".venv",
        ".*_cache",
        ".typecheck",
        ".hypothesis",
        "build",
        "dist",
        "*.egg-info",
        "__pycache__",
        "site",
    )
    shutil.copytree(ROOT, base / "source", ignore=left_out)
    command = [sys.executable, "-m", "build", "--outdir", base / "dist", base / "source"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return base / "dist"


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (found,) = distributions.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def make(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """An environment with one extra or none; made once."""

    @cache
    def made(extra: str) -> Environment:
        return linked(tmp_path_factory.mktemp(extra) / "venv", wheel, () if extra == NONE else (extra,))

    return made


def brought_by(extra: str) -> set[str]:
    """An extra, and those that it includes."""
    return {extra}.union(*(brought_by(one) for one in INCLUDED.get(extra, ())))


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_ct_is_released_without_extras_and_with_each_extra(make: Make, tmp_path: Path, extra: str) -> None:
    write_ct(tmp_path / "export" / "ct.dcm", 1)
    prepare(tmp_path)
    done = make(extra).command("run", tmp_path / "policy.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "release" / "data").rglob("*.dcm"))) == 1


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_only_its_libraries(make: Make, tmp_path: Path, extra: str) -> None:
    done = make(extra).command("doctor", "--json", cwd=tmp_path)
    complete = {one["name"] for one in json.loads(done.stdout)["extras"] if not one["missing"]}
    assert complete == (set() if extra == NONE else brought_by(extra))


@pytest.mark.parametrize("extra", [one for one in EXTRAS if one != "pixels"])
def test_the_demo_names_the_missing_extra(make: Make, tmp_path: Path, extra: str) -> None:
    done = make(extra).command("demo", tmp_path / "demo", cwd=tmp_path)
    assert (done.returncode, "medsanitize[pixels]" in done.stderr) == (2, True)


def test_the_demo_runs_with_only_the_extra_pixels(make: Make, tmp_path: Path) -> None:
    done = make("pixels").command("demo", tmp_path / "demo", "--json", cwd=tmp_path)
    facts = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, facts["surviving"]) == (0, 0), done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("overlap a b", "verify"),
        ("index a --output i", "verify"),
        ("evaluate --images a --labels l.csv", "verify"),
        ("train retrieval --images a --labels l.csv --output m", "verify"),
        ("train generator --images a --labels l.csv --class c --output m", "generate"),
        ("train generator --images a --labels l.csv --epsilon 8 --output m", "dp"),
        ("send a https://127.0.0.1/dicom-web", "pacs"),
        ("verify s3://bucket/release", "stores"),
    ],
    ids=lambda value: value.split()[0],
)
def test_a_command_names_the_missing_extra(make: Make, tmp_path: Path, words: str, extra: str) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "l.csv").write_text("file,patient_id\n")
    done = make(NONE).command(*words.split(), cwd=tmp_path)
    assert (done.returncode, f"medsanitize[{extra}]" in done.stderr) == (2, True), done.stderr


def test_a_real_install_without_extras_releases_a_ct(wheel: Path, tmp_path: Path) -> None:
    environment = installed(tmp_path / "venv", wheel, (), ROOT / "constraints.txt")
    write_ct(tmp_path / "export" / "ct.dcm", 1)
    prepare(tmp_path)
    done = environment.command("run", tmp_path / "policy.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_every_library_of_the_extra_dev_is_pinned(wheel: Path) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(name) for name, pin, _ in (line.partition("==") for line in lines) if pin}
    assert sorted(closure(wheel, ["dev"]).keys() - pinned) == []


def test_the_tests_of_the_base_packages_pass_without_extras(make: Make) -> None:
    """In the wheel's environment, from which tests that need an extra are skipped."""
    done = make("test").run("-m", "pytest", "-q", "-p", "no:cacheprovider", *BASE_TESTS, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_contains_only_the_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    others = ("benchmarks", "deploy", "docs", "examples", "tests", "tools")
    assert [name for name in names if name.startswith(tuple(f"medsanitize/{one}/" for one in others))] == []


def test_the_sdist_contains_what_tests_and_manual_need(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    needed = (
        "constraints.txt",
        "mkdocs.yml",
        "Dockerfile",
        "tests/conftest.py",
        "docs/policy.md",
        "tools/chest_mean.py",
    )
    assert [name for name in needed if name not in held] == []


@pytest.mark.parametrize("tool", ["twine check --strict", "check-wheel-contents"])
def test_the_distributions_are_well_formed(distributions: Path, wheel: Path, tool: str) -> None:
    program, *words = tool.split()
    files = [wheel] if program == "check-wheel-contents" else sorted(distributions.iterdir())
    command = [Path(sys.executable).parent / program, *words, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
