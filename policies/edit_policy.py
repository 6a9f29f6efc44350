"""Change one rule in the text of a policy, and nothing else of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.policies.load import loads
from medsanitize.policies.model import Action, Policy
from medsanitize.policies.strict_yaml import Node, read_yaml
from medsanitize.policies.tag_patterns import InvalidTagPattern, display_name, parse_tag_pattern

_BY_HAND: Final = "Write it into the policy yourself: dicom: attributes: {KEYWORD: X}"


def with_attribute_action(text: str, attribute: str, action: Action, *, base: Path) -> tuple[str, Policy]:
    """Return the text of a policy with one more override, and the policy.

    Comments and all other lines stay as they are.

    Parameters
    ----------
    text : str
        A valid policy.
    attribute : str
        Keyword, tag or mask of a public attribute.
    action : str
        ``X`` or another action.
    base : Path
        The folder to which paths in the policy are relative.

    Raises
    ------
    UsageError
        The attribute is unknown or private, or the sections are in a form that cannot be extended.
    """
    mask = parse_tag_pattern(attribute)
    if isinstance(mask, InvalidTagPattern):
        raise UsageError(mask.message, mask.remedy)
    before = loads(text, base=base)
    wanted = {**before.dicom.attributes, mask: action}
    name = display_name(mask)
    line = f"{name if name.isalnum() else f'{chr(34)}{name}{chr(34)}'}: {action}"
    changed = _inserted(text, mask, line)
    if not _is_valid(changed, base, wanted):
        raise UsageError("The section dicom of the policy cannot be extended", _BY_HAND)
    return changed, loads(changed, base=base)


def _is_valid(text: str, base: Path, wanted: dict[str, Action]) -> bool:
    try:
        return dict(loads(text, base=base).dicom.attributes) == dict(sorted(wanted.items()))
    except UsageError:
        return False


def _inserted(text: str, mask: str, rule: str) -> str:
    """Insert a rule below ``dicom: attributes:``, whose keys are added where they are missing."""
    lines = text.splitlines()
    tree, _ = read_yaml(text)
    dicom = _child(tree, "dicom")
    if tree is None or dicom is None:
        return _joined([*lines, "", "dicom:", "  attributes:", f"    {rule}"])
    attributes = _child(dicom, "attributes")
    if attributes is None:
        return _before_first_child(lines, dicom, ["attributes:", f"  {rule}"], f"attributes: {{{rule}}}")
    for key, child in attributes.value.items() if isinstance(attributes.value, dict) else ():
        if parse_tag_pattern(key) == mask:
            line, column = child.place
            # An action is one letter, which may be in quotes.
            at = column - 1 + lines[line - 1].startswith(("'", '"'), column - 1)
            lines[line - 1] = lines[line - 1][:at] + rule[-1] + lines[line - 1][at + 1 :]
            return _joined(lines)
    return _before_first_child(lines, attributes, [rule], rule)


def _before_first_child(lines: list[str], node: Node, block: list[str], flow: str) -> str:
    """Insert lines before the first key of a mapping, or a text if it is written in braces."""
    found = _first_child(node)
    if found is None:
        return _joined(lines)
    line, column = found
    before, behind = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
    if before.rstrip().endswith("{"):
        lines[line - 1] = f"{before}{flow}, {behind}"
        return _joined(lines)
    indent = " " * (column - 1)
    return _joined([*lines[: line - 1], *(indent + one for one in block), *lines[line - 1 :]])


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _first_child(node: Node) -> tuple[int, int] | None:
    return min(node.keys.values(), default=None)


def _child(node: Node | None, name: str) -> Node | None:
    return node.value.get(name) if node is not None and isinstance(node.value, dict) else None
