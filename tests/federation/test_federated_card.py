"""The job of a joint dataset card: budgets of the sites, sums, documents, refusals."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.federation.training.card import CARD, CROISSANT, FACTS, CardSite, FederatedCard
from medsanitize.federation.training.card_terms import check_card
from medsanitize.federation.training.invitation import Invitation
from medsanitize.federation.training.statement import statement_of
from medsanitize.policies.dataset_card import CardSection
from medsanitize.policies.federation import Job
from medsanitize.release.dataset_card.budget import CardBudget
from medsanitize.release.dataset_card.tables import REGIONS, CardCounts, card_shapes

pytestmark = [pytest.mark.federated, pytest.mark.card]
SITES = ("north", "south", "west")
SECTION = CardSection(epsilon=1.5)
PLACE = Path("folder")


def job(salt: str = "1", **changed: Any) -> FederatedCard:
    terms = {"name": "region", "model": "card", "recipe": "laplace", "kind": "", "privacy": None, "least": 3}
    terms |= {
        "card": SECTION.model_dump(mode="json"),
        "aggregation": "secure",
        "most_images": 1000,
        **changed,
    }
    return FederatedCard(Invitation(terms, dict.fromkeys(SITES, "0" * 64), "1" * 64, "2" * 64, salt, ""))


def counts_of(patients: int) -> CardCounts:
    shapes = card_shapes(SECTION, REGIONS)
    return CardCounts(shapes, patients, tuple((patients, *[0] * (len(one.categories) - 1)) for one in shapes))


def site(folder: Path, name: str, ceiling: float = 3.0) -> CardSite:
    return CardSite(
        counts_of(200), name.encode().ljust(32, b"-"), CardBudget(folder / f"{name}.budget"), ceiling
    )


def finished(folder: Path, one: FederatedCard) -> Mapping[str, Any]:
    start = one.start()
    total = np.zeros(one.length(start), np.uint64)
    for name in SITES:
        total += one.contribution(start, site(folder, name), 0)
    state = one.following(start, total)
    assert not one.asked(state)
    return state


def test_server_and_sites_write_the_same_card(tmp_path: Path) -> None:
    one = job()
    state = finished(tmp_path, one)
    statement = statement_of(one.invitation)
    digests = {one.save(state, tmp_path / name, statement) for name in ("server", *SITES)}
    assert len(digests) == 1
    facts = json.loads((tmp_path / "server" / FACTS).read_text())
    assert facts["sites"] == 3
    assert abs(facts["patients"] - 600) <= 2 * facts["error"]
    assert "epsilon 1.5 at delta 0 for each patient of a site" in statement
    assert statement in (tmp_path / "server" / CARD).read_text()


def test_other_programs_read_the_card(tmp_path: Path) -> None:
    one = job()
    one.save(finished(tmp_path, one), tmp_path / "out", "Statement.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlcroissant

        dataset = mlcroissant.Dataset(jsonld=tmp_path / "out" / CROISSANT)
        rows = list(dataset.records("dataset-card"))
    assert not dataset.metadata.ctx.issues.errors
    assert rows[0]["dataset-card/category"] in (b"all", "all")
    assert len(rows) == 1 + sum(len(shape.categories) for shape in one.shapes)


def test_every_site_spends_from_its_own_ledger(tmp_path: Path) -> None:
    finished(tmp_path, job())
    for name in SITES:
        (spent,) = CardBudget(tmp_path / f"{name}.budget").entries()
        assert (spent.name, spent.epsilon, spent.published) == ("region", "1.5", True)
    # The same job again is the same query; another job is another one.
    finished(tmp_path, job())
    assert float(CardBudget(tmp_path / "north.budget").spent()) == 1.5
    finished(tmp_path, job(salt="2"))
    assert float(CardBudget(tmp_path / "north.budget").spent()) == 3.0


def test_a_site_beyond_its_ceiling_gives_nothing(tmp_path: Path) -> None:
    one = job()
    with pytest.raises(UsageError, match="more than its ceiling, epsilon 1"):
        one.contribution(one.start(), site(tmp_path, "north", ceiling=1.0), 0)
    assert CardBudget(tmp_path / "north.budget").entries() == ()


def test_a_site_gives_its_counts_once(tmp_path: Path) -> None:
    # Two sums of different sites would differ by the counts of one, with its own share of the noise only.
    one = job()
    one.contribution(one.start(), site(tmp_path, "north"), 0)
    with pytest.raises(IntegrityError, match="second sum"):
        one.contribution(one.start(), site(tmp_path, "north"), 1)


def test_counts_of_other_tables_are_refused(tmp_path: Path) -> None:
    one = job(card=SECTION.model_copy(update={"ages": (0, 18)}).model_dump(mode="json"))
    with pytest.raises(UsageError, match="others than those of the card"):
        one.contribution(one.start(), site(tmp_path, "north"), 0)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"model": "retrieval"}, "no other job does"),
        ({"card": None}, "has the section card"),
        ({"recipe": "moments"}, "recipe laplace"),
        ({"aggregation": "plain"}, "the noise of one site is not enough"),
    ],
)
def test_a_job_without_its_protection_is_refused(changed: Mapping[str, Any], why: str) -> None:
    facts = {
        "version": 1, "name": "c", "party": PLACE, "sites": SITES, "model": "card", "recipe": "laplace",
        "card": SECTION, "output": PLACE, "state": PLACE, **changed,
    }  # fmt: skip
    with pytest.raises(UsageError, match=why):
        check_card(Job.model_validate(facts))
