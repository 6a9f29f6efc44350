"""The dataset card of real runs: counted from headers and tables, published, and bounded by the ceiling."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.pipeline.evidence import summary_from_json
from medsanitize.pipeline.resume import open_for_reading
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import card_budget
from medsanitize.pipeline.stages.dataset_card import count_patients
from medsanitize.pipeline.state.stage_results import CARD, PUBLICATION
from medsanitize.policies.model import Policy
from medsanitize.release.dataset_card.tables import CardCounts

from tests.helpers.hospital import prepare, write_ct

pytestmark = pytest.mark.card

PATIENTS = 12
FINDINGS = "{table: findings, column: finding, values: [nodule, effusion], per_patient: 2}"
TABLE = "[{name: findings, file: ./findings.csv, patient: id}]"


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve patients with one to three CT slices each, a table of findings, and a folder for each run."""
    base = tmp_path_factory.mktemp("hospital")
    for number in range(PATIENTS):
        for image in range(1 + number % 3):
            write_ct(
                base / f"export/p{number}/i{image}",
                100 * number + image,
                f"MRN77340{number:02d}",
                number,
                PatientSex="FM"[number % 2],
                PatientAge="",
                PatientBirthDate=f"{1925 + 6 * number}0601",
                StudyDate="20200531",
                BodyPartExamined="CHEST" if number % 4 else "LUNG AND LIVER",
            )
    rows = [f"MRN77340{number:02d},{'nodule' if number % 2 else 'a rare disease'}" for number in range(10)]
    (base / "findings.csv").write_text("\n".join(["id,finding", *rows, "MRN7734000,effusion", ""]))
    return base


def policy_of(hospital: Path, version: str, card: str = "{epsilon: 1}", **sections: str) -> Policy:
    mode = sections.pop("mode", "pseudonymous")
    if mode == "anonymous":
        sections["keys"] = "{scope: release}"
    return prepare(
        hospital,
        release=f'{{name: chest-ct, version: "{version}", mode: {mode}, card: {card}}}',
        output=f"./release-{version}",
        **sections,
    )


def exact(policy: Policy) -> CardCounts:
    state = open_for_reading(policy)
    try:
        assert policy.release.card is not None
        return count_patients(state, policy.release.card, policy.tables)
    finally:
        state.close()


def rows_of(counts: CardCounts, name: str) -> dict[str, int]:
    number = [shape.name for shape in counts.shapes].index(name)
    rows = zip(counts.shapes[number].categories, counts.rows[number], strict=True)
    return {category: count for category, count in rows if count}


def published(policy: Policy) -> Policy:
    result = run(policy, Options(workers=1))
    assert result.ending == "published", result
    return policy


@pytest.fixture(scope="module")
def first(hospital: Path) -> Policy:
    return published(policy_of(hospital, "1.0", f"{{epsilon: 1, findings: [{FINDINGS}]}}", tables=TABLE))


def test_patients_are_counted_from_headers_and_tables(first: Policy) -> None:
    counts = exact(first)
    assert counts.patients == PATIENTS
    assert rows_of(counts, "sex") == {"female": 6, "male": 6}
    assert rows_of(counts, "images") == {"1": 4, "2 to 9": 8}
    assert rows_of(counts, "modality") == {"CT": PATIENTS}
    assert rows_of(counts, "region") == {"chest": 9, "other or unknown": 3}
    # Born on 1 June 1925 and every six years later; the day before the birthday, in 2020.
    ages = {"20 to 29": 1, "30 to 39": 1, "40 to 49": 2, "50 to 59": 2, "60 to 69": 1, "70 to 79": 2}
    assert rows_of(counts, "age") == {**ages, "80 to 89": 2, "90 and over": 1}
    findings = {"nodule": 5, "effusion": 1, "other value": 5, "no entry": 2}
    assert rows_of(counts, "findings-1") == findings


def test_the_card_is_published_without_exact_figures(first: Policy) -> None:
    release = Path(str(first.output))
    text = (release / "dataset-card.md").read_text()
    croissant = json.loads((release / "croissant.json").read_bytes())
    report = (release / "report.html").read_text()
    assert "epsilon 1.0, delta 0" in text
    assert "dataset-card.md" in (release / "SHA256SUMS").read_text()
    assert "rare disease" not in text
    assert "CT" not in croissant["keywords"]
    assert "80 to 89" not in report
    assert "epsilon 1.0 for one patient" in report
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlcroissant

        dataset = mlcroissant.Dataset(jsonld=release / "croissant.json")
        records = list(dataset.records("dataset-card"))
    assert not dataset.metadata.ctx.issues.errors
    stated = {(one["dataset-card/table"], one["dataset-card/category"]): one for one in records}
    assert len(stated) == len(records)
    for (table, category), one in stated.items():
        assert isinstance(one["dataset-card/patients"], int), (table, category)
    ages = sum(one["dataset-card/patients"] for (table, _), one in stated.items() if table in (b"age", "age"))
    assert f"**Patients: {ages:,}**" in text


def test_the_holder_prints_the_same_card_and_spends_nothing(first: Policy, hospital: Path) -> None:
    policy = hospital / "first.yaml"
    policy_of(hospital, "1.0", f"{{epsilon: 1, findings: [{FINDINGS}]}}", tables=TABLE)
    policy.write_text((hospital / "policy.yaml").read_text())
    before = card_budget(first).spent()
    result = CliRunner().invoke(cli, ["release", "card", str(policy)])
    assert result.exit_code == 0, result.output
    assert result.output == (Path(str(first.output)) / "dataset-card.md").read_text()
    assert card_budget(first).spent() == before
    shown = CliRunner().invoke(cli, ["release", "card", str(first.output)])
    assert shown.output == result.output


def test_versions_spend_from_one_budget_and_the_ceiling_refuses(first: Policy, hospital: Path) -> None:
    spent = card_budget(first).spent()
    second = published(policy_of(hospital, "1.1", "{epsilon: 0.5}"))
    assert card_budget(second).spent() - spent == 0.5
    third = policy_of(hospital, "1.2", "{epsilon: 2}")
    result = run(third, Options(workers=1))
    gate = next(one for one in result.gates if one.name == "dataset card")
    assert (result.ending, int(result.exit_code), gate.result) == ("refused", 3, "failed")
    assert "release.card.epsilon" in gate.detail
    assert not (Path(str(third.output)) / "RELEASE.json").exists()
    assert card_budget(third).spent() - spent == 0.5
    second_text = hospital / "second.yaml"
    policy_of(hospital, "1.1", "{epsilon: 0.5}")
    second_text.write_text((hospital / "policy.yaml").read_text())
    asked = CliRunner().invoke(cli, ["release", "card", str(second_text), "--epsilon", "2", "--json"])
    assert asked.exit_code == 3
    assert json.loads(asked.output)["card"] is None
    allowed = CliRunner().invoke(cli, ["release", "card", str(second_text), "--epsilon", "0.25", "--json"])
    assert allowed.exit_code == 0, allowed.output
    assert json.loads(allowed.output)["spent"] == float(spent) + 0.75


def test_the_same_key_and_version_give_the_same_bytes(first: Policy, hospital: Path, tmp_path: Path) -> None:
    again = published(
        policy_of(
            hospital,
            "1.0",
            f"{{epsilon: 1, findings: [{FINDINGS}]}}",
            tables=TABLE,
            state=str(tmp_path / "state"),
        ).model_copy(update={"output": tmp_path / "release"})
    )
    for name in ("dataset-card.md", "croissant.json"):
        assert (Path(str(first.output)) / name).read_bytes() == (Path(str(again.output)) / name).read_bytes()


def test_an_interrupted_publication_has_the_card_that_was_approved(first: Policy) -> None:
    state = open_for_reading(first)
    try:
        publication, card = PUBLICATION.load(state), CARD.load(state)
    finally:
        state.close()
    assert publication is not None
    assert card is not None
    assert summary_from_json(publication.summary, first).card == card


def test_an_anonymous_run_publishes_a_card_and_the_command_refuses(hospital: Path) -> None:
    policy = published(policy_of(hospital, "2.0", "{epsilon: 0.1}", mode="anonymous"))
    assert (Path(str(policy.output)) / "dataset-card.md").is_file()
    result = CliRunner().invoke(cli, ["release", "card", str(hospital / "policy.yaml")])
    assert result.exit_code == 2


def test_the_holder_alone_may_choose_epsilon(first: Policy) -> None:
    result = CliRunner().invoke(cli, ["release", "card", str(first.output), "--epsilon", "1"])
    assert result.exit_code == 2


@pytest.mark.federated
def test_a_site_of_a_joint_card_counts_its_release_and_spends_from_its_ledger(
    first: Policy, hospital: Path
) -> None:
    """Counts and ledger of a joint card are those of the release's own cards."""
    from medsanitize.federation.parties.identity import create_party, open_party
    from medsanitize.federation.training.invitation import Invitation
    from medsanitize.federation.training.site import Site
    from medsanitize.pipeline.jobs.join_card import card_site
    from medsanitize.policies.federation import Accepted, SitePolicy

    assert first.release.card is not None
    # Other tests have written other policies to the same path.
    policy_of(hospital, "1.0", f"{{epsilon: 1, findings: [{FINDINGS}]}}", tables=TABLE)
    identity = create_party(hospital / "party", "north")
    accept = Accepted(recipes=("card/laplace",), sites=("south", "west"))
    place = hospital / "federation"
    policy = SitePolicy(
        version=1, party=hospital / "party", server="server", address="https://127.0.0.1:1", state=place,
        output=place / "card", accept=accept, columns={}, release=hospital / "policy.yaml",
    )  # fmt: skip
    terms = {"name": "joint", "card": first.release.card.model_dump(mode="json"), "least": 3}
    invitation = Invitation(terms, dict.fromkeys("abc", "0"), "1", "2", "3", "")
    site = Site(policy, open_party(hospital / "party"), identity, {}, invitation)
    site.folder.mkdir(parents=True)
    found = card_site(site)()
    assert (found.counts, found.ceiling) == (exact(first), 3)
    assert found.budget == card_budget(first)
    assert len(found.key) == 32
