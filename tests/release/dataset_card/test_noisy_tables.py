"""The figures of a dataset card: their noise, consistency and reproducibility."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.errors import UsageError
from medsanitize.policies.dataset_card import CardSection
from medsanitize.release.dataset_card.consistency import (
    Weighted,
    common_total,
    nearest_rows,
    whole_rows,
)
from medsanitize.release.dataset_card.discrete_laplace import KeyedBits, discrete_laplace
from medsanitize.release.dataset_card.documents import card_markdown
from medsanitize.release.dataset_card.noisy_tables import DatasetCard, largest_error, make_card
from medsanitize.release.dataset_card.tables import (
    AGE,
    MODALITY,
    SEX,
    CardCounter,
    CardCounts,
    age_category,
    card_shapes,
    images_category,
    sex_category,
)

KEY = bytes(range(32))
SECTION = CardSection(epsilon=1.0)
SHAPES = card_shapes(SECTION, ("head", "chest"))
ROWS = st.lists(st.integers(-50, 200), min_size=1, max_size=8).map(tuple)


def counted(patients: int) -> CardCounts:
    counter = CardCounter(SHAPES)
    for number in range(patients):
        counter.add(
            {
                AGE: {age_category(SECTION, number % 97)},
                SEX: {sex_category({"FM"[number % 2]})},
                "images": {images_category(1 + number % 12)},
                MODALITY: {"CT", "MR"} if number % 3 else {"CR"},
                "region": {"chest"},
            }
        )
    return counter.counts()


def made(patients: int = 1000, version: str = "1.0", epsilon: float = 1.0, key: bytes = KEY) -> DatasetCard:
    return make_card(counted(patients), "chest-ct", version, epsilon, key)


# -- noise ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 2), Fraction(18)])
def test_noise_has_the_distribution_of_discrete_laplace(scale: Fraction) -> None:
    """Chi-square test with a fixed key: the same numbers in every run."""
    bits, draws = KeyedBits(KEY), 20_000
    seen = Counter(discrete_laplace(bits, scale) for _ in range(draws))
    q = math.exp(-1 / scale)
    expected = {x: draws * (1 - q) / (1 + q) * q ** abs(x) for x in range(-200, 201)}
    cells = [x for x in expected if expected[x] >= 10]
    statistic = sum((seen[x] - expected[x]) ** 2 / expected[x] for x in cells)
    rest = draws - sum(expected[x] for x in cells)
    statistic += (draws - sum(seen[x] for x in cells) - rest) ** 2 / rest
    # Mean and standard deviation of chi-square with so many degrees of freedom; 4 of them are 1 in 10,000.
    assert statistic < len(cells) + 4 * math.sqrt(2 * len(cells))


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 255, 256, 257, 1000])
def test_uniform_integers_are_below_their_limit_and_all_occur(limit: int) -> None:
    bits = KeyedBits(KEY)
    seen = Counter(bits.below(limit) for _ in range(40 * limit))
    assert sorted(seen) == list(range(limit))
    assert max(seen.values()) < 40 + 6 * math.sqrt(40) or limit == 1


@pytest.mark.card
@pytest.mark.parametrize("scale", [1.0, 2.0, 7.0, 18.0])
def test_noise_and_error_agree_with_opendp(scale: float) -> None:
    """opendp draws its own noise: both samples have the mean size that theory states."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    mechanism = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=scale)
    theirs = mechanism([0] * 20_000)
    bits = KeyedBits(KEY)
    ours = [discrete_laplace(bits, Fraction(scale)) for _ in range(20_000)]
    q = math.exp(-1 / scale)
    for drawn in (ours, theirs):
        mean = sum(map(abs, drawn)) / len(drawn)
        # opendp's numbers are new each time: 8 standard errors, once in 10^15 runs.
        assert mean == pytest.approx(2 * q / (1 - q * q), abs=8 * 2 * scale / math.sqrt(20_000))
    for alpha in (0.05, 0.05 / 12):
        stated = dp.discrete_laplacian_scale_to_accuracy(scale, alpha)
        assert largest_error(scale, alpha) == math.ceil(stated) - 1


@pytest.mark.card
def test_errors_hold_for_the_share_of_cards_that_they_state() -> None:
    exact = counted(2000)
    inside = total = joint = 0
    for number in range(200):
        card = make_card(exact, "chest-ct", str(number), 1.0, KEY)
        table = next(one for one in card.tables if one.name == MODALITY)
        rows = dict(zip(SHAPES[3].categories, exact.rows[3], strict=True))
        # Figures of rows with no patient are only made smaller by clipping.
        errors = [abs(count - rows[name]) for name, count in table.rows]
        inside += sum(error <= table.error for error in errors)
        total += len(errors)
        joint += max(errors) <= table.joint_error
    assert inside / total >= 0.95
    assert joint / 200 >= 0.93


# -- consistency ----------------------------------------------------------------------------


@settings(deadline=None)
@given(ROWS, st.integers(0, 300))
def test_nearest_rows_are_the_projection(rows: tuple[int, ...], total: int) -> None:
    nearest = nearest_rows(rows, total)
    assert sum(nearest) == total
    assert min(nearest) >= 0
    # The condition of optimality: rows above zero differ by one amount, and rows at zero by no less.
    moved = [row - near for row, near in zip(rows, nearest, strict=True)]
    above = {one for one, near in zip(moved, nearest, strict=True) if near > 0}
    assert len(above) <= 1
    assert all(one <= min(above, default=one) for one, near in zip(moved, nearest, strict=True) if near == 0)
    whole = whole_rows(nearest, total)
    assert sum(whole) == total
    assert all(one >= 0 and abs(one - near) < 1 for one, near in zip(whole, nearest, strict=True))


@settings(max_examples=30, deadline=None)
@given(st.integers(-20, 200), st.lists(ROWS, min_size=1, max_size=3))
def test_the_common_total_has_the_least_squares(stated: int, tables: list[tuple[int, ...]]) -> None:
    weighted = [Weighted(rows, Fraction(1, 1 + number)) for number, rows in enumerate(tables)]

    def cost(total: int) -> Fraction:
        squares = Fraction(2) * (stated - total) ** 2
        for one in weighted:
            near = nearest_rows(one.rows, total)
            squares += one.weight * sum((a - b) ** 2 for a, b in zip(one.rows, near, strict=True))
        return squares

    found = common_total(stated, Fraction(2), weighted)
    assert cost(found) == min(
        cost(total) for total in (*range(max(0, found - 12), found + 12), 0, 3 * found + 50)
    )


@pytest.mark.card
@pytest.mark.parametrize("patients", [0, 3, 100, 1000])
def test_totals_are_equal_and_no_figure_is_negative(patients: int) -> None:
    card = made(patients)
    for table in card.tables:
        figures = [count for _, count in table.rows]
        assert min(figures) >= 0
        if table.per_patient == 1:
            assert sum(figures) == card.patients
        else:
            assert max(figures) <= card.patients


# -- what the card depends on ---------------------------------------------------------------


@pytest.mark.card
def test_the_same_key_version_and_counts_give_the_same_bytes() -> None:
    assert card_markdown(made()) == card_markdown(made())
    assert made().digest == made().digest


@pytest.mark.card
def test_noise_is_independent_for_every_key_version_epsilon_and_dataset() -> None:
    exact = counted(1000)
    base = made()
    more = make_card(exact + counted(1), "chest-ct", "1.0", 1.0, KEY)
    for other in (made(version="1.1"), made(key=bytes(32)), made(epsilon=0.9)):
        assert other.tables != base.tables
    # One patient more changes far more than one figure by one: otherwise the noise would be the same.
    changed = sum(
        abs(one - two)
        for here, there in zip(base.tables, more.tables, strict=True)
        for (_, one), (_, two) in zip(here.rows, there.rows, strict=True)
    )
    assert changed > 50


@pytest.mark.card
def test_the_tables_share_epsilon() -> None:
    card = made()
    assert sum(table.epsilon for table in card.tables) + card.tables[0].epsilon == pytest.approx(1.0)
    assert card.epsilon == "1.0"


@pytest.mark.card
def test_a_key_is_not_needed_to_read_a_card_and_is_not_in_it() -> None:
    assert KEY.hex() not in card_markdown(made())


# -- what is counted ------------------------------------------------------------------------


def test_a_patient_counts_at_most_as_often_as_stated() -> None:
    counter = CardCounter(SHAPES)
    found = {AGE: {"unknown"}, SEX: {"unknown"}, "images": {"1"}, "region": {"head"}}
    counter.add({**found, MODALITY: {"CT", "MR", "US", "PT", "CR"}})
    rows = dict(zip(SHAPES[3].categories, counter.counts().rows[3], strict=True))
    assert sum(rows.values()) == SHAPES[3].per_patient == 2
    assert {name for name, count in rows.items() if count} == {"CR", "CT"}


def test_counts_of_sites_are_added_and_other_tables_refused() -> None:
    both = counted(30) + counted(12)
    assert both.patients == 42
    assert all(sum(rows) == 42 for rows, shape in zip(both.rows, SHAPES, strict=True) if shape.partition)
    with pytest.raises(UsageError):
        counted(3) + CardCounter(SHAPES[:2]).counts()


@pytest.mark.parametrize(
    ("years", "group"),
    [
        (None, "unknown"),
        (0, "0 to 9"),
        (9, "0 to 9"),
        (10, "10 to 19"),
        (90, "90 and over"),
        (120, "90 and over"),
    ],
)
def test_ages_over_89_are_one_group(years: int | None, group: str) -> None:
    assert age_category(SECTION, years) == group


def test_contradicting_sexes_are_unknown() -> None:
    assert sex_category({"F", ""}) == "female"
    assert sex_category({"F", "M"}) == "unknown"
    assert sex_category({"male"}) == "unknown"


def test_counts_are_not_shown_by_repr() -> None:
    assert "30" not in repr(counted(30))


@pytest.mark.card
def test_opendp_opens_no_connection() -> None:
    """In a new process: every call that could connect is forbidden."""
    code = (
        "import socket, urllib.request\n"
        "def no(*_, **__): raise SystemExit('a connection')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = no\n"
        "from fractions import Fraction\n"
        "from medsanitize.release.dataset_card.noisy_tables import _stated_loss\n"
        "print(_stated_loss(2.0, 1))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0.5"
