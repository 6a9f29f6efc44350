"""The command attack embeddings: masked embeddings are recovered, blinded items of a real session are not."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.federation.parties.identity import create_party
from medsanitize.federation.psi.install import PSI
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.pipeline.jobs.recorded_overlap import record_overlap
from medsanitize.verifiers.reid.calibration import clopper_pearson
from medsanitize.verifiers.reid.recovery.schemes import ANSWERING, ASKING, attack_points

from tests.helpers.hospitals import installed_library

pytestmark = pytest.mark.verify

PATIENTS = 84


def call(*arguments: object) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(cli, ["attack", "embeddings", *map(str, arguments), "--json"])
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chests(tmp_path_factory.mktemp("cohort") / "c", range(PATIENTS), visits=(1, 1), size=64)


def on(table: Path) -> tuple[object, ...]:
    return ("--images", table.parent, "--labels", table, "--kind", "radiograph")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of private comparisons in the folder of a party."""
    party = tmp_path_factory.mktemp("party") / "north"
    create_party(party, "north")
    return installed_library(party)


def test_flake_is_beaten_by_known_rows_and_by_one_party(table: Path) -> None:
    code, told = call("--scheme", "flake", *on(table))
    by_known = {(one["attacker"], one["known"]): one for one in told["attacks"]}
    alone = [by_known["aggregator", known]["share"] for known in (0, 10, 20)]
    colluding = by_known["aggregator with one party", told["embeddings"] // 3]
    assert (code, told["embeddings"], told["others"], told["dimension"]) == (0, 63, 21, 128)
    assert alone == sorted(alone)
    assert by_known["aggregator", 20]["lower"] > 10 * by_known["aggregator", 20]["chance"]
    assert (colluding["share"], colluding["relative_error"] < 1e-9) == (1, True)
    assert "6.3" in by_known["aggregator", 10]["claim"]


def test_the_table_names_schemes_attackers_and_no_image(table: Path) -> None:
    arguments = ["attack", "embeddings", "--scheme", "masks", "--scheme", "ckks-scores", *map(str, on(table))]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0
    assert "aggregator with one party  21     100.0 %" in done.stdout
    assert "Encryption of the scores: " in done.stdout
    assert ".png" not in done.output


@pytest.mark.party
def test_a_private_comparison_gives_neither_side_more_than_chance(library: Path, table: Path) -> None:
    code, told = call("--scheme", "private-overlap", "--party", library.parent, *on(table))
    attackers = {one["attacker"] for one in told["attacks"]}
    assert (code, told["broken_comparisons"], attackers) == (0, 0, {ASKING, ANSWERING})


@pytest.mark.party
def test_the_judge_of_a_recorded_session_knows_every_item(library: Path) -> None:
    """Sessions have new keys, so that no point occurs in two of them."""
    items = [sha256(bytes([number])).digest() for number in range(40)]
    first, second = record_overlap(items, library), record_overlap(items, library)
    for one in (first, second):
        assert sorted(one.asking_truth) == sorted(one.answering_truth) == list(range(40))
        # The order of the message says nothing about the items.
        assert list(one.seen_by_asking) == sorted(one.seen_by_asking)
    seen = [*first.seen_by_asking, *first.seen_by_answering]
    assert not set(seen) & {*second.seen_by_asking, *second.seen_by_answering}


@pytest.mark.party
def test_random_embeddings_behind_a_recorded_session_are_not_recovered(library: Path) -> None:
    random = np.random.default_rng(1)
    rows, others = random.standard_normal((300, 64)), random.standard_normal((100, 64))
    recorded = record_overlap([sha256(row.tobytes()).digest() for row in rows], library)
    for seen, truth, attacker in (
        (recorded.seen_by_asking, recorded.asking_truth, ASKING),
        (recorded.seen_by_answering, recorded.answering_truth, ANSWERING),
    ):
        found = attack_points(seen, rows[list(truth)], others, attacker)
        assert not any(one.is_above_chance(8) for one in found)


@pytest.mark.slow
@pytest.mark.party
def test_many_sessions_together_give_neither_side_more_than_chance(library: Path) -> None:
    random = np.random.default_rng(2)
    rows, others = random.standard_normal((180, 64)), random.standard_normal((100, 64))
    items = [sha256(row.tobytes()).digest() for row in rows]
    found = []
    for _ in range(30):
        recorded = record_overlap(items, library)
        found += attack_points(recorded.seen_by_asking, rows[list(recorded.asking_truth)], others, ASKING)
        order = list(recorded.answering_truth)
        found += attack_points(recorded.seen_by_answering, rows[order], others, ANSWERING)
    hits, tries = sum(one.recovered for one in found), sum(one.rows for one in found)
    lower, upper = clopper_pearson(hits, tries, 0.9999)
    assert lower < 1 / len(rows) < upper


def test_the_private_comparison_needs_its_library(table: Path, tmp_path: Path) -> None:
    code, told = call("--scheme", "private-overlap", *on(table))
    assert (code, "--party" in told["message"]) == (2, True)
    code, told = call("--scheme", "private-overlap", "--party", tmp_path, *on(table))
    assert (code, "not installed" in told["message"]) == (2, True)
    assert not PSI.of(tmp_path).exists()


def test_images_and_table_belong_together(table: Path) -> None:
    code, told = call("--images", table.parent)
    assert (code, "belong together" in told["message"]) == (2, True)


def test_too_few_images_are_refused(tmp_path: Path) -> None:
    table = write_chests(tmp_path / "c", range(12), visits=(1, 1), size=64)
    code, told = call("--scheme", "flake", *on(table))
    assert (code, "too few images" in told["message"]) == (2, True)
