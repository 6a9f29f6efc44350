"""A known name is found in any spelling, and similar words are not."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from medsanitize.policies.tables.vocabulary import words as vocabulary
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.folding import fold_letters
from medsanitize.sanitize.text.known_identifiers import compile_terms, find_known_identifiers
from medsanitize.sanitize.text.stop_words import INSTITUTION_WORDS, STREET_WORDS

from tests.helpers.known_subject import FRAMES, fakers, mark_identifiers

NAMES = sorted({(faker.last_name(), faker.first_name()) for faker in fakers() for _ in range(40)})


@pytest.mark.parametrize(
    "name",
    [
        *(
            "JOHN SMITH",
            "Smith, John",
            "SMITH^JOHN",
            "smith john",
            "John A. Smith",
            "J. Smith",
            "SMITH, J.",
            "Smith J.",
        ),
        *(
            "SMITHJOHN",
            "JohnSmith",
            "JSmith",
            "smith_john",
            "S M I T H",
            "SMTIH",
            "Smmith",
            "Smithe",
            "JOHNN",
            "Smith's",
        ),
        *("O'Brien", "OBRIEN", "O Brien", "O’Brien", "O'Brein", "o'brien's", "SIOBHAN", "Siobhán O'Brien"),
        *(
            "Müller",
            "MULLER",
            "Mueller",
            "Müller-Lüdenscheidt",
            "Luedenscheidt",
            "MUELLERLUEDENSCHEIDT",
            "Joerg Muller",
        ),
        *(
            "Sørensen",
            "SOERENSEN",
            "Sorensen",
            "Aase Sørensen",
            "山田太郎",
            "山田",
            "Taro YAMADA",
            "van der Berg",
            "VANDERBERG",
        ),
    ],
)
@pytest.mark.parametrize("frame", FRAMES)
def test_a_known_name_is_removed_in_any_spelling_and_its_context_kept(name: str, frame: str) -> None:
    assert mark_identifiers(frame.format(name)) == frame.format("[name]")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("pt JS seen", "pt [name] seen"),
        ("Dr. J.S.", "Dr. [name]"),
        ("JS 5 mm", "JS 5 mm"),
        ("SMITH L KNEE", "[name] L KNEE"),
        ("van, der and de", "van, der and de"),
    ],
)
def test_initials_and_particles_are_removed_only_if_they_denote_a_person(text: str, left: str) -> None:
    assert mark_identifiers(text) == left


def test_a_laterality_marker_next_to_a_name_is_no_initial() -> None:
    subject = compile_terms([KnownValue("name", "Wagner^Laura")])

    assert mark_identifiers("WAGNER L KNEE, WAGNER, L., LWAGNER", subject) == "[name] L KNEE, [name]"


@pytest.mark.parametrize("name", ["Hodgkin", "Black", "White", "Hand", "Head"])
def test_a_patient_named_like_a_clinical_word_loses_it_everywhere(name: str) -> None:
    subject = compile_terms([KnownValue("name", f"{name}^Ann")])

    assert (
        name.lower()
        not in mark_identifiers(f"{name} {name.lower()} lymphoma, {name.upper()}", subject).lower()
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("CT CHEST 森", "CT CHEST "),
        ("森さん 胸部", "さん 胸部"),
        ("森 涼平", ""),
        ("森林浴", "森林浴"),
        ("青森", "青森"),
    ],
)
def test_a_family_name_of_one_character_is_removed_as_a_separate_word(text: str, left: str) -> None:
    cuts = find_known_identifiers(text, compile_terms([KnownValue("name", "森^涼平")]))
    gone = {place for cut in cuts for place in range(cut.start, cut.end)}
    assert "".join(char for place, char in enumerate(text) if place not in gone) == left


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(NAMES), spelling=st.integers(0, 11), frame=st.sampled_from(FRAMES))
def test_any_personal_name_is_covered_in_every_spelling(
    name: tuple[str, str], spelling: int, frame: str
) -> None:
    family, given_name = name
    subject = compile_terms([KnownValue("name", f"{family}^{given_name}")])
    written = [
        *(
            f"{family} {given_name}",
            f"{given_name} {family}",
            f"{family}, {given_name}",
            f"{family}^{given_name}",
        ),
        *(
            f"{family}{given_name}",
            f"{given_name}_{family}",
            f"{family} {given_name}".upper(),
            family.lower(),
        ),
        *(
            fold_letters(family + given_name),
            fold_letters(given_name + family, wide=True),
            f"{given_name}.{family}",
            family.upper(),
        ),
    ][spelling]
    text = frame.format(written)
    start = text.index(written)

    covered = {place for cut in find_known_identifiers(text, subject) for place in range(cut.start, cut.end)}

    assert {start + place for place, char in enumerate(written) if char.isalnum()} <= covered


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    place=st.integers(0, 30),
    kind=st.sampled_from(["drop", "swap", "double", "change"]),
)
def test_one_typo_does_not_hide_a_long_name(name: tuple[str, str], place: int, kind: str) -> None:
    family = fold_letters(name[0])
    place %= max(1, len(family) - 1)
    slip = {
        "drop": family[:place] + family[place + 1 :],
        "swap": family[:place] + family[place + 1 : place + 2] + family[place] + family[place + 2 :],
        "double": family[: place + 1] + family[place:],
        "change": family[:place] + "q" + family[place + 1 :],
    }[kind]
    assume(len(family) >= 6 and len(slip) >= 5)
    assume(slip not in vocabulary() | INSTITUTION_WORDS | STREET_WORDS)
    subject = compile_terms([KnownValue("name", f"{family}^X")])

    assert mark_identifiers(f"CT CHEST {slip} 5 mm", subject) == "CT CHEST [name] 5 mm"
