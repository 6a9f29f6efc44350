"""Round trip of a policy, and the digest of its decisions."""

from __future__ import annotations

import string
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.dump import dumps
from medsanitize.policies.load import loads
from medsanitize.policies.model import (
    Action,
    Contact,
    Dates,
    Deduplicate,
    Dicom,
    Engine,
    FindingAction,
    Keys,
    Limits,
    Options,
    Pixels,
    Policy,
    PresetName,
    PrivateAttribute,
    Pseudonyms,
    Registry,
    Release,
    TableSection,
)
from medsanitize.policies.template import policy_template

BASE = Path("/p")

texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
slugs = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
contacts = st.builds(Contact, name=texts, email=st.none() | texts, url=st.none() | texts)
verdicts = st.sampled_from(get_args(FindingAction))
masks = st.from_regex(r"(0008|0010|0018|60xx)[0-9a-f]{4}", fullmatch=True)
actions = st.sampled_from([action for action in get_args(Action) if action != "U"])
private = st.builds(
    PrivateAttribute,
    creator=texts,
    group=st.sampled_from(["0009", "0029", "7fe1"]),
    element=st.sampled_from(["00", "1a", "10"]),
    vr=st.sampled_from(["LO", "DS"]),
)
options = st.builds(
    Options,
    clean_descriptors=st.booleans(),
    clean_pixel_data=st.booleans(),
    retain_uids=st.booleans(),
    retain_longitudinal_modified_dates=st.booleans(),
)
dicoms = st.builds(
    Dicom,
    options=options,
    dates=st.builds(Dates, keep_weekday=st.booleans(), times=st.sampled_from(["keep", "shift", "remove"])),
    attributes=st.dictionaries(masks, actions, max_size=4),
    safe_private=st.lists(private, max_size=2).map(tuple),
    limits=st.builds(Limits, depth=st.integers(1, 200), elements=st.integers(1, 10**9)),
)
releases = st.builds(
    Release,
    name=slugs,
    version=st.sampled_from(["1", "1.0", "0010", "no", "2024-01-01"]),
    mode=st.just("pseudonymous"),
    date=st.none() | st.just("2024-02-29"),
    description=st.none() | texts,
    creator=st.none() | contacts,
    license=st.none() | texts,
    approve=st.sampled_from(["required", "not required"]),
)
keys = st.sampled_from(
    [Keys(file=Path("/k/key")), Keys(env="KEY", scope="project"), Keys(command=("pass", "show", "a b"))]
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableSection, ...]:
    names = draw(st.lists(slugs, unique=True, max_size=2))
    columns = draw(st.lists(texts, unique=True, min_size=3, max_size=3))
    return tuple(
        TableSection(
            name=name,
            file=Path("/t") / name,
            patient=columns[0],
            keep=tuple(columns[1:2]),
            dates=(columns[2],),
        )
        for name in names
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        version=1,
        preset=draw(st.sampled_from(get_args(PresetName)[:1])),
        release=draw(releases),
        inputs=(Path("/in/a"), Path("/in/b c")),
        output=Path("/out"),
        state=Path("/state"),
        keys=draw(keys),
        exclude=draw(st.none() | st.just(Path("/x.csv"))),
        tables=draw(tables()),
        registry=Registry(
            path=draw(st.none() | st.just(Path("/r"))), public=tuple(draw(st.lists(texts, max_size=2)))
        ),
        pseudonyms=Pseudonyms(
            prefix=draw(st.sampled_from(["", "A-1"])), uid_root=draw(st.none() | st.just("1.2.840"))
        ),
        dicom=draw(dicoms),
        pixels=Pixels(at_risk=draw(st.sampled_from(["release", "quarantine"]))),
        deduplicate=Deduplicate(bytes=draw(verdicts), pixels=draw(verdicts), registry=draw(verdicts)),
        engine=Engine(
            kind=draw(st.sampled_from(["local", "ray"])),
            workers=draw(st.none() | st.integers(1, 64)),
            address=draw(st.sampled_from([None, "local", "auto", "head.example.org:6379", "[::1]:6379"])),
            gpus=draw(st.sampled_from([0, 0.25, 1])),
        ),
    )


@settings(max_examples=60, deadline=None)
@given(policies())
def test_a_written_policy_is_read_back_equal(policy: Policy) -> None:
    assert loads(dumps(policy), base=BASE) == policy


def example(**changes: object) -> Policy:
    return loads(policy_template("research", "a"), base=BASE).model_copy(update=changes)


def test_a_written_policy_shows_the_decisions_of_the_preset() -> None:
    assert "    retain_longitudinal_modified_dates: true\n" in dumps(example())


def test_digest_ignores_paths_keys_engine_and_approval() -> None:
    policy = example(tables=(TableSection(name="t", file=Path("/a"), patient="p"),), exclude=Path("/x"))
    elsewhere = policy.model_copy(
        update={
            "inputs": (Path("/other"),),
            "output": Path("/other/out"),
            "state": Path("/other/state"),
            "keys": Keys(env="KEY", signing=Path("/s")),
            "engine": Engine(workers=3),
            "registry": Registry(path=Path("/r")),
            "exclude": Path("/y"),
            "tables": (TableSection(name="t", file=Path("/b"), patient="p"),),
            "release": policy.release.model_copy(update={"approve": "required"}),
        }
    )
    assert policy_digest(policy) == policy_digest(elsewhere)


def test_the_digest_covers_everything_that_determines_the_release() -> None:
    policy = example()
    changed = [
        example(release=policy.release.model_copy(update={"version": "2"})),
        example(keys=Keys(file=Path("/k"), scope="project")),
        example(exclude=Path("/x")),
        example(pseudonyms=Pseudonyms(prefix="A")),
        example(pseudonyms=Pseudonyms(table=Path("/x"))),
        example(registry=Registry(public=("b",))),
        example(dicom=policy.dicom.model_copy(update={"dates": Dates(keep_weekday=True)})),
        example(dicom=policy.dicom.model_copy(update={"attributes": {}})),
        example(pixels=Pixels(at_risk="release")),
        example(deduplicate=Deduplicate(pixels="drop")),
        example(tables=(TableSection(name="t", file=Path("/a"), patient="p"),)),
    ]
    assert len({policy_digest(one) for one in [policy, *changed]}) == len(changed) + 1


def test_digest_ignores_the_order_of_overrides() -> None:
    one = Dicom(attributes={"00080050": "X", "00100010": "Z"})
    other = Dicom(attributes={"00100010": "Z", "00080050": "X"})
    assert policy_digest(example(dicom=one)) == policy_digest(example(dicom=other))


def test_the_digest_is_the_same_in_another_process() -> None:
    code = (
        "from pathlib import Path\n"
        "from medsanitize.policies.load import loads\n"
        "from medsanitize.policies.template import policy_template\n"
        "from medsanitize.policies.digest import policy_digest\n"
        "print(policy_digest(loads(policy_template('research', 'a'), base=Path('/elsewhere'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == policy_digest(example())


def test_the_digest_covers_the_edition_of_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    before = policy_digest(example())
    monkeypatch.setattr("medsanitize.policies.digest.edition", lambda: "2024b")
    assert policy_digest(example()) != before
