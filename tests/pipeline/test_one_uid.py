"""Several objects that state one SOP Instance UID: copies are dropped, different objects are all released."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pydicom
import pytest
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.policies.model import Policy
from medsanitize.release.manifest import read_rows
from pydicom.uid import RLELossless

from tests.helpers.hospital import tree, write_ct

Workplace = Callable[..., Policy]
ONE = Options(workers=1)


def emptied(policy: Policy) -> Path:
    export = policy.inputs[0]
    assert isinstance(export, Path)
    shutil.rmtree(export)
    return export


def released_uids(policy: Policy) -> set[str]:
    return {row.instance for row in read_rows(policy.output)}


def flagged(result: RunResult) -> bool:
    return "one UID, several objects" in {gate.name for gate in result.gates if gate.result == "flagged"}


def uid_alone(workplace: Workplace) -> str:
    """The new UID of the object that the tests copy, where no other object states its UID."""
    policy = workplace("alone")
    write_ct(emptied(policy) / "a", 1)
    run(policy, ONE)
    (uid,) = released_uids(policy)
    return uid


def write_compressed(path: Path, number: int) -> None:
    data_set = pydicom.dcmread(write_ct(path, number))
    data_set.compress(RLELossless, generate_instance_uid=False)
    data_set.save_as(path)


def test_different_objects_of_a_patient_are_released_and_one_keeps_the_uid(workplace: Workplace) -> None:
    policy = workplace()
    export = emptied(policy)
    write_ct(export / "a", 1)
    write_ct(export / "b", 1, PixelData=bytes(range(256)) * 128)

    result = run(policy, ONE)

    assert (result.ending, result.outcomes["released"], result.quarantined) == ("published", 2, {})
    assert flagged(result)
    assert uid_alone(workplace) in released_uids(policy)


def test_a_changed_uid_is_named_in_the_record(workplace: Workplace) -> None:
    policy = workplace()
    export = emptied(policy)
    for number in range(3):
        write_ct(export / str(number), 1, PixelData=bytes([number]) * 32768)

    result = run(policy, ONE)

    assert result.rules["U:shared-uid"] == 2


def test_the_release_does_not_depend_on_the_order_of_the_objects(workplace: Workplace) -> None:
    releases = []
    for name, names in (("one", "abc"), ("two", "cab")):
        policy = workplace(name)
        export = emptied(policy)
        for number, file in enumerate(names):
            write_ct(export / file, 1, PixelData=bytes([number]) * 32768)
        run(policy, Options(workers=2))
        releases.append(tree(policy.output / "data"))

    assert releases[0] == releases[1]
    assert len([path for path in releases[0] if path.endswith(".dcm")]) == 3


def test_the_same_image_in_another_transfer_syntax_is_a_duplicate(workplace: Workplace) -> None:
    policy = workplace()
    export = emptied(policy)
    write_ct(export / "a", 1)
    write_compressed(export / "b", 1)

    result = run(policy, ONE)

    assert (result.outcomes["released"], result.dropped) == (1, {"duplicate-pixels": 1})
    assert released_uids(policy) == {uid_alone(workplace)}


def test_one_image_under_two_patients_is_quarantined(workplace: Workplace) -> None:
    policy = workplace()
    export = emptied(policy)
    write_ct(export / "a", 1, "PAT-A-1", study=1)
    write_ct(export / "b", 1, "PAT-B-2", study=2)

    assert run(policy, ONE).quarantined == {"sop-instance-conflict": 2}


def test_different_images_under_two_patients_are_released(workplace: Workplace) -> None:
    policy = workplace()
    export = emptied(policy)
    write_ct(export / "a", 1, "PAT-A-1", study=1)
    write_ct(export / "b", 1, "PAT-B-2", study=2, PixelData=bytes(32768))

    assert run(policy, ONE).outcomes["released"] == 2


def test_a_damaged_copy_does_not_hold_back_the_intact_one(workplace: Workplace) -> None:
    policy = workplace()
    export = emptied(policy)
    whole = write_ct(export / "a", 1)
    (export / "b").write_bytes(whole.read_bytes()[:-1000])

    result = run(policy, ONE)

    assert (result.outcomes["released"], result.quarantined) == (1, {"truncated": 1})


def test_the_policy_may_quarantine_them(workplace: Workplace) -> None:
    policy = workplace(deduplicate="{one_uid: quarantine}")
    export = emptied(policy)
    write_ct(export / "a", 1)
    write_ct(export / "b", 1, SliceThickness="9.5", PixelData=bytes(32768))
    write_ct(export / "c", 2)

    result = run(policy, ONE)

    assert (result.outcomes["released"], result.quarantined) == (1, {"sop-instance-conflict": 2})


@pytest.mark.parametrize("action", ["quarantine", "drop"])
def test_copies_follow_the_action_for_equal_pixels(workplace: Workplace, action: str) -> None:
    policy = workplace(deduplicate=f"{{pixels: {action}}}")
    export = emptied(policy)
    write_ct(export / "a", 1)
    write_compressed(export / "b", 1)
    write_ct(export / "c", 2)

    result = run(policy, ONE)

    released = 1 if action == "quarantine" else 2
    assert (result.outcomes["released"], result.dropped or result.quarantined) == (
        released,
        {"duplicate-pixels": 3 - released},
    )
