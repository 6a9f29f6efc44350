"""Two hospitals, made once: releases are published and the library is installed as users do it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers.hospitals import Hospital, installed_library, two_hospitals
from tests.helpers.near import installed_spu


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of OpenMined PSI, installed by pip with digests."""
    return installed_library(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="session")
def near_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of SPU, installed by pip with digests."""
    return installed_spu(tmp_path_factory.mktemp("near"))


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory, library: Path) -> tuple[Hospital, Hospital]:
    return two_hospitals(tmp_path_factory.mktemp("published"), library)


@pytest.fixture
def hospitals(published: tuple[Hospital, Hospital], tmp_path: Path) -> tuple[Hospital, Hospital]:
    """Both hospitals, with party folders of this test: budgets and sessions start empty."""
    from medsanitize.policies.load import load

    found = []
    for one in published:
        folder = tmp_path / one.folder.name
        shutil.copytree(one.folder, folder)
        found.append(Hospital(folder, load(folder / "policy.yaml")))
    return found[0], found[1]
