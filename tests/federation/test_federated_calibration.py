"""Federated calibration on files: the sums of three sites give what the patients of all together give."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.federation.parties.identity import LocalParty, create_party, open_party
from medsanitize.federation.training.calibrated_models import OpenedModels, check_calibration
from medsanitize.federation.training.calibration import FILE, FederatedCalibration
from medsanitize.federation.training.calibration_site import CalibrationSite
from medsanitize.federation.training.invitation import Invitation
from medsanitize.generators.privacy_gate.calibration_scores import compare_everything, score_controls
from medsanitize.generators.privacy_gate.confidence_bounds import lowest_scores, miss_rate, threshold
from medsanitize.generators.privacy_gate.gate import PrivacyGate, calibrate_gate
from medsanitize.generators.privacy_gate.gate_embeddings import (
    PairedEmbeddings,
    Verifiers,
    joined,
    preprocess_images,
)
from medsanitize.generators.privacy_gate.pooled_controls import read_pooled_controls
from medsanitize.generators.privacy_gate.positive_controls import control_kinds
from medsanitize.generators.privacy_gate.splits import Split
from medsanitize.generators.privacy_gate.statement import undrawn
from medsanitize.pipeline.demo.federation import prepare_federation
from medsanitize.pipeline.jobs.run_federation import run_on_this_machine
from medsanitize.pipeline.runtime.calibrations import read_gate_calibration, read_given_calibration
from medsanitize.policies.federation import Job
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.evaluation.pairwise_auc import sum_pairs
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import Labels, read_labels
from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval
from medsanitize.verifiers.reid.overlap.score_images import calibrating, score_images
from medsanitize.verifiers.reid.training.calibration_counts import (
    calibration_of,
    count_scores,
    distance_grid,
    lowered,
    raised,
    score_grid,
)
from numpy.typing import NDArray
from PIL import Image

from tests.helpers.synthetic_images import CoarseModel, FakeGenerator, person, simple_controls

pytestmark = [pytest.mark.federated, pytest.mark.verify]
SITES = ("north", "south", "west")
PEOPLE = 14
PLACE = Path("folder")
ON = {"generator": "f" * 64, "retrieval": "c" * 64, "verification": "c" * 64}
QUIET = (NoProgress(), Cancellation())


@pytest.fixture(scope="module", autouse=True)
def _controls() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        simple_controls(patch)
        yield


@dataclass(frozen=True)
class Federation:
    """Three sites with files, and what they compute."""

    folder: Path
    party: LocalParty
    tables: Mapping[str, Labels]

    def job(self, recipe: str) -> FederatedCalibration:
        models = {**ON, "generator": ON["generator"] if recipe == "gate" else None}
        terms = {"model": "calibration", "recipe": recipe, "kind": "radiograph", "models": models}
        terms |= {"classes": None, "strength": 0.2, "most_images": 1000, "least": 3, "aggregation": "secure"}
        sites = dict.fromkeys(SITES, "0" * 64)
        return FederatedCalibration(Invitation(terms, sites, "1" * 64, "2" * 64, "3", ""), self.party)

    def site(
        self, name: str, job: FederatedCalibration, learned: frozenset[str] = frozenset()
    ) -> CalibrationSite:
        generator = replace(FakeGenerator(), classes=()) if job.invitation.terms["recipe"] == "gate" else None
        models = OpenedModels(CoarseModel(), CoarseModel(), generator, learned)
        return CalibrationSite(self.tables[name], job.invitation.terms, {}, models, *QUIET)

    def calibrated(self, recipe: str, output: Path) -> Path:
        """The file that follows from the sums of all sites."""
        job = self.job(recipe)
        start = job.start()
        total = np.zeros(job.length(start), np.uint64)
        for name in SITES:
            total += job.contribution(start, self.site(name, job), 0)
        state = job.following(start, total)
        assert not job.asked(state)
        job.save(state, output, "Statement.")
        return output / FILE


def table_of(folder: Path, names: Mapping[str, int]) -> Labels:
    """People of each name, from a number on, with two visits each."""
    rows = []
    for name, first in names.items():
        for number in range(first, first + PEOPLE):
            for visit in range(2):
                path = folder / name / f"{number}-{visit}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(person([5, number], visit)).save(path)
                rows.append((f"{name}/{path.name}", f"{name}{number}", "radiograph"))
    table = folder / f"{'-'.join(names)}.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("file", "patient_id", "kind"), *rows])
    return read_labels(table, folder)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    folder = tmp_path_factory.mktemp("calibration")
    create_party(folder / "party", "north")
    begins = {name: 100 * place for place, name in enumerate(SITES)}
    tables = {name: table_of(folder, {name: begins[name]}) for name in SITES}
    return Federation(folder, open_party(folder / "party"), {**tables, "all": table_of(folder, begins)})


def test_a_site_gives_its_counts_once(federation: Federation) -> None:
    job = federation.job("matcher")
    with pytest.raises(IntegrityError, match="second sum"):
        job.contribution(job.start(), federation.site("north", job), 1)


@pytest.fixture(scope="module")
def matcher(federation: Federation) -> Path:
    return federation.calibrated("matcher", federation.folder / "matcher")


@pytest.fixture(scope="module")
def gate_file(federation: Federation) -> Path:
    return federation.calibrated("gate", federation.folder / "gate")


def scores_of(labels: Labels) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Lowest score within each patient, and the highest of every two, from all images together."""
    scores, patients = calibrating(score_images(labels, CoarseModel(), CoarseModel(), *QUIET))
    people = int(patients.max()) + 1
    own = np.array([scores[np.ix_(patients == one, patients == one)].min() for one in range(people)])
    between = np.array(
        [
            [scores[np.ix_(patients == one, patients == other)].max() for other in range(people)]
            for one in range(people)
        ]
    )
    return own.astype(float), between.astype(float), patients


def test_false_non_match_rates_are_those_of_all_patients_together(
    federation: Federation, matcher: Path
) -> None:
    grid = score_grid()
    own, between, _ = scores_of(federation.tables["all"])
    found = read_given_calibration(matcher).file.calibration
    pooled = np.sort(grid[lowered(own, grid)])
    assert found.genuine == tuple(pooled.tolist())
    assert found.patients == len(SITES) * PEOPLE
    # Pairs of patients of one hospital: nobody compares those of two.
    first, second = np.triu_indices(len(own), 1)
    same = first // PEOPLE == second // PEOPLE
    expected = np.sort(grid[raised(between[first, second][same], grid)])
    assert found.pairs == len(expected)
    assert dict(found.curve) == {float(score): int((expected >= score).sum()) for score in expected}
    # Every hospital pairs its own patients, each once.
    assert len(found.disjoint) == len(SITES) * (PEOPLE // 2)
    for target in (0.05, 0.2):
        point, own_point = found.for_false_non_match(target), replace(found, genuine=tuple(pooled.tolist()))
        assert point == own_point.for_false_non_match(target)
    # Rounding never makes a rate better than it is.
    assert (pooled <= np.sort(own)).all()


def raw_controls(federation: Federation, name: str) -> Mapping[str, NDArray[np.float64]]:
    site = federation.site(name, federation.job("gate"))
    split = site._split(())
    verifiers = Verifiers(CoarseModel(), CoarseModel(), *QUIET)
    squares = preprocess_images(split.pictures, 32, "", *QUIET)
    seen = verifiers.see(squares, "")
    generator = replace(FakeGenerator(), classes=())
    return score_controls(squares, split, seen, generator, 0.2, verifiers, compare_everything)


def test_threshold_and_bound_of_the_gate_are_those_of_all_patients_together(
    federation: Federation, gate_file: Path
) -> None:
    grid = score_grid()
    pooled = np.concatenate([lowest_scores(raw_controls(federation, name)) for name in SITES])
    expected = threshold(grid[lowered(pooled, grid)], 0.975)
    found = read_gate_calibration(gate_file)
    assert threshold(found.lowest, 0.975) == expected
    assert expected.patients == len(SITES) * PEOPLE
    assert expected.missed == miss_rate(len(SITES) * PEOPLE, 0.975)
    assert found.lowest.tolist() == np.sort(grid[lowered(pooled, grid)]).tolist()
    assert pooled.min() - 2**-10 < expected.value <= pooled.min()


def split_of(numbers: range, visits: int = 1) -> Split:
    from medsanitize.generators.diffusion.preprocess import to_image_array

    made = [to_image_array(person([5, number], visit)) for number in numbers for visit in range(visits)]
    return Split(made, np.repeat(np.array(numbers, np.int64), visits), np.zeros(len(made), np.int64))


def gate_of(calibration: Split, pooled: Any, holdout: Split | None = None) -> PrivacyGate:
    generator = replace(FakeGenerator(), classes=())
    return calibrate_gate(
        split_of(range(500, 520)), holdout or split_of(range(600, 620)), calibration, generator,
        CoarseModel(), CoarseModel(), images=10, progress=QUIET[0], cancellation=QUIET[1], pooled=pooled,
    )  # fmt: skip


def test_a_gate_takes_the_bound_of_all_hospitals(gate_file: Path) -> None:
    pooled = read_gate_calibration(gate_file)
    alone = gate_of(split_of(range(PEOPLE), 2), None)
    together = gate_of(split_of(range(PEOPLE), 2), pooled)
    assert alone.threshold.patients == PEOPLE
    assert together.threshold.patients == len(SITES) * PEOPLE
    assert together.threshold.value == float(pooled.lowest[0])
    assert together.threshold.missed < alone.threshold.missed
    verdict = together.judge(FakeGenerator().sample([0] * 4, range(4))).verdict
    assert verdict.threshold.patients == len(SITES) * PEOPLE
    said = json.loads(verdict.to_json())["subject"]["pooled"]
    assert (said["sites"], said["patients"]) == (3, len(SITES) * PEOPLE)
    lines = " ".join(undrawn(together.subject, together.needed))
    assert "42 calibration patients of 3 hospitals" in lines
    assert "signed by north (fingerprint" in lines
    assert "It assumes that the training patients are like these" in lines


def test_own_copies_that_score_lower_lower_the_threshold(gate_file: Path) -> None:
    pooled = read_gate_calibration(gate_file)
    own = gate_of(split_of(range(800, 803)), None)
    higher = replace(pooled, lowest=np.sort(np.maximum(pooled.lowest, own.threshold.value + 0.01)))
    found = gate_of(split_of(range(800, 803)), higher)
    assert found.threshold.value == own.threshold.value
    assert found.threshold.patients == len(pooled.lowest)


def test_scores_of_other_images_are_not_quoted(gate_file: Path) -> None:
    """Patients who all look alike: strangers score higher than those of the hospitals."""
    from medsanitize.generators.diffusion.preprocess import to_image_array

    alike = [
        to_image_array((person([5, 1], 0) // 8 * 7 + person([5, n], 0) // 8).astype(np.uint8))
        for n in range(20)
    ]
    holdout = Split(alike, np.arange(900, 920), np.zeros(20, np.int64))
    found = gate_of(split_of(range(2)), read_gate_calibration(gate_file), holdout)
    assert found.threshold.patients == 2
    assert found.subject.pooled is None
    assert "The federated calibration is not used, since different patients" in " ".join(
        undrawn(found.subject, found.needed)
    )


def test_too_few_strangers_quote_nothing(gate_file: Path) -> None:
    found = gate_of(split_of(range(2)), read_gate_calibration(gate_file), split_of(range(600, 602)))
    assert "pairs of patients known apart" in found.subject.unquoted


def test_another_generator_or_strength_is_refused(gate_file: Path) -> None:
    pooled = read_gate_calibration(gate_file)
    other = replace(pooled, settings=replace(pooled.settings, strength=0.3))
    with pytest.raises(UsageError, match="another strength"):
        gate_of(split_of(range(2)), other)


def test_a_file_that_was_changed_or_lost_its_signature_is_refused(matcher: Path, tmp_path: Path) -> None:
    text, signature = matcher.read_text(), matcher.with_name(f"{FILE}.sig").read_bytes()
    given = read_given_calibration(matcher)
    assert given.signer.startswith("north (fingerprint")
    assert "42 patients of 3 hospitals" in given.statement
    copy = tmp_path / FILE
    copy.write_text(text)
    with pytest.raises(UsageError, match="signature of a federated calibration is missing"):
        read_given_calibration(copy)
    copy.with_name(f"{FILE}.sig").write_bytes(signature)
    copy.write_text(text.replace('"sites": 3', '"sites": 9'))
    with pytest.raises(IntegrityError, match="not of this file"):
        read_given_calibration(copy)


@pytest.mark.parametrize("lowest", [[], [[]], [[0.5, 10**13]], [[0.5, 10**30]]])
def test_a_file_of_impossible_counts_is_damaged(lowest: list[Any]) -> None:
    kinds = dict.fromkeys(control_kinds(), lowest)
    facts = {"lowest": lowest, "kinds": kinds, "format": 1, "strangers": {}, "settings": {}}
    with pytest.raises(IntegrityError, match="damaged"):
        read_pooled_controls(json.dumps({**facts, "federation": {"sites": 3}}), "")


@pytest.mark.parametrize("impossible", [-1.0, 1e13])
def test_sums_that_are_no_counts_are_refused(impossible: float) -> None:
    sums = count_scores(np.full(2, 0.9), np.full((2, 2), 0.5), score_grid())
    sums["scores.genuine"][7] = impossible
    with pytest.raises(UsageError, match="no counts of patients"):
        calibration_of(sums, score_grid())


def test_embeddings_of_a_model_that_needs_no_blurred_images_are_joined() -> None:
    one, other = (PairedEmbeddings(*(np.ones((rows, 2), np.float32),) * 2, None) for rows in (2, 3))
    both = joined(one, other)
    assert (len(both.first), len(both.second), both.soft) == (5, 5, None)


def test_a_gate_refuses_a_file_for_matchers(matcher: Path) -> None:
    with pytest.raises(IntegrityError, match="damaged"):
        read_gate_calibration(matcher)


def test_a_model_that_learned_the_images_does_not_calibrate(federation: Federation) -> None:
    from medsanitize.verifiers.reid.training.training_dataset import digest_of_files, gather_images

    labels = federation.tables["north"]
    matching, gate = federation.job("matcher"), federation.job("gate")
    known = frozenset({digest_of_files(labels.paths), gather_images(labels, *QUIET)[0].digest})
    for job in (matching, gate):
        with pytest.raises(UsageError, match="trained on the calibration images"):
            job.contribution(job.start(), federation.site("north", job, known), 0)


def test_scores_outside_the_grid_are_refused() -> None:
    from medsanitize.verifiers.reid.training.calibration_counts import count_scores

    with pytest.raises(UsageError, match="outside of the range"):
        count_scores(np.array([-3.0]), np.zeros((1, 1)), distance_grid())


@pytest.mark.slow
def test_processes_calibrate_the_packaged_features(tmp_path: Path) -> None:
    """Server and sites as processes; the sum is the calibration of all images together."""
    prepared = prepare_federation(tmp_path / "demo", patients=12, size=128)
    job = prepared.job.read_text().replace(
        "model: retrieval\nrecipe: moments-256", "model: calibration\nrecipe: matcher"
    )
    prepared.job.write_text(job)
    for path in prepared.sites.values():
        path.write_text(path.read_text().replace("retrieval/moments-256", "calibration/matcher"))
    told = run_on_this_machine(prepared.job, list(prepared.sites.values()), *QUIET)
    assert told["rounds"] == 1
    found = read_given_calibration(prepared.folder / "federated" / FILE).file
    own = []
    for name in prepared.sites:
        labels = read_labels(prepared.folder / name / "images" / "labels.csv", split="train")
        scored = score_images(
            labels.of_kind(Modality.RADIOGRAPH), packaged_retrieval(Modality.RADIOGRAPH), None, *QUIET
        )
        own += list(sum_pairs(*calibrating(scored)).calibration().genuine)
        assert read_given_calibration(prepared.folder / name / "model" / FILE).file == found
    grid = distance_grid()
    assert found.sites == len(prepared.sites)
    assert found.calibration.genuine == tuple(np.sort(grid[lowered(np.array(own), grid)]).tolist())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"model": "retrieval", "recipe": "moments", "models": {}}, "Only a calibration"),
        ({"recipe": "moments"}, "recipe matcher or gate"),
        (
            {"recipe": "gate", "models": {"generator": Path("/g")}},
            "needs a generator and a verification model",
        ),
        ({"recipe": "matcher", "models": {"generator": Path("/g")}}, "has no generator"),
    ],
)
def test_a_job_names_the_models_that_its_recipe_needs(changed: Mapping[str, Any], why: str) -> None:
    facts = {
        "version": 1, "name": "c", "party": PLACE, "sites": SITES, "model": "calibration",
        "recipe": "matcher", "kind": "radiograph", "output": PLACE, "state": PLACE, **changed,
    }  # fmt: skip
    with pytest.raises(UsageError, match=why):
        check_calibration(Job.model_validate(facts))
