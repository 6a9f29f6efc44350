"""The record of tries: counted by training patients, never reset by another generator, changes visible."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, IntegrityError, KeyMaterialError
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.synthesis.tries import Try, TryRecord, draw_digest, marks_of
from medsanitize.sanitize.pseudonyms import derive_sub_keys

SEAL = Seal(derive_sub_keys(bytes(32), scope="tries"))
PATIENTS = frozenset({"p1", "p2"})


def added(record: TryRecord, judged: Try) -> None:
    record.add(judged, record.number(judged))


@pytest.fixture(params=[SEAL, None], ids=["sealed", "chained"])
def record(request: pytest.FixtureRequest, tmp_path: Path) -> TryRecord:
    return TryRecord(tmp_path / "a.tries", request.param)


def test_each_further_draw_on_the_same_patients_is_a_further_try(record: TryRecord) -> None:
    numbers = []
    for seed in range(3):
        draw = Try(draw_digest({"seed": seed}), PATIENTS)
        numbers.append(record.number(draw))
        added(record, draw)
    assert numbers == [1, 2, 3]


def test_a_draw_that_is_judged_again_keeps_its_number(record: TryRecord) -> None:
    draws = [Try(draw_digest(seed), PATIENTS) for seed in range(3)]
    for draw in [*draws, *draws]:
        added(record, draw)
    assert [record.number(draw) for draw in draws] == [1, 2, 3]
    assert len(record.read()) == 3
    assert [record.entry(draw)[0] for draw in draws] == [1, 2, 3]


def test_of_two_draws_at_the_same_time_the_second_is_not_judged_as_the_first_try(record: TryRecord) -> None:
    first, second = Try("a", PATIENTS), Try("b", PATIENTS)
    numbers = [record.number(one) for one in (first, second)]
    record.add(first, numbers[0])
    with pytest.raises(EnvironmentFailure, match="at the same time"):
        record.add(second, numbers[1])


def test_one_common_patient_is_enough_and_other_patients_start_at_1(record: TryRecord) -> None:
    added(record, Try("a", PATIENTS))
    assert record.number(Try("b", frozenset({"p2", "p9"}))) == 2
    assert record.number(Try("b", frozenset({"p9"}))) == 1


def test_a_renamed_patient_is_recognized_by_the_image(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"pixels")
    (tmp_path / "b.png").write_bytes(b"pixels")
    one = marks_of(["p1"], [tmp_path / "a.png"], SEAL)
    assert one & marks_of(["other"], [tmp_path / "b.png"], SEAL)
    assert not one & marks_of(["p1"], [tmp_path / "a.png"], None)


def test_the_file_is_readable_by_its_owner_only_and_names_nobody(tmp_path: Path) -> None:
    record = TryRecord(tmp_path / "a.tries", None)
    added(record, Try("a", marks_of(["MRN0000001"], [], None)))
    assert record.path.stat().st_mode & 0o777 == 0o600
    assert b"MRN0000001" not in record.path.read_bytes()


def test_a_changed_entry_is_an_error(tmp_path: Path) -> None:
    sealed, chained = TryRecord(tmp_path / "a.tries", SEAL), TryRecord(tmp_path / "b.tries", None)
    for record in (sealed, chained):
        for draw in ("a", "b"):
            added(record, Try(draw, PATIENTS))
    sealed.path.write_bytes(sealed.path.read_bytes()[:-1] + b"x")
    with pytest.raises(KeyMaterialError):
        sealed.read()
    facts = json.loads(chained.path.read_text())
    chained.path.write_text(json.dumps({**facts, "tries": facts["tries"][1:]}))
    with pytest.raises(IntegrityError, match="was changed"):
        chained.read()
    chained.path.write_text("[]")
    with pytest.raises(IntegrityError):
        chained.read()


def test_a_deleted_record_shows_in_the_digest_of_the_next_entry(tmp_path: Path) -> None:
    record = TryRecord(tmp_path / "a.tries", None)
    for draw in ("a", "b"):
        added(record, Try(draw, PATIENTS))
    before = record.entry(Try("b", PATIENTS))
    record.path.unlink()
    added(record, Try("b", PATIENTS))
    assert before[0] == 2
    assert record.entry(Try("b", PATIENTS))[0] == 1
    assert record.entry(Try("b", PATIENTS))[1] != before[1]
