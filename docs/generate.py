"""Write the generated parts of docs/policy.md: `python docs/generate.py`.

Each part is between ``<!-- generated: NAME -->`` and ``<!-- end -->`` and is built from the policy's
models, the presets and the loader, so that the manual agrees with them.
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
    "clean_pixel_data": "the objects that `pixels.search` selects are read; identifying text is blanked and "
    "the result is read again. Objects with remaining identifying text, or that cannot be decoded, are "
    "quarantined. Stated only in objects that were read",
    "clean_recognizable_visual_features": "set by `pixels.faces`, which must be `deface` or `quarantine` "
    "if the option is on. Stated only in objects from which a face was removed",
    "clean_graphics": "graphic annotations are kept with cleaned texts; overlay planes are kept if "
    "`clean_pixel_data` is on, which reads them, and removed otherwise; curves are always removed",
    "clean_structured_content": "content is kept item by item with cleaned texts, dates and UIDs; items "
    "about persons, observers, the subject's identity, institutions and request numbers are removed",
    "clean_descriptors": "texts are kept as `text` sets: identifiers and words that are in no vocabulary are "
    "removed",
    "retain_longitudinal_full_dates": "dates and times are kept; excludes the next option",
    "retain_longitudinal_modified_dates": "dates and times are shifted, or dates reduced to the year, as "
    "`dicom.dates` sets",
    "retain_patient_characteristics": "kept; ages over 89 become `090Y`, texts are cleaned",
    "retain_device_identity": "kept; dates of devices are kept with full dates only",
    "retain_uids": "UIDs are kept; rejected in an anonymous release",
    "retain_safe_private": "private attributes of the built-in list (PS3.15 Table E.3.10-1) and of "
    "`dicom.safe_private` are kept, by creator, with cleaned values; all others are removed",
    "retain_institution_identity": "kept",
}
"""What each option does in this version; a test compares the keys with the options of the model."""


def page(text: str) -> str:
    """Return the page with every generated part replaced."""
    parts: Mapping[str, Callable[[], str]] = {
        "presets": presets,
        "options": options,
        "reference": reference,
        "problems": lambda: problems(text),
    }
    return _PART.sub(lambda found: found[1] + parts[found[2]]() + found[3], text)


def presets() -> str:
    """Return the values of each preset, one row per setting."""
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
    """Return the options of PS3.15 E.3: code, requirement, and what this version does."""
    rows = [("`dicom.options`", "code", "requirement", "this version")]
    for name, field in Options.model_fields.items():
        asks = _plain(field.description).partition(": ")[2].rstrip(".")
        rows.append((f"`{name}`", OPTION_CODES[name][0], asks, THIS_VERSION[name]))
    return _table(rows)


def reference() -> str:
    """Return every section and key of the models with type, default and meaning."""
    return "\n".join(_section("", Policy, ""))


def problems(text: str) -> str:
    """Return the loader's error for the invalid policy of the page."""
    broken = _BROKEN.search(text)
    try:
        loads(broken[1] if broken else "", base=_BASE)
    except PolicyError as error:
        return f"```text\n{error}\n```\n"
    raise SystemExit("The broken policy of docs/policy.md is not broken")


def _section(name: str, model: type[BaseModel], about: str) -> Iterator[str]:
    """Yield the table of a section, then its subsections."""
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
    """Return the allowed range of a number; empty without one."""
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
    """Return the name of a type for readers of the manual."""
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
    """Return a docstring as one line of Markdown."""
    return " ".join((text or "").replace("``", "`").split())


def _shown(value: Any) -> str:
    """Return a value as a policy writes it; ``none`` if it is empty."""
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
