"""A policy that needs what is not installed is refused before anything is read."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.optional_dependencies import check_extras, needed
from medsanitize.policies.model import Policy

MakePolicy = Callable[..., Policy]


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
def test_decisions_of_the_policy_tell_which_extras_it_needs(
    preset: str, sections: Mapping[str, Any], extras: tuple[str, ...], make_policy: MakePolicy
) -> None:
    assert needed(make_policy(preset, **sections)) == extras


@pytest.mark.parametrize(
    ("module", "extra"), [("rapidocr", "pixels"), ("jpeglib", "pixels"), ("presidio_analyzer", "text")]
)
def test_one_error_names_the_missing_extra(
    module: str, extra: str, make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, module)

    with pytest.raises(UsageError, match=f"medsanitize\\[{extra}\\]"):
        check_extras(make_policy("research"))


def test_a_cluster_needs_its_library(make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "ray")

    with pytest.raises(UsageError, match="medsanitize\\[ray\\]"):
        check_extras(make_policy("ps3.15-basic", engine={"kind": "ray"}))


def test_a_policy_on_headers_alone_needs_nothing_more(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "rapidocr", "spacy", "presidio_analyzer", "jpeglib")

    policy = make_policy("ps3.15-basic")

    check_extras(policy)

    assert needed(policy) == ()


def test_a_transformers_model_needs_its_own_libraries(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without(monkeypatch, "spacy_huggingface_pipelines")
    policy = make_policy("ps3.15-basic", text={"action": "clean", "model": str(tmp_path)})

    with pytest.raises(UsageError, match="transformers model"):
        check_extras(policy)


def test_addresses_need_the_extra_stores(workplace: Callable[..., Policy]) -> None:
    assert "stores" in needed(workplace(inputs="[s3://a/b]"))
    assert "stores" in needed(workplace(output="gs://a/b"))
    assert "stores" not in needed(workplace())
