"""The Dockerfile, parsed: user, content and build context."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
from dockerfile_parse import DockerfileParser

from tests.helpers.deploy import BIN, ROOT


@pytest.fixture(scope="module")
def dockerfile() -> list[dict[str, str]]:
    with (ROOT / "Dockerfile").open("rb") as file:
        steps: list[dict[str, str]] = DockerfileParser(fileobj=file).structure
    return [step for step in steps if step["instruction"] != "COMMENT"]


def steps_of(dockerfile: list[dict[str, str]], name: str) -> list[str]:
    return [step["value"] for step in dockerfile if step["instruction"] == name]


def test_the_image_has_a_build_stage_and_a_pinned_slim_base(dockerfile: list[dict[str, str]]) -> None:
    bases = steps_of(dockerfile, "FROM")
    assert len(bases) == 2
    assert all(re.match(r"python:3\.\d+\.\d+-slim-[a-z]+( AS build)?$", base) for base in bases)


def test_the_image_runs_unprivileged_and_downloads_nothing(
    dockerfile: list[dict[str, str]],
) -> None:
    names = [step["instruction"] for step in dockerfile]
    assert int(steps_of(dockerfile, "USER")[-1].split(":")[0]) > 0
    assert names.index("USER") > max(place for place, name in enumerate(names) if name in ("RUN", "COPY"))
    assert "ADD" not in names
    assert not re.search(r"curl|wget|https?://", "".join(steps_of(dockerfile, "RUN")))


def test_all_files_copied_into_the_image_exist(dockerfile: list[dict[str, str]]) -> None:
    for value in steps_of(dockerfile, "COPY"):
        words = [word for word in value.split() if not word.startswith("--")]
        if "--from=build" not in value:
            assert all((ROOT / word).exists() for word in words[:-1])


def test_the_image_contains_no_secret_and_no_network_calls(dockerfile: list[dict[str, str]]) -> None:
    told = " ".join(steps_of(dockerfile, "ENV"))
    assert {"OMP_NUM_THREADS=1", "ORT_DISABLE_TELEMETRY=1", "RAY_USAGE_STATS_ENABLED=0"} <= set(told.split())
    assert not re.search(r"KEY|TOKEN|PASSWORD|SECRET", told)
    assert steps_of(dockerfile, "ENTRYPOINT") == ['["medsanitize"]']


def test_the_build_context_contains_only_installed_files() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    sent = {line[1:] for line in lines if line.startswith("!")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["setuptools"]["packages"]
    rooms = {name.split(".")[1] for name in packages if "." in name}
    modules = {path.name for path in ROOT.glob("*.py")} | {"py.typed"}
    build = {"pyproject.toml", "constraints.txt", "README.md", "LICENSE", "deploy/batch-job.sh"}
    assert lines[0] == "*"
    assert sent == rooms | modules | build


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [BIN / "hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
