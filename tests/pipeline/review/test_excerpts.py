"""A judgment on an excerpt holds for exactly the bytes that it was made of."""

from __future__ import annotations

from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.state.excerpts import seal_excerpt
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.verifiers.leaks.excerpts import MOST, Excerpt, excerpt_of, judgeable

SEAL = Seal(derive_sub_keys(b"k" * 32, scope="x"))


def name_of(excerpt: Excerpt) -> bytes:
    facts = (excerpt.location, excerpt.rule, excerpt.place, excerpt.value, excerpt.surroundings)
    return seal_excerpt(SEAL, *facts, exact=excerpt.exact).name


def text(data: bytes) -> Excerpt:
    return excerpt_of("(0008,1030)", "audit:name", "the value of the attribute", data, data)


def test_bytes_that_are_shown_alike_are_judged_apart() -> None:
    first, second = text("Иванов".encode("iso8859-5")), text("Петров".encode("iso8859-5"))

    assert first.value == second.value
    assert name_of(first) != name_of(second)


def test_what_is_not_shown_any_more_is_judged_apart() -> None:
    assert name_of(text(b"a" * 500 + b"DOE")) != name_of(text(b"a" * 500 + b"ROE"))


def test_equal_bytes_are_judged_once() -> None:
    assert name_of(text(b"DOE")) == name_of(text(b"DOE"))


def test_nothing_of_an_object_can_be_judged_if_a_text_is_too_long_to_be_shown() -> None:
    short, long = text(b"DOE"), text(b"a" * 30_000 + b"DOE")

    assert judgeable([short]) == (short,)
    assert judgeable([short, long]) == ()


def test_nothing_of_an_object_can_be_judged_if_it_has_too_many_hits() -> None:
    assert judgeable([text(str(number).encode()) for number in range(MOST + 1)]) == ()
