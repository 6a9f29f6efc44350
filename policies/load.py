"""Load a policy: strict YAML over a preset, absolute paths, all problems reported together."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from medsanitize.errors import PolicyError, Problem, UsageError
from medsanitize.policies import tag_patterns
from medsanitize.policies.draft import Draft, Steps, path_problem
from medsanitize.policies.inputs import DicomWeb, Dimse
from medsanitize.policies.model import Approval, KeptMacro, Policy, PresetName
from medsanitize.policies.site_lists import NAMES as SITE_LISTS
from medsanitize.policies.strict_yaml import MAX_BYTES, Node, SourcePosition, display_key, read_yaml
from medsanitize.policies.validate import check_policy, path_fields
from pydantic import BaseModel, ValidationError

PRESETS: tuple[str, ...] = get_args(PresetName)

_INVALID_POLICY = "The policy is invalid"
_FORMS: Mapping[str, str] = {
    "string_type": "Write text, in quotes",
    "bool_type": "Write true or false",
    "int_type": "Write a whole number",
    "float_type": "Write a number",
    "int_from_float": "Write a whole number",
    "tuple_type": "Write a list, as in [a, b]",
    "dict_type": "Write keys and values, as in {key: value}",
    "model_type": "Write keys and values, as in {key: value}",
    "path_type": "Write a path, relative to the policy",
    "too_short": "Name at least one",
    "too_long": "Name fewer",
    "string_too_short": "Write a non-empty text",
    "string_too_long": "Write a shorter text",
}
_PATTERNS: Mapping[str, str] = {
    "name": "Write at most 64 lower-case letters, digits, dots, dashes and underscores",
    "version": "Write letters, digits, dots, plus, dashes and underscores, at most 32, in quotes",
    "date": "Write the date as YYYY-MM-DD",
    "env": "Write the name of an environment variable, not its value",
    "sample": "Write a share, as in 5 %",
    "prefix": "Write letters, digits and dashes, at most 24",
    "uid_root": "Write numbers and dots, as in 1.2.840.99999, at most 24 characters",
    "group": "Write four hexadecimal digits of an odd number, in quotes",
    "element": "Write two hexadecimal digits, in quotes",
    "vr": "Write two capital letters, as in LO",
    "modality": "Write capital letters, as in US",
    "dicomweb": "Write an address without user or query, as in https://pacs.example.org/dicom-web",
    "dimse": "Write AE title, host and port, as in PACS@pacs.example.org:104",
    "calling": "Write an AE title: at most 16 letters, digits, dots, dashes and underscores",
    "token": "Write the name of an environment variable, not its value",
    "login": "Write the name of an environment variable, not its value",
}

_WORD_OR_SECTION: Mapping[Steps, str] = {
    ("wsi", "macro"): KeptMacro.__name__,
    ("release", "approve"): Approval.__name__,
}
"""Settings that take a word or a section, and the model of the section."""
_SECTIONS: Mapping[str, str] = {
    "macro": ", or {keep: [left, top, right, bottom]} with numbers from 0 to 1",
    "approve": ", or {reviewers: 2, sample: 5 %}",
}
_FORMS_OF_INPUT: Mapping[str, type[BaseModel]] = {form.__name__: form for form in (DicomWeb, Dimse)}
_OVERRIDES = ("dicom", "text")
"""Sections whose ``attributes`` are keyed by keyword, tag or mask."""
_REPLACED_KEYS: Mapping[str, str] = {
    "synthesize.bound": "Write synthesize.residual, the bound of the copies left after matches are removed"
    " (0.001 by default)",
}
"""Keys of earlier versions, and what replaces them."""
_EXAMPLES: Mapping[str, str] = {
    "version": "version: 1",
    "preset": "preset: ps3.15-basic",
    "release": 'release: {name: my-dataset, version: "1.0", mode: pseudonymous}',
    "mode": "mode: pseudonymous, or mode: anonymous",
    "inputs": "inputs: [./export]",
    "output": "output: ./release",
    "state": "state: ./state",
    "keep": "keep: [0.3, 0, 1, 1]",
    "dicomweb": "dicomweb: https://pacs.example.org/dicom-web",
    "dimse": "dimse: PACS@pacs.example.org:104",
}


def load(path: Path) -> Policy:
    """Load and check a policy file.

    Parameters
    ----------
    path : Path
        A YAML file in UTF-8 of at most 1 MB.

    Returns
    -------
    Policy
        With the preset applied and absolute paths.

    Raises
    ------
    PolicyError
        The policy is invalid; it lists every problem found.
    UsageError
        The file does not exist or cannot be read.
    """
    return loads(policy_text(path), base=Path(os.path.abspath(path)).parent)


def policy_text(path: Path) -> str:
    """Read a policy file as text.

    Raises
    ------
    PolicyError
        The file is larger than 1 MB, or no UTF-8.
    UsageError
        The file does not exist or cannot be read.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        what = f"The policy cannot be read: {error.strerror or 'unknown reason'}"
        raise UsageError(what, "Pass the path of a policy; medsanitize init creates one") from None
    # One byte more than allowed was read, so the size is known without trusting the file system.
    if len(raw) > MAX_BYTES:
        problem = Problem(
            1, 1, "The policy is larger than 1 MB", "Move lists to files and set the file names"
        )
        raise PolicyError(_INVALID_POLICY, (problem,))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        problem = Problem(line, column, "The policy is not UTF-8", "Save it as UTF-8")
        raise PolicyError(_INVALID_POLICY, (problem,)) from None
    return text


def loads(text: str, *, base: Path) -> Policy:
    """Load and check a policy from text.

    Parameters
    ----------
    text : str
        YAML.
    base : Path
        The folder to which paths in the policy are relative.

    Returns
    -------
    Policy
        With the preset applied and absolute paths.

    Raises
    ------
    PolicyError
        The policy is invalid; it lists every problem found, with line and column.
    """
    tree, problems = read_yaml(text)
    if tree is None:
        raise PolicyError(_INVALID_POLICY, tuple(problems))
    own = tree.plain()
    problems += _normalize_attributes(own, tree)
    data = _merge(_preset(own.get("preset")), own)
    _sort_attributes(data)
    draft = Draft(data, Path(os.path.abspath(base)), lambda path: place_in(tree, path))
    policy, invalid = _validate(data, draft, tree)
    # A value that is ambiguous YAML is reported once: its type error would be a consequence.
    # Position (1, 1) stands for the whole text, where several problems may be reported.
    reported = {(problem.line, problem.column) for problem in problems} - {(1, 1)}
    problems += [
        found for found in [*invalid, *check_policy(draft)] if (found.line, found.column) not in reported
    ]
    if problems or policy is None:
        raise PolicyError(_INVALID_POLICY, tuple(problems))
    return policy


def preset_text(name: str) -> str:
    """Return the YAML of a preset, including its comments."""
    return files("medsanitize.policies.presets").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _preset(name: object) -> dict[str, Any]:
    if not isinstance(name, str) or name not in PRESETS:
        return {}
    data: dict[str, Any] = json.loads(_preset_json(name))
    # Every policy must set these two itself.
    return {key: value for key, value in data.items() if key not in ("version", "preset")}


# Cached as JSON text: a shared dict could be modified by a caller.
@cache
def _preset_json(name: str) -> str:
    tree, problems = read_yaml(preset_text(name))
    data = tree.plain() if tree else {}
    problems += _normalize_attributes(data, tree) if tree else []
    if problems:
        raise PolicyError(f"The shipped preset {name} is invalid", tuple(problems))
    return json.dumps(data)


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings key by key; any other value replaces the one below it."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merge(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _normalize_attributes(data: dict[str, Any], tree: Node) -> list[Problem]:
    """Replace names of overridden attributes by tag masks, in data and tree."""
    return [problem for section in _OVERRIDES for problem in _normalize_section(data, tree, section)]


def _normalize_section(data: dict[str, Any], tree: Node, section: str) -> Iterator[Problem]:
    node = _child(_child(tree, section), "attributes")
    if node is None or not isinstance(node.value, dict):
        return
    values, keys = dict(node.value), dict(node.keys)
    node.value, node.keys = {}, {}
    for name, value in values.items():
        found = tag_patterns.parse_tag_pattern(name)
        if isinstance(found, tag_patterns.InvalidTagPattern):
            yield Problem(*keys[name], found.message, found.remedy)
        elif found in node.value:
            line = node.keys[found][0]
            message = f"Duplicate of the attribute in line {line}"
            yield Problem(*keys[name], message, "Delete one of the two")
        else:
            node.value[found], node.keys[found] = value, keys[name]
    data[section]["attributes"] = node.plain()


def _sort_attributes(data: dict[str, Any]) -> None:
    """Sort masks: of two masks of equal width the first counts, so the order of the text must not matter."""
    for name in _OVERRIDES:
        section = data.get(name)
        if isinstance(section, dict) and isinstance(section.get("attributes"), dict):
            section["attributes"] = dict(sorted(section["attributes"].items()))


def _validate(data: dict[str, Any], draft: Draft, tree: Node) -> tuple[Policy | None, list[Problem]]:
    # A copy, since problems are reported with the paths as the user wrote them.
    resolved = json.loads(json.dumps(data))
    _resolve_paths(resolved, draft.base)
    try:
        # JSON mode is strict about types, but accepts lists for tuples and texts for paths.
        return Policy.model_validate_json(json.dumps(resolved)), []
    except ValidationError as errors:
        return None, list(_problems(errors, draft, tree))


def _resolve_paths(data: dict[str, Any], base: Path) -> None:
    for path in path_fields(data):
        parent: Any = data
        for step in path[:-1]:
            parent = parent.get(step) if isinstance(parent, dict) else _item(parent, step)
        value = parent.get(path[-1]) if isinstance(parent, dict) else _item(parent, path[-1])
        if isinstance(value, str) and path_problem(value) is None:
            parent[path[-1]] = os.path.abspath(base / value)
    # Only texts with a slash: a bare name is a package or a program on PATH.
    text = data.get("text")
    if isinstance(text, dict) and isinstance(model := text.get("model"), str) and "/" in model:
        text["model"] = os.path.abspath(base / model)
    command = data["keys"].get("command") if isinstance(data.get("keys"), dict) else None
    if isinstance(command, list) and command and isinstance(command[0], str) and "/" in command[0]:
        command[0] = os.path.abspath(base / command[0])


def _item(parent: object, index: str | int) -> Any:
    return parent[index] if isinstance(parent, list) and isinstance(index, int) else None


def _problems(errors: ValidationError, draft: Draft, tree: Node) -> Iterator[Problem]:
    for error in errors.errors(include_url=False, include_context=True, include_input=False):
        path = tuple(error["loc"])
        if path[-1] == "constrained-str":
            continue  # reported as a path: a text that is no URL may still be one
        # pydantic appends the member of a union to the path of an error.
        path = path[:1] if path[0] == "output" else path
        section = _WORD_OR_SECTION.get(path[:2])
        if section is not None and len(path) > 2:
            if (path[2] == section) != isinstance(draft.get(*path[:2]), dict):
                continue  # pydantic reports both members of the union
            path = (*path[:2], *path[3:])
        if len(path) > 2 and path[1] in SITE_LISTS:
            # pydantic reports both members of the union: the path and the list.
            if isinstance(draft.get(*path[:2]), list) != str(path[2]).startswith("tuple"):
                continue
            path = (*path[:2], *path[3:])
        if path[0] == "inputs" and len(path) > 2:
            if path[2] in _FORMS_OF_INPUT and path[2] != _form_of_input(draft.get(*path[:2])):
                continue
            if path[2] not in _FORMS_OF_INPUT and isinstance(draft.get(*path[:2]), dict):
                continue
            path = (*path[:2], *path[3:])
        kind = error["type"]
        name = str(path[-1])
        if kind == "too_short" and draft.get(*path):
            continue  # not empty: its items are invalid, and are reported themselves
        if kind == "extra_forbidden":
            line, column = _key_place(tree, path)
            form = _FORMS_OF_INPUT.get(_form_of_input(draft.get(*path[:2]))) if path[0] == "inputs" else None
            remedy = _REPLACED_KEYS.get(_dotted(path)) or _nearest(path, form)
            yield Problem(line, column, f"The key {display_key(name)} is unknown", remedy)
        elif kind == "missing":
            remedy = f"Add {_EXAMPLES.get(name, name + ' and its value')}"
            yield draft.problem(path, f"The key '{_dotted(path)}' is missing", remedy)
        elif draft.get(*path) is None:
            yield draft.problem(path, f"{_dotted(path)} has no value", "Write one, or delete the key")
        elif kind == "string_type" and isinstance(draft.get(*path), (int, float)):
            message = f"{_dotted(path)} is a text and must be quoted"
            yield draft.problem(path, message, 'Put it in quotes, as in "1.0"')
        else:
            yield draft.problem(
                path, f"{_dotted(path)} has an invalid value", _form(kind, name, error["msg"])
            )


def _form_of_input(value: object) -> str:
    """Return the class name of the PACS an input is meant to be; empty for a path."""
    if not isinstance(value, dict):
        return ""
    return Dimse.__name__ if "dimse" in value else DicomWeb.__name__


def _form(kind: str, name: str, message: str) -> str:
    if name in SITE_LISTS:
        return "Write the path of a text file, or a list, as in [a, b]"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(name, "See the schema: medsanitize schema")
    if kind == "literal_error":
        allowed = message.removeprefix("Input should be ").replace("'", "")
        return f"Write {allowed}" + _SECTIONS.get(name, "")
    if kind in _FORMS:
        return _FORMS[kind]
    return (
        message.replace("Input should be", "Write a number")
        if kind.startswith(("greater", "less"))
        else _FORMS["string_type"]
    )


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(str(step + 1) if isinstance(step, int) else step for step in path)


def _nearest(path: tuple[str | int, ...], form: type[BaseModel] | None) -> str:
    """Suggest the known key that is nearest to an unknown one, or list all known keys."""
    known = _known_keys(path[:-1]) if form is None else list(form.model_fields)
    near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.6)
    return f"Did you mean '{near[0]}'?" if near else "Known here: " + ", ".join(known)


def _known_keys(path: tuple[str | int, ...]) -> list[str]:
    model: type[BaseModel] = Policy
    for step in path:
        if isinstance(step, str):
            found = _model_of(model.model_fields[step].annotation)
            if found is None:
                return []
            model = found
    return list(model.model_fields)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_of(part))), None)


def _child(node: Node | None, step: str | int) -> Node | None:
    if node is None:
        return None
    if isinstance(node.value, dict) and isinstance(step, str):
        return node.value.get(step)
    if isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    return None


def place_in(tree: Node, path: tuple[str | int, ...]) -> SourcePosition:
    """Return the position of the value at a path, or of its nearest ancestor in the text."""
    node, place = tree, (1, 1)
    for index, step in enumerate(path):
        child = _child(node, step)
        if child is None:
            return place
        place = child.place
        if index < len(path) - 1 and isinstance(step, str):
            place = node.keys[step]
        node = child
    return place


def _key_place(tree: Node, path: tuple[str | int, ...]) -> SourcePosition:
    node: Node | None = tree
    for step in path[:-1]:
        node = _child(node, step)
    return node.keys[str(path[-1])] if node and str(path[-1]) in node.keys else place_in(tree, path)
