"""The lists of a site: read from files or the policy, checked line by line, never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.errors import PolicyError, UsageError
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.dump import dumps
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy, TextSection
from medsanitize.policies.site_lists import read_site_lists, with_site_lists, without_entries

HEAD = """\
version: 1
preset: research
release: {name: lists, version: "1", mode: pseudonymous}
inputs: [./export]
output: ./release
state: ./state
keys: {file: ./release.key}
"""
STAFF = "Kaltenbrunner"


def policy(text: str, base: Path = Path("/nowhere")) -> Policy:
    return loads(f"{HEAD}text: {{{text}}}\n", base=base)


def listed(path: Path, content: str | bytes) -> TextSection:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return TextSection(deny_list=path)


def test_a_file_has_one_entry_per_line_and_comments(tmp_path: Path) -> None:
    text = "\ufeff# staff\r\n\r\nMüller,  Anna  # reads MR\r\n#Young\r\nHaus #4\r\n  Pine Ward\r\n"
    assert read_site_lists(listed(tmp_path / "a", text)).deny == ("Haus #4", "Müller, Anna", "Pine Ward")


def test_a_file_and_a_list_in_the_policy_give_the_same_policy(tmp_path: Path) -> None:
    (tmp_path / "never.txt").write_text("Pine Ward\nKaltenbrunner\n")
    by_file = with_site_lists(policy("deny_list: ./never.txt", tmp_path))
    by_text = with_site_lists(policy("deny_list: [Kaltenbrunner, Pine Ward, Kaltenbrunner]", tmp_path))
    assert by_file == by_text


def test_invalid_lines_are_reported_together_without_their_text(tmp_path: Path) -> None:
    rules = listed(tmp_path / "a", f"{STAFF}\n  x\n{STAFF}\u0007\n---\n12\n{STAFF * 30}\n王\n")
    with pytest.raises(PolicyError) as caught:
        read_site_lists(rules)
    assert [(one.line, one.column) for one in caught.value.problems] == [
        (2, 3),
        (3, 1),
        (4, 1),
        (5, 1),
        (6, 1),
    ]
    assert all(one.remedy for one in caught.value.problems)
    assert STAFF not in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfeK\x00", b"x\n" * 4_000_001])
def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        read_site_lists(listed(tmp_path / "a", content))
    assert "text.deny_list" in str(caught.value)


def test_a_missing_file_is_refused_without_its_path() -> None:
    with pytest.raises(UsageError) as caught:
        read_site_lists(TextSection(allow_list=Path(f"/nowhere/{STAFF}")))
    assert STAFF not in str(caught.value)


def test_an_invalid_entry_of_the_policy_is_reported_where_it_is() -> None:
    with pytest.raises(PolicyError) as caught:
        policy("allow_list: [Room Goethe, x]")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (8, 34)


@pytest.mark.parametrize("value", ["3", "{a: b}", "[[]]"])
def test_another_type_is_reported_once(value: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(f"deny_list: {value}")
    assert len(caught.value.problems) == 1


def test_a_list_inside_the_published_folder_is_refused() -> None:
    with pytest.raises(PolicyError) as caught:
        policy("deny_list: ./release/never.txt")
    assert "published" in str(caught.value)


def test_the_published_digest_says_only_that_there_is_a_list() -> None:
    one, other, none = policy("deny_list: [Pine Ward]"), policy("deny_list: ./a.txt"), policy("patterns: []")
    assert policy_digest(one) == policy_digest(other) != policy_digest(none)


def test_a_plan_shows_no_entry_and_no_repr_does() -> None:
    own = policy(f"deny_list: [{STAFF}], allow_list: [Room {STAFF}]")
    shown = dumps(without_entries(own)) + repr(own) + repr(read_site_lists(own.text))
    assert STAFF not in shown
    assert '"1 entries, not shown"' in shown


@given(lines=st.lists(st.text(max_size=12), max_size=6))
def test_any_text_is_read_or_reported(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "any-list"
    try:
        found = read_site_lists(listed(path, "\n".join(lines).encode("utf-8", "replace")))
    except PolicyError:
        return
    assert all(entry and entry == entry.strip() and entry.isprintable() for entry in found.deny)
