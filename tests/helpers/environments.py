"""Virtual environments with the wheel and the libraries of some extras only.

`installed` makes a real one: an installer fetches the dependencies from the package index. `linked` makes an
equivalent one without a network, in a second: the wheel is unpacked, and the libraries that its metadata
require are linked from the test environment, so it does not show whether an installer finds them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PathDistribution, distribution, distributions
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

PACKAGE = "medsanitize"


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment at ``path``."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def libraries(self) -> Path:
        return next((self.path / "lib").glob("python*/site-packages"))

    def run(self, *arguments: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python, isolated from the test environment."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
        return subprocess.run(
            [self.python, *arguments],
            cwd=cwd,
            env={**kept, "OMP_NUM_THREADS": "1", **variables},
            capture_output=True,
            text=True,
            timeout=600,
        )

    def command(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command of medsanitize."""
        return self.run("-m", PACKAGE, *arguments, cwd=cwd)


def installed(path: Path, wheel: Path, extras: Iterable[str], constraints: Path) -> Environment:
    """Install the wheel with uv, or with pip as configured if uv cannot reach an index."""
    environment = _empty(path)
    what = [f"{wheel}[{','.join(extras)}]", "-c", str(constraints)]
    by_uv = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", str(environment.python), *what]
    by_pip = [sys.executable, "-m", "pip", "--python", str(environment.python), "install", "-q", *what]
    if subprocess.run(by_uv, capture_output=True).returncode:
        subprocess.run(by_pip, check=True)
    return environment


def linked(path: Path, wheel: Path, extras: Iterable[str]) -> Environment:
    """Unpack the wheel and link its dependencies; libraries of other extras cannot be imported."""
    environment = _empty(path)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(environment.libraries)
    for name, target in _links(closure(wheel, extras)):
        place = environment.libraries / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    return environment


def closure(wheel: Path, extras: Iterable[str]) -> dict[str, Distribution]:
    """The installed distributions that the wheel requires with some extras, by normalized name.

    Raises
    ------
    PackageNotFoundError
        If one of them is not installed.
    """
    found: dict[str, Distribution] = {}
    asked = set[tuple[str, str]]()
    waiting = [(PACKAGE, extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in asked:
            continue
        asked.add((name, extra))
        if name != PACKAGE:
            found[name] = distribution(name)
        for line in (metadata_of(wheel) if name == PACKAGE else found[name]).requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(normal(needed.name), one) for one in ("", *needed.extras)]
    return found


def metadata_of(wheel: Path) -> Distribution:
    """Metadata of a wheel."""
    (folder,) = (one for one in zipfile.Path(wheel).iterdir() if one.name.endswith(".dist-info"))
    return PathDistribution(folder)


def normal(name: str) -> str:
    """Normalized name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _empty(path: Path) -> Environment:
    venv.EnvBuilder(symlinks=True, with_pip=False).create(path)
    return Environment(path)


def _links(wanted: Mapping[str, Distribution]) -> Iterator[tuple[str, Path]]:
    """Files, and folders with files of one distribution only, with their locations."""
    owners = _owners()
    for name, found in wanted.items():
        places = set[PurePosixPath]()
        for file in _files(found):
            if places.isdisjoint(file.parents):
                whole = [folder for folder in file.parents if owners[folder] == {name}]
                places.add(whole[-1] if whole else file)
        yield from ((str(place), Path(str(found.locate_file(place)))) for place in places)


@cache
def _owners() -> Mapping[PurePosixPath, set[str]]:
    """Distributions with files in each folder; a namespace package has several."""
    owners: dict[PurePosixPath, set[str]] = {}
    for found in distributions():
        name = normal(found.metadata["Name"])
        for folder in {folder for file in _files(found) for folder in file.parents}:
            owners.setdefault(folder, set()).add(name)
    return owners


def _files(found: Distribution) -> Iterator[PurePosixPath]:
    """Files of a distribution in site-packages, without its commands."""
    for file in found.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts and file.suffix != ".pth":
            yield PurePosixPath(file)
