"""The policy reference: up to date with the code, and every example is a valid policy."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from medsanitize.errors import PolicyError
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.load import loads
from medsanitize.policies.model import Options, Policy
from pydantic import BaseModel

from tests.helpers.documents import merge_policies

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "policy.md").read_text(encoding="utf-8")
BASE = Path("/data/project")
EXAMPLES = re.findall(r"(<!-- broken -->\n)?```yaml\n(.*?)```", PAGE, re.S)
WHOLE = EXAMPLES[0][1]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def digest(fragment: str) -> str:
    return policy_digest(loads(merge_policies(fragment, WHOLE), base=BASE))


def keys(model: type[BaseModel], indent: int = 0, above: str = "") -> Iterator[tuple[str, str]]:
    """(path, policy text up to the key and its colon) of every key."""
    for name, field in model.model_fields.items():
        text = f"{above}{' ' * indent}{name}:"
        yield name, text
        annotation: Any = field.annotation
        inner = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
        for part in inner:
            if issubclass(part, BaseModel):
                in_list = part is not annotation and get_args(annotation)[-1] is Ellipsis
                if not in_list:
                    yield from keys(part, indent + 2, text + "\n")


EVERY_KEY = [text for _, text in keys(Policy)]


def test_generated_parts_are_up_to_date() -> None:
    assert generator().page(PAGE) == PAGE, "Run: python docs/generate.py"


def test_reference_has_every_key() -> None:
    reference = PAGE.partition("## Reference")[2]
    assert [name for name, _ in keys(Policy) if f"| `{name}` |" not in reference] == []


def test_every_option_states_what_this_version_does() -> None:
    assert set(generator().THIS_VERSION) == set(Options.model_fields)


@pytest.mark.parametrize("example", [text for broken, text in EXAMPLES if not broken])
def test_every_example_is_valid(example: str) -> None:
    loads(merge_policies(example, WHOLE), base=BASE)


def test_links_resolve() -> None:
    targets = re.findall(r"\]\(([^)#]+)", PAGE)
    assert [target for target in targets if not (DOCS / target).exists()] == []


@pytest.mark.parametrize("text", EVERY_KEY)
def test_a_wrong_type_is_reported_with_location_and_remedy(text: str) -> None:
    first = text.partition(":")[0].strip()
    kept = "".join(line + "\n" for line in WHOLE.splitlines() if not line.startswith(f"{first}:"))
    policy = f"{kept}{text} [[{{}}]]\n"
    line = policy.count("\n")
    with pytest.raises(PolicyError) as caught:
        loads(policy, base=BASE)
    here = [problem for problem in caught.value.problems if problem.line == line]
    column = text.rpartition("\n")[2].index(":") + 3
    assert [problem.column for problem in here if problem.column in range(column, column + 3)]
    assert all(problem.message and problem.remedy for problem in caught.value.problems)
    assert all(str(problem).startswith(f"{problem.line}:{problem.column}: ") for problem in here)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "dicom: {options: {clean_graphics: true}}\n",
            'dicom:\n  options:\n    "clean_graphics": True # yes\n',
        ),
        ("pixels: {at_risk: release}\n", ""),
        ("exclude: ./a.csv\n", "exclude: b/c.csv\n"),
        (
            "dicom: {attributes: {StudyDescription: C, '(60XX,3000)': X}}\n",
            "dicom: {attributes: {60xx3000: X, '00081030': C}}\n",
        ),
        (
            "dicom:\n  safe_private:\n"
            "  - {creator: A, group: '002b', element: '0a', vr: DS}\n"
            "  - {creator: B, group: '0029', element: '10', vr: DS}\n",
            "dicom:\n  safe_private:\n"
            "  - {creator: B, group: '0029', element: '10', vr: DS}\n"
            "  - {creator: A, group: '002B', element: '0A', vr: DS}\n",
        ),
        ("registry: {public: [a, b]}\n", "registry:\n  public:\n  - b\n  - a\n  - b\n"),
    ],
)
def test_equivalent_policies_have_the_same_digest(one: str, other: str) -> None:
    assert digest(one) == digest(other)


def test_duplicate_private_attribute_rules_apply_in_order() -> None:
    lines = [
        "{creator: A, group: '0029', element: '10', vr: DS}",
        "{creator: A, group: '0029', element: '10', vr: LO}",
    ]
    one, other = (
        "dicom: {safe_private: [" + ", ".join(order) + "]}\n" for order in (lines, list(reversed(lines)))
    )
    assert digest(one) != digest(other)


def test_the_order_of_equally_specific_masks_does_not_depend_on_the_text() -> None:
    one = loads(merge_policies("dicom: {attributes: {xxxx0060: K, 0018xxxx: X}}\n", WHOLE), base=BASE)
    other = loads(merge_policies("dicom: {attributes: {0018xxxx: X, xxxx0060: K}}\n", WHOLE), base=BASE)
    assert list(one.dicom.attributes.items()) == list(other.dicom.attributes.items())


def test_an_impossible_date_is_rejected() -> None:
    text = WHOLE.replace("mode: pseudonymous", "mode: pseudonymous, date: 2026-02-30")
    with pytest.raises(PolicyError) as caught:
        loads(text, base=BASE)
    (problem,) = caught.value.problems
    assert (problem.line, problem.message) == (3, "The date does not exist")


def test_a_list_of_wrong_items_is_not_reported_as_empty() -> None:
    with pytest.raises(PolicyError) as caught:
        loads(merge_policies("inputs: [1]\n", WHOLE), base=BASE)
    assert [problem.column for problem in caught.value.problems] == [10]
