"""The policy template of init, and the JSON Schema for editors."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from medsanitize.errors import UsageError
from medsanitize.policies.json_schema import json_schema
from medsanitize.policies.load import PRESETS, loads, preset_text
from medsanitize.policies.model import Policy, PresetName
from medsanitize.policies.strict_yaml import read_yaml
from medsanitize.policies.template import policy_template

NAMES: tuple[PresetName, ...] = get_args(PresetName)


def plain(text: str) -> Any:
    tree, problems = read_yaml(text)
    assert tree is not None
    assert problems == []
    return tree.plain()


def switched_on(text: str) -> str:
    """The template with every setting enabled; lines that begin with ``#   `` list the presets."""
    return re.sub(r"(?m)^#(?=[a-z]| {2}[^ ]| {4,}[^ ])", "", text)


@pytest.mark.parametrize("preset", NAMES)
def test_the_template_is_valid(preset: PresetName) -> None:
    policy = loads(policy_template(preset, "chest-ct"), base=Path("/p"))
    assert (policy.preset, policy.release.name) == (preset, "chest-ct")


@pytest.mark.parametrize("name", ["no", "0010", "1.0", "12", "null"])
def test_names_that_yaml_would_misread_are_quoted(name: str) -> None:
    assert loads(policy_template("research", name), base=Path("/p")).release.name == name


@pytest.mark.parametrize("name", ["", "Chest CT", 'a"b', "a\nb", "-a", "a" * 65])
def test_invalid_names_are_rejected(name: str) -> None:
    with pytest.raises(UsageError, match="Invalid release name"):
        policy_template("research", name)


def test_template_shows_every_section() -> None:
    sections = re.findall(r"(?m)^#?([a-z_]+):", policy_template("research", "a"))
    assert sorted(sections) == sorted(Policy.model_fields)


def test_the_template_is_valid_with_every_setting_enabled() -> None:
    policy = loads(switched_on(policy_template("research", "a")), base=Path("/p"))
    assert policy.release.approve == "required"
    assert policy.tables[0].zip_codes == ("zip",)
    assert policy.dicom.safe_private[0].vr == "DS"
    assert policy.engine.workers == 4


def test_the_schema_file_is_up_to_date() -> None:
    shipped = files("medsanitize.policies.presets").joinpath("policy.schema.json").read_text(encoding="utf-8")
    assert json.loads(shipped) == json_schema()


def test_schema_is_draft_7() -> None:
    jsonschema.Draft7Validator.check_schema(json_schema())
    assert "$defs" not in json.dumps(json_schema())


@pytest.mark.parametrize("preset", NAMES)
def test_schema_accepts_template_and_presets(preset: PresetName) -> None:
    validator = jsonschema.Draft7Validator(json_schema())
    texts = (policy_template(preset, "a"), switched_on(policy_template(preset, "a")), preset_text(preset))
    assert [error.message for text in texts for error in validator.iter_errors(plain(text))] == []


@pytest.mark.parametrize(
    "more",
    [
        "pixel: {}",
        "engine: {workers: 0}",
        "dicom: {attributes: {PatientName: Q}}",
        "dicom: {attributes: {'(0010': X}}",
    ],
)
def test_the_schema_rejects_what_loading_rejects(more: str) -> None:
    data = plain(policy_template("research", "a") + more + "\n")
    assert not jsonschema.Draft7Validator(json_schema()).is_valid(data)


def test_the_schema_requires_a_complete_policy() -> None:
    data = plain(policy_template("research", "a"))
    del data["state"]
    assert not jsonschema.Draft7Validator(json_schema()).is_valid(data)


def test_every_setting_is_described() -> None:
    schema = json_schema()
    settings = [*schema["properties"].items()]
    for definition in schema["definitions"].values():
        settings += definition.get("properties", {}).items()
    assert [name for name, setting in settings if not setting.keys() & {"description", "allOf"}] == []


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_name_their_schema(preset: str) -> None:
    assert preset_text(preset).startswith("# yaml-language-server: $schema=policy.schema.json\n")
