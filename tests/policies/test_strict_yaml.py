"""Strict YAML: what is rejected, and the location of the error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.policies.strict_yaml import MAX_BYTES, MAX_DEPTH, MAX_PROBLEMS, read_yaml


def places(text: str) -> list[tuple[int, int, str]]:
    return [(problem.line, problem.column, problem.message) for problem in read_yaml(text)[1]]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 1, "The key 'a' is duplicated; first in line 1"),
        ('a: {b: 1, "b": 2}\n', 1, 11, "The key 'b' is duplicated; first in line 1"),
        ("a: &x [1]\n", 1, 4, "An anchor is not allowed"),
        ("a: 1\nb: *x\n", 2, 4, "An alias is not allowed"),
        ("*x : 1\n", 1, 1, "An alias is not allowed"),
        ("a:\n  <<: {b: 1}\n", 2, 3, "A merge key is not allowed"),
        ("a: !!str 1\n", 1, 4, "A tag is not allowed"),
        ("a: !local {b: 1}\n", 1, 4, "A tag is not allowed"),
        ("a: !other!x 1\n", 1, 4, "A tag is not allowed"),
        ("a: 1\n---\nb: 2\n", 2, 1, "A second document begins here"),
        ("%YAML 1.1\n---\na: 1\n", 2, 1, "A directive is not allowed"),
        ("a: 0010\n", 1, 4, "The number is ambiguous between YAML versions"),
        ("a: 0o10\n", 1, 4, "The number is ambiguous between YAML versions"),
        ("a: 0x1F\n", 1, 4, "The number is ambiguous between YAML versions"),
        ("a: 1_000\n", 1, 4, "The number is ambiguous between YAML versions"),
        ("a: 12:30:45\n", 1, 4, "The number is ambiguous between YAML versions"),
        ("a: .inf\n", 1, 4, "Infinity and not-a-number are not allowed"),
        ("a: 12345678901234567890\n", 1, 4, "The number is too long"),
        ("0010: x\n", 1, 1, "The key is ambiguous between YAML versions"),
        ("a:\n  on: x\n", 2, 3, "The key is ambiguous between YAML versions"),
        ("7: x\n", 1, 1, "The key would be read as a number, a boolean or null"),
        ("300e0008: X\n", 1, 1, "The key would be read as a number, a boolean or null"),
        ("true: x\n", 1, 1, "The key would be read as a number, a boolean or null"),
        ("? [a]\n: b\n", 1, 3, "A key must be plain text"),
        ("- a\n", 1, 1, "The policy is not a mapping of keys"),
        ("", 1, 1, "The policy is not a mapping of keys"),
        ("# nothing\n", 1, 1, "The policy is not a mapping of keys"),
        ("a: [1,\n", 2, 1, "Invalid YAML from this position"),
        ("\ta: 1\n", 1, 1, "Invalid YAML from this position"),
        ("a: b: c\n", 1, 5, "Invalid YAML from this position"),
        ("a: 1\nb: \x07\n", 2, 4, "A control character is not allowed in YAML"),
    ],
)
def test_invalid_yaml_is_rejected_with_its_location(text: str, line: int, column: int, message: str) -> None:
    assert places(text) == [(line, column, message)]


@pytest.mark.parametrize("word", ["y", "N", "yes", "no", "Yes", "NO", "on", "Off"])
def test_yaml_1_1_booleans_are_rejected_unless_quoted(word: str) -> None:
    assert places(f"a: {word}\n") == [(1, 4, "The word is ambiguous between YAML versions")]
    tree, problems = read_yaml(f'a: "{word}"\n')
    assert tree is not None
    assert (tree.plain(), problems) == ({"a": word}, [])


def test_core_schema_scalars() -> None:
    text = "a: [1, -7, 1.5, true, false, null, ~, text, '5', 2024-01-31, 60xx3000, 1.2.840]\nb:\n"
    tree, problems = read_yaml(text)
    assert problems == []
    assert tree is not None
    expected = [1, -7, 1.5, True, False, None, None, "text", "5", "2024-01-31", "60xx3000", "1.2.840"]
    assert tree.plain() == {"a": expected, "b": None}


def test_keys_and_values_have_locations() -> None:
    tree, _ = read_yaml("a:\n  b: [1, x]\n")
    assert tree is not None
    inner = tree.value["a"]  # type: ignore[index, call-overload]
    assert (tree.keys["a"], inner.keys["b"], inner.value["b"].value[1].place) == ((1, 1), (2, 3), (2, 10))


def test_all_problems_are_reported_together() -> None:
    text = "a: no\na: 0010\nb: &q 1\nc: {d: *q, e: !t 2}\n"
    assert [(line, column) for line, column, _ in places(text)] == [
        (1, 4),
        (2, 1),
        (2, 4),
        (3, 4),
        (4, 8),
        (4, 15),
    ]


def test_deep_nesting_is_rejected() -> None:
    assert places("[" * 5000)[0][2] == f"The policy is nested deeper than {MAX_DEPTH}"
    assert read_yaml("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))[1] == []


def test_a_large_file_is_rejected_without_parsing() -> None:
    assert places("a: x\n" + "#" * MAX_BYTES) == [(1, 1, "The policy is larger than 1 MB")]


def test_the_number_of_problems_is_limited() -> None:
    assert len(places("a: no\n" * 5000)) == MAX_PROBLEMS


def test_alias_bomb_is_not_expanded() -> None:
    layers = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9))
    tree, problems = read_yaml(f"l0: &l0 [x]\n{layers}\n")
    assert tree is not None
    assert len(problems) > 9


def test_messages_do_not_quote_long_or_odd_keys() -> None:
    secret = "S" * 60
    assert secret not in str(places(f"{secret}: 1\n{secret}: 2\n"))


@given(st.text(max_size=200))
def test_any_text_gives_a_tree_or_problems(text: str) -> None:
    tree, problems = read_yaml(text)
    assert tree is not None or problems


@given(st.text(alphabet="ab:-[]{}&*!|>'\"%@`#,?<\n\t 01", max_size=60))
def test_any_punctuation_gives_a_tree_or_problems(text: str) -> None:
    tree, problems = read_yaml(text)
    assert tree is not None or problems
