"""Write the generated parts of docs/policy.md: `python docs/generate.py`.

Each part lies between ``<!-- generated: NAME -->`` and ``<!-- end -->`` and comes from the policy's
models, the shipped presets and the loader itself, so that the manual cannot say anything else than they do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from medsanitize.errors import PolicyError
from medsanitize.policies.base import Text
from medsanitize.policies.inputs import StoreUrl
from medsanitize.policies.load import PRESETS, loads
from medsanitize.policies.model import OPTION_CODES, Options, Policy
from medsanitize.policies.template import policy_template
from pydantic import BaseModel
from pydantic.fields import FieldInfo

PAGE = Path(__file__).parent / "policy.md"

_PART = re.compile(r"(<!-- generated: ([a-z]+) -->\n)(?:.*?\n)??(<!-- end -->)", re.S)
_BROKEN = re.compile(r"<!-- broken -->\n```yaml\n(.*?)```", re.S)
_BASE = Path("/project")

THIS_VERSION: Mapping[str, str] = {
    "clean_pixel_data": "objects that `pixels.look_at` names are read; what identifies is blanked and the "
    "result read again; what still identifies, or cannot be decoded, is quarantined. Stated in the objects "
    "that were read, and in no other",
    "clean_recognizable_visual_features": "`pixels.faces` decides; on, only `deface` and `quarantine` are "
    "accepted there. Stated in the objects from which a face was cut off, and in no other",
    "clean_graphics": "graphic annotations stay, their texts cleaned; overlay planes stay where "
    "`clean_pixel_data` is on and reads them too, else they go; curves go all the same",
    "clean_structured_content": "content stays item by item: texts, dates and UIDs in it are cleaned; "
    "persons, observers, the subject's identity, institutions and request numbers go as whole items",
    "clean_descriptors": "texts stay as `text` says: identifiers are cut, words that are in no vocabulary go "
    "with them",
    "retain_longitudinal_full_dates": "dates and times stay; not together with the next option",
    "retain_longitudinal_modified_dates": "dates are shifted or cut to the year, as `dicom.dates` says",
    "retain_patient_characteristics": "they stay; ages over 89 become `090Y`, texts among them are cleaned",
    "retain_device_identity": "they stay; dates of devices stay only with full dates as well",
    "retain_uids": "UIDs stay; refused in an anonymous release",
    "retain_safe_private": "private attributes of the built-in list (PS3.15 Table E.3.10-1) and of "
    "`dicom.safe_private` stay, by creator, with values cleaned; every other one goes",
    "retain_institution_identity": "they stay",
}
"""What each option does in this version; tests hold it to the options there are."""


def page(text: str) -> str:
    """The page with every generated part written anew."""
    parts: Mapping[str, Callable[[], str]] = {
        "presets": presets,
        "options": options,
        "reference": reference,
        "problems": lambda: problems(text),
    }
    return _PART.sub(lambda found: found[1] + parts[found[2]]() + found[3], text)


def presets() -> str:
    """What each preset decides, one row a setting."""
    loaded = [_loaded(name) for name in PRESETS]
    rows = [("setting", *(f"`{name}`" for name in PRESETS))]
    sections = (("dicom", "options"), ("dicom", "dates"), ("pixels",), ("deduplicate",))
    for section in sections:
        for key in _at(loaded[0], section):
            values = (_shown(_at(policy, (*section, key))) for policy in loaded)
            rows.append((f"`{'.'.join((*section, key))}`", *values))
    counts = (f"{len(_at(policy, ('dicom', 'attributes'))) or 'none'}" for policy in loaded)
    rows.append(("`dicom.attributes`, number of overrides", *counts))
    return _table(rows)


def options() -> str:
    """The options of PS3.15 E.3: code, what they ask for, what this version does."""
    rows = [("`dicom.options`", "code", "asks that", "this version")]
    for name, field in Options.model_fields.items():
        asks = _plain(field.description).partition(": ")[2].rstrip(".")
        rows.append((f"`{name}`", OPTION_CODES[name][0], asks, THIS_VERSION[name]))
    return _table(rows)


def reference() -> str:
    """Every section and key: type, default and meaning, out of the models."""
    return "\n".join(_section("", Policy, ""))


def problems(text: str) -> str:
    """What the loader says of the page's broken policy."""
    broken = _BROKEN.search(text)
    try:
        loads(broken[1] if broken else "", base=_BASE)
    except PolicyError as error:
        return f"```text\n{error}\n```\n"
    raise SystemExit("The broken policy of docs/policy.md is not broken")


def _section(name: str, model: type[BaseModel], about: str) -> Iterator[str]:
    """One section's table, then the sections in it."""
    yield f"### `{name}`\n" if name else "### The policy itself\n"
    if about:
        yield f"{about}\n"
    rows = [("key", "type", "default", "meaning")]
    below: list[tuple[str, type[BaseModel], str]] = []
    for key, field in model.model_fields.items():
        path = f"{name}.{key}" if name else key
        option = name == "dicom.options"
        meaning = (
            f"Option {OPTION_CODES[key][0]}: see [above](#options-of-ps315)."
            if option
            else _plain(field.description)
        )
        rows.append((f"`{key}`", _type(field), _default(path, field), meaning))
        for inner in _models_in(field.annotation):
            title = f"{path}: - {inner.__name__.lower()}" if key == "inputs" else path
            below.append((title, inner, "" if inner is Options else _plain(inner.__doc__)))
    yield _table(rows)
    for path, inner, text in below:
        yield from _section(path, inner, text)


def _type(field: FieldInfo) -> str:
    return _kind(field.annotation) + _bounds(field.metadata)


def _bounds(constraints: Iterable[Any]) -> str:
    """What numbers are allowed, where not all are."""
    constraints = list(constraints)
    names = ("gt", "ge", "le")
    found = {name: getattr(one, name) for one in constraints for name in names if hasattr(one, name)}
    if any(hasattr(one, "lt") for one in constraints):
        return ", between 0 and 1"
    least = found["gt"] + 1 if "gt" in found else found.get("ge")
    if least is None:
        return ""
    return f", {least} to {found['le']}" if "le" in found else f", at least {least}"


def _kind(annotation: Any) -> str:
    """A type in a steward's words."""
    if annotation == StoreUrl:
        return "address"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return ", or ".join(dict.fromkeys(_kind(part) for part in parts if part is not NoneType))
    if origin is tuple:
        inner = _kind(parts[0])
        plural = {
            "section": "sections",
            "path": "paths",
            "address, or path, or section": "addresses, paths or sections",
        }
        return f"list of {plural.get(inner, inner)}"
    if origin is dict:
        return "attribute: action" if parts[1] is not Text else "keyword: text"
    if hasattr(annotation, "__metadata__"):
        fields = [one for one in annotation.__metadata__ if isinstance(one, FieldInfo)]
        return _kind(parts[0]) + "".join(_bounds(field.metadata) for field in fields)
    return _KINDS[annotation]


_KINDS: Mapping[Any, str] = {
    bool: "`true`, `false`",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
}


def _default(path: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if _models_in(field.annotation) and _kind(field.annotation) == "section":
        return "see below"
    steps = tuple(path.split("."))
    values = []
    for policy in map(_loaded, PRESETS):
        value = _at(policy, steps[:-1])
        if not isinstance(value, dict) or steps[0].partition(":")[0] in (
            "release",
            "tables",
            "keys",
            "inputs",
        ):
            return _shown(field.get_default(call_default_factory=True))
        values.append(_shown(value[steps[-1]]))
    return values[0] if len(set(values)) == 1 else "by preset"


def _plain(text: str | None) -> str:
    """A docstring as one line of Markdown."""
    return " ".join((text or "").replace("``", "`").split())


def _shown(value: Any) -> str:
    """A value as a policy writes it; nothing where there is none."""
    if value in (None, "", (), [], {}):
        return "none"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]


def _loaded(preset: str) -> dict[str, Any]:
    policy = loads(policy_template(preset, "example"), base=_BASE)  # type: ignore[arg-type]
    return policy.model_dump(mode="json")


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    head, *body = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
