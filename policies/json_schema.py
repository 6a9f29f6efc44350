"""JSON Schema of policies and presets for editors (draft 7, which YAML editors support)."""

from __future__ import annotations

from typing import Any

from medsanitize.policies.model import Policy

_NAME_OF_ATTRIBUTE = r"^([A-Za-z][A-Za-z0-9]{0,63}|\([0-9A-Fa-fxX]{4},[0-9A-Fa-fxX]{4}\)|[0-9A-Fa-fxX]{8})$"
_REQUIRED = ("release", "inputs", "output", "state")


def json_schema() -> dict[str, Any]:
    """Return the schema of a policy or, without any of the keys ``release`` to ``state``, of a preset."""
    schema: dict[str, Any] = _simplified(Policy.model_json_schema())
    overrides = schema["definitions"]["Dicom"]["properties"]["attributes"]
    overrides["propertyNames"] = {"pattern": _NAME_OF_ATTRIBUTE}
    schema["required"] = ["version", "preset"]
    schema["dependencies"] = {key: [other for other in _REQUIRED if other != key] for key in _REQUIRED}
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "A policy of medsanitize"}
    return head | schema


def _simplified(node: Any) -> Any:
    """Convert draft 2020-12 to draft 7, without titles and without defaults, which depend on the preset."""
    if isinstance(node, list):
        return [_simplified(item) for item in node]
    if not isinstance(node, dict):
        return node
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key == "$defs":
            result["definitions"] = {name: _simplified(item) for name, item in value.items()}
        elif key == "properties":
            result[key] = {name: _simplified(item) for name, item in value.items()}
        elif key == "$ref":
            # Draft 7 ignores all other keywords next to $ref, such as description.
            result["allOf"] = [{"$ref": value.replace("#/$defs/", "#/definitions/")}]
        elif key not in ("title", "default", "format"):
            result[key] = _simplified(value)
    return result
