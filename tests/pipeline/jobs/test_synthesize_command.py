"""The command synthesize: the requested number of judged images, or the reason why some are missing."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from click.testing import CliRunner, Result
from medsanitize.cli import cli
from medsanitize.federation.parties.identity import create_party, open_party
from medsanitize.federation.parties.signed_files import signature_file
from medsanitize.generators.privacy_gate import gate as gate_module
from medsanitize.generators.privacy_gate.candidate_search import score_pairs
from medsanitize.generators.privacy_gate.gate_embeddings import Verifiers
from medsanitize.generators.privacy_gate.pooled_controls import GateSettings, PooledControls, PooledOrigin
from medsanitize.generators.quality.evaluate import QualityResult
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.pipeline.jobs import synthesize as command
from medsanitize.pipeline.synthesis import draw
from medsanitize.progress import Cancellation, Cancelled, NoProgress
from medsanitize.verifiers.reid.calibration import calibrate_strangers

from tests.helpers.hospital import tree
from tests.helpers.synthetic_images import (
    CLASSES,
    SIZE,
    CoarseModel,
    FakeGenerator,
    digest_of,
    person,
    simple_controls,
    write_people,
    write_table,
    write_verifier,
)

Call = Callable[..., Result]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("people")
    rows = write_people(base / "parts", 300)
    write_table(base / "labels.csv", rows)
    write_table(
        base / "few.csv", [row for row in rows if row[2] != "calibration" or row[1] == "calibration7"]
    )
    return base


@pytest.fixture(scope="module")
def gates() -> dict[Any, Any]:
    return {}


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch, gates: dict[Any, Any]) -> dict[str, FakeGenerator]:
    """A generator and verifiers without weights, and gates that are calibrated once."""
    held = {"now": FakeGenerator()}
    # Patterns of a quarter of the size that the gate accepts, to save time.
    monkeypatch.setattr("medsanitize.generators.privacy_gate.next_steps.SMALLEST_IMAGES", SIZE)
    monkeypatch.setattr("medsanitize.generators.privacy_gate.draw_plan.FEWEST_JUDGED", 1)
    # The bound of its own takes 642 images; the residual alone takes a few.
    monkeypatch.setattr("medsanitize.generators.privacy_gate.confidence_bounds.LARGEST_MATCH_RATE", 1.0)
    simple_controls(monkeypatch)
    monkeypatch.setattr(command, "open_generator_once", lambda *_: held["now"])
    monkeypatch.setattr(draw, "open_generator_once", lambda *_: held["now"])
    monkeypatch.setattr(command, "open_verifiers", lambda *_: (CoarseModel(), CoarseModel()))
    monkeypatch.setattr("medsanitize.generators.diffusion.generator.training_of", lambda _: {})
    calibrated = gate_module.calibrate_gate

    def prepare_once(*sides: Any, **terms: Any) -> Any:
        sizes = (len(side.patients) for side in sides[:3])
        key = (held["now"], terms["terms"], terms["pooled"] is None, *sizes)
        if key not in gates:
            gates[key] = calibrated(*sides, **terms)
        return gates[key]

    monkeypatch.setattr(gate_module, "calibrate_gate", prepare_once)
    return held


@pytest.fixture
def call(
    people: Path, tmp_path: Path, generator: dict[str, FakeGenerator], monkeypatch: pytest.MonkeyPatch
) -> Call:
    """Run the command in this process, without measuring quality."""
    assert generator
    unmeasured = QualityResult(None, "They are patterns.", of_all=False)
    monkeypatch.setattr(command, "measure_quality", lambda *_, **__: unmeasured)
    write_verifier(tmp_path / "verifier")

    def run(
        *more: str, output: str = "out", count: int = 40, table: str = "labels.csv", form: str = "--json"
    ) -> Result:
        arguments = ["synthesize", str(tmp_path), "--images", str(people), "--labels", str(people / table)]
        arguments += ["--class", "label", "--verifier", str(tmp_path / "verifier")]
        arguments += ["-n", str(count), "--tries", str(tmp_path / f"{output}.tries")]
        arguments += ["--output", str(tmp_path / output), "--workers", "1", form, *more]
        return CliRunner().invoke(cli, arguments)

    return run


def told(result: Result) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return facts


def test_the_requested_number_of_images_is_written_with_provenance(call: Call, tmp_path: Path) -> None:
    result = call()
    assert result.exit_code == 0, result.output
    facts = told(result)
    images = sorted((tmp_path / "out" / "images").glob("*.png"))
    assert (len(images), facts["written"], facts["shortfall"]) == (40, 40, 0)
    assert facts["verdict"]["state"] == "passed"
    beside = json.loads(images[0].with_suffix(".json").read_text())
    assert (beside["gate"], beside["class"]) == ("passed", "clear")
    assert (tmp_path / "out" / "labels.csv").read_text().count("effusion") == 20


def test_the_seed_determines_every_byte(call: Call, tmp_path: Path) -> None:
    for name, seed in (("one", "1"), ("again", "1"), ("two", "2")):
        call("--seed", seed, "--form", "cr", output=name)
    one, again, two = (
        {key: value.split()[-1] for key, value in tree(tmp_path / name).items() if key.startswith("images/")}
        for name in ("one", "again", "two")
    )
    assert one == again
    assert not set(one.values()) & set(two.values())


def test_matching_images_are_removed_and_sampled_again(
    call: Call, generator: dict[str, FakeGenerator]
) -> None:
    generator["now"] = FakeGenerator(copied=40)
    result = call("--residual", "0.01", count=120)
    facts = told(result)
    assert facts["removed"] > 0
    assert facts["drawn_again"] >= facts["removed"]
    assert (facts["written"], facts["shortfall"]) == (120, 0)


def test_tries_on_the_same_patients_are_counted_over_seeds_and_generators(
    call: Call, generator: dict[str, FakeGenerator], tmp_path: Path
) -> None:
    same = ("--tries", str(tmp_path / "all.tries"))
    found = [told(call("--seed", str(seed), *same, output=f"s{seed}"))["verdict"] for seed in range(2)]
    generator["now"] = FakeGenerator(digest="e" * 64)
    found.append(told(call(*same, output="other"))["verdict"])
    assert [one["terms"]["attempt"] for one in found] == [1, 2, 3]
    assert found[0]["alpha"] == pytest.approx(9 * found[2]["alpha"])
    generator["now"] = FakeGenerator()
    again = told(call("--seed", "1", *same, output="again"))
    assert again["verdict"] == found[1]
    assert any("entry 2 of the record of tries" in line for line in again["statement"])


def test_images_that_cannot_pass_count_as_a_try_once_they_are_judged(call: Call, tmp_path: Path) -> None:
    same = ("--tries", str(tmp_path / "all.tries"))
    call(*same, table="few.csv", output="nothing")
    assert not (tmp_path / "all.tries").exists()
    call("--unvetted", *same, table="few.csv", output="seen")
    assert told(call(*same))["verdict"]["terms"]["attempt"] == 2


def test_the_record_of_tries_is_beside_the_table_by_default(tmp_path: Path) -> None:
    assert command.record_of(None, tmp_path / "labels.csv") == tmp_path / "labels.csv.tries"


def test_images_with_text_that_cannot_be_blanked_are_left_out_and_counted(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, *[("blanked", 1)] * 3])

    def search(_: object, image: Any) -> Any:
        answer = next(answers, ("as it was", 0))
        return None if answer is None else (image, answer[1])

    monkeypatch.setattr(command, "without_text", search)
    result = call()
    facts = told(result)
    assert (facts["left_out_with_text"], facts["text_blanked"]) == (1, 3)
    assert (result.exit_code, facts["written"], facts["shortfall"]) == (1, 39, 1)
    assert not (tmp_path / "out" / "images" / "000001.png").exists()


def test_a_copying_generator_writes_no_images(
    call: Call, generator: dict[str, FakeGenerator], tmp_path: Path
) -> None:
    generator["now"] = FakeGenerator(copied=2)
    result = call()
    assert result.exit_code == 3
    assert told(result)["verdict"]["state"] == "failed"
    assert not (tmp_path / "out" / "images").exists()
    assert (tmp_path / "out" / "synthesis.html").stat().st_mode & 0o777 == 0o600


def test_without_enough_patients_nothing_is_sampled_and_the_next_step_is_named(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "generate_pixels", lambda *_: pytest.fail("drawn"))
    result = call(table="few.csv")
    facts = told(result)
    assert (result.exit_code, facts["written"], facts["judged"]) == (1, 0, 0)
    assert "the 1 that there are allow at best a residual" in facts["verdict"]["needed"][0]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["verdict.json"]


@pytest.mark.party
def test_patients_of_other_hospitals_calibrate_the_gate(
    call: Call, gates: dict[Any, Any], tmp_path: Path
) -> None:
    """One own calibration patient says nothing; 300 of three hospitals say enough."""
    call(output="all")
    (known,) = [
        one for one in gates.values() if one.threshold.patients == 300 and one.subject.pooled is None
    ][:1]
    path = tmp_path / "calibration.json"
    settings = GateSettings("f" * 64, "c" * 64, "c" * 64, 0.2)
    strangers = calibrate_strangers(*pairs_of(range(300)))
    origin = PooledOrigin(3, 300)
    path.write_text(
        PooledControls(known.controls.kinds, known.controls.lowest, strangers, settings, origin).to_json()
    )
    create_party(tmp_path / "party", "north")
    signature = signature_file(path.read_bytes(), open_party(tmp_path / "party"))
    path.with_name("calibration.json.sig").write_bytes(signature)
    result = call("--federated-calibration", str(path), table="few.csv")
    facts = told(result)
    assert (result.exit_code, facts["verdict"]["state"]) == (0, "passed"), facts["statement"]
    assert facts["verdict"]["subject"]["pooled"]["sites"] == 3
    assert any("300 calibration patients of 3 hospitals" in line for line in facts["statement"])


def pairs_of(numbers: range) -> tuple[Any, Any, Any]:
    """Scores of the gate for every two people of the calibration split, by one image each."""
    model = CoarseModel()
    seen = Verifiers(model, model, NoProgress(), Cancellation())
    squares = np.stack([person([3, number], 0) for number in numbers])
    first, second = np.triu_indices(len(squares), 1)
    embedded = seen.see(squares, "")
    return score_pairs(embedded, first, embedded, second, seen), first, second


def test_images_that_are_not_vetted_are_written_only_on_request_and_say_so(
    call: Call, tmp_path: Path
) -> None:
    result = call("--unvetted", table="few.csv")
    facts = told(result)
    assert (result.exit_code, facts["written"] + facts["shortfall"], facts["vetted"]) == (1, 40, False)
    assert not (tmp_path / "out" / "images").exists()
    made = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {path.name for path in made if "unvetted" not in path.name} == {"verdict.json", "synthesis.html"}
    beside = json.loads((tmp_path / "out" / "unvetted" / "000001.unvetted.json").read_text())
    assert (beside["vetted"], beside["gate"], beside["residual_bound"]) == (False, "insufficient_data", None)
    assert beside["description"].startswith("NOT VETTED")
    assert "NOT VETTED" in call("--unvetted", table="few.csv", output="other", form="--log-json").output


def test_dicom_objects_that_are_not_vetted_say_so_in_their_attributes(call: Call, tmp_path: Path) -> None:
    call("--unvetted", "--form", "secondary-capture", table="few.csv")
    data = pydicom.dcmread(tmp_path / "out" / "unvetted" / "000001.unvetted.dcm")
    for text in (data.SeriesDescription, data.DerivationDescription, data.ImageComments):
        assert text.startswith("NOT VETTED")
    assert "insufficient_data" in data.DerivationAlgorithmSequence[0].AlgorithmParameters
    assert "residual-bound=none" in data.DerivationAlgorithmSequence[0].AlgorithmParameters


def test_images_that_pass_are_vetted_also_if_others_were_requested(call: Call, tmp_path: Path) -> None:
    assert told(call("--unvetted"))["vetted"] is True
    assert not (tmp_path / "out" / "unvetted").exists()


def test_a_shortfall_is_reported(
    call: Call, generator: dict[str, FakeGenerator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "MAX_RESAMPLED", 0)
    generator["now"] = FakeGenerator(copied=40)
    result = call("--residual", "0.01", count=120)
    facts = told(result)
    assert result.exit_code == 1
    assert facts["shortfall"] == facts["removed"] > 0
    assert facts["written"] + facts["shortfall"] == 120


def test_a_stopped_command_resumes(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real, made, stopped_at = draw.generate_pixels, list[Any](), 0

    def counted(folder: Path, device: str, part: Any) -> bytes:
        made.append(part)
        if len(made) == stopped_at:
            raise Cancelled(2)
        return real(folder, device, part)

    monkeypatch.setattr(draw, "generate_pixels", counted)
    call(output="whole", count=64)
    batches = len(made)
    stopped_at = batches + 2
    assert call(output="cut", count=64).exit_code == 130
    assert call(output="cut", count=64).exit_code == 0
    # The batch that was stopped is made twice, no other one.
    assert len(made) == 2 * batches + 1
    assert tree(tmp_path / "cut" / "images").keys() == tree(tmp_path / "whole" / "images").keys()
    files = [
        sorted(path for path in (tmp_path / name).rglob("*") if path.is_file()) for name in ("cut", "whole")
    ]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_balanced_requests_equally_many_images_per_class(call: Call, people: Path) -> None:
    rows = (people / "few.csv").read_text().splitlines()
    clear = [row for row in rows if not (row.endswith("effusion") and "train" in row and "1-0" not in row)]
    (people / "uneven.csv").write_text("\n".join(clear))
    as_in_data = told(call(table="uneven.csv", output="a"))["by_class"]
    balanced = told(call("--balanced", table="uneven.csv", output="b"))["by_class"]
    assert as_in_data["clear"] > as_in_data["effusion"]
    assert balanced == dict.fromkeys(CLASSES, 20)


def test_a_non_empty_folder_is_not_written_to(call: Call, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    result = call()
    assert result.exit_code == 2
    assert "not empty" in told(result)["message"]


def test_a_table_without_the_label_column_is_rejected(call: Call) -> None:
    result = call("--class", "finding")
    assert result.exit_code == 2
    assert "no such label column" in told(result)["message"]


def test_the_page_shows_pairs_and_states_that_it_contains_phi(call: Call, tmp_path: Path) -> None:
    call()
    page = (tmp_path / "out" / "synthesis.html").read_text()
    assert "never publish" in page
    assert page.count("data:image/png;base64,") > 40
    assert str(tmp_path) not in page


@pytest.mark.parametrize(
    ("before", "confirmed"), [([], True), (["0" * 64], False), ("unknown", False), (None, False)]
)
def test_training_images_are_confirmed_for_a_generator_without_other_data(
    call: Call, people: Path, monkeypatch: pytest.MonkeyPatch, before: Any, confirmed: bool
) -> None:
    facts = {"images": digest_of(people / "labels.csv", "train"), "start": "0" * 64}
    facts |= {} if before is None else {"images_before": before}
    monkeypatch.setattr("medsanitize.generators.diffusion.generator.training_of", lambda _: facts)
    assert told(call())["training_images_confirmed"] is confirmed


def test_unknown_training_data_of_the_generator_is_reported(call: Call) -> None:
    assert "was trained on the training split only" in call(form="--log-json").output


def test_a_model_trained_on_the_holdout_is_rejected(call: Call, people: Path, tmp_path: Path) -> None:
    write_verifier(tmp_path / "other", digest_of(people / "labels.csv", "holdout"))
    result = call("--verifier", str(tmp_path / "other"))
    assert result.exit_code == 2
    assert "was trained on the holdout part" in told(result)["message"]


def test_a_request_exceeding_memory_is_rejected_before_reading(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "machine_memory", lambda: 10**9)
    monkeypatch.setattr(command, "reference_splits", lambda *_: pytest.fail("read"))
    result = call(count=1_000_000)
    assert result.exit_code == 2
    assert "GB of memory, and this machine has 1.0 GB" in told(result)["message"]


class Shelf:
    """Stores nothing, and returns images that were never sampled."""

    def get(self, name: str) -> bytes:
        assert name
        return bytes(draw.BATCH * 256 * 256)

    def put(self, name: str, data: bytes) -> None:
        pytest.fail(f"{name} was drawn: {len(data)} bytes")


def test_generated_images_are_in_memory_once() -> None:
    draws = [draw.SampleRequest(0, place, place) for place in range(16 * draw.BATCH)]
    with LocalEngine(draw.SamplerWorkers(Path(), "cpu"), 1, Cancellation()) as engine:
        sampler = draw.worker_sampler(
            engine, draw.sample_batch, FakeGenerator(size=256), Shelf(), lambda _: None
        )
        tracemalloc.start()
        try:
            images = sampler(draws)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert most < 1.3 * images.nbytes


class Broken:
    """An engine whose worker died once: results arrive image by image."""

    def map(self, task: Any, parts: Iterable[Sequence[draw.SampleRequest]]) -> Iterator[bytes]:
        for part in parts:
            yield from (task(None, [one]) for one in part)


def test_images_of_a_batch_whose_worker_crashed_are_assembled(tmp_path: Path) -> None:
    def one(_worker: object, part: Sequence[draw.SampleRequest]) -> bytes:
        return FakeGenerator().sample([0], [part[0].seed]).tobytes()

    draws = [draw.SampleRequest(0, place, place) for place in range(20)]
    engine: Any = Broken()
    sampler = draw.worker_sampler(
        engine, one, FakeGenerator(), command.FolderSampleStore(tmp_path), lambda _: None
    )
    assert np.array_equal(sampler(draws), FakeGenerator().sample([0] * 20, range(20)))


def test_a_contact_sheet_shows_the_images_side_by_side() -> None:
    from io import BytesIO

    from medsanitize.generators.export.synthesis_report import montage
    from PIL import Image

    images = np.arange(10, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2) * 20
    with Image.open(BytesIO(montage(images))) as sheet:
        assert sheet.size == (8 * 6 - 2, 2 * 6 - 2)
        assert sheet.getpixel((6, 6)) == 180
