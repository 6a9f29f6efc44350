"""A second pair of eyes: approvals by several persons, a sample that they judge, and decisions for many."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from medsanitize import decision_log, open_review
from medsanitize.cli import cli
from medsanitize.errors import PolicyError, UsageError
from medsanitize.pipeline.resume import release_keys
from medsanitize.pipeline.review.pages import apply_decisions, make_review
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.stages.second_review import NAME
from medsanitize.pipeline.state.database import State
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.result import ReviewItem, Sanitized
from medsanitize.verifiers.reid.calibration import clopper_pearson

from tests.helpers.hospital import prepare, write_ct

ONE = Options(workers=1)
QUICK = {
    "preset": "research",
    "validation": "'off'",
    "dicom": "{options: {clean_pixel_data: false}}",
    "pixels": "{at_risk: release, faces: ignore}",
}
OBJECTS = 8


def waiting(approve: str) -> str:
    return f'{{name: test, version: "1.0", mode: pseudonymous, approve: {approve}}}'


@pytest.fixture(autouse=True)
def _doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every object has an item at one place; its text and picture differ by object."""
    original = DicomSanitizer.__call__

    def call(self: DicomSanitizer, data: Any, context: Context) -> Sanitized:
        done = original(self, data, context)
        if context.decisions:
            return done
        number = context.patient.split("P")[-1].strip()
        text = "ACME" if number in "1234" else f"text {number}"
        item = ReviewItem("frame 1 box 0,0,9,9", "ocr:unsure", text, f"picture {number}".encode())
        return replace(done, review_items=(item,))

    monkeypatch.setattr(DicomSanitizer, "__call__", call)


@pytest.fixture
def site(tmp_path: Path) -> Callable[..., Policy]:
    """Eight objects: of odd numbers by one device, of the others by another; two per series."""

    def make(approve: str, **more: str) -> Policy:
        for number in range(1, OBJECTS + 1):
            write_ct(
                tmp_path / f"export/{number}.dcm",
                number,
                f"P{number}",
                number,
                Manufacturer="ACME" if number % 2 else "OTHER",
                SeriesInstanceUID=f"1.2.{(number + 1) // 2}",
            )
        policy = prepare(tmp_path, **{**QUICK, "release": waiting(approve), **more})
        run(policy, ONE)
        return policy

    return make


class Reviewer:
    """One person with a page of his own."""

    def __init__(self, policy: Policy, name: str) -> None:
        make_review(policy, reviewer=name)
        self.policy, self.name = policy, name
        page = workspace_of(policy).review_page().read_text()
        self.page = re.findall(r'data-page="([^"]*)"', page)[0]
        self.digest = re.findall(r'data-digest="([^"]*)"', page)[0]
        names = dict.fromkeys(re.findall(r'type="radio" name="([^"]*)"', page))
        self.items = [name for name in names if re.fullmatch("[0-9a-f]{32}", name)]
        self.sample = [name for name in names if name.startswith("object-")]
        self.texts = dict(zip(self.items, re.findall(r"ACME|text \d", page), strict=False))

    def decide(self, decisions: dict[str, str], *, approve: bool = False, **more: Any) -> Any:
        path = self.policy.state.parent / "decisions.json"
        scope = more.pop("scope", None)
        facts = {"version": 1, "page": self.page, "approve": self.digest if approve else None, **more}
        path.write_text(json.dumps({**facts, "decisions": decisions}))
        return apply_decisions(self.policy, path, self.name, scope)

    def approve(self, decisions: Iterable[str] = ()) -> Any:
        return self.decide(dict.fromkeys(decisions, "release"), approve=True)


@contextmanager
def state_of(policy: Policy) -> Iterator[State]:
    with State(workspace_of(policy).database, release_keys(policy)).closed_on_failure() as state:
        yield state
        state.close()


def verdicts(policy: Policy) -> dict[int, str]:
    with state_of(policy) as state:
        return dict(state.db.execute("SELECT id, verdict FROM decisions ORDER BY id").fetchall())


def gate(result: RunResult) -> tuple[str, str, int | None]:
    (found,) = [one for one in result.gates if one.name == NAME]
    return found.result, found.detail, found.looked_at


# -- two persons ----------------------------------------------------------------------------


def test_one_person_who_approves_twice_is_not_two(site: Callable[..., Policy]) -> None:
    policy = site("{reviewers: 2}")
    Reviewer(policy, "ann").approve()
    Reviewer(policy, "ann").approve()
    assert run(policy, ONE).ending == "awaiting_approval"
    assert run(policy, replace(ONE, approve=Reviewer(policy, "ann").digest)).ending == "awaiting_approval"
    Reviewer(policy, "bob").approve()
    assert run(policy, ONE).ending == "published"


def test_the_names_of_reviewers_are_in_the_log_and_nowhere_in_the_release(
    site: Callable[..., Policy],
) -> None:
    policy = site("{reviewers: 1}")
    ann = Reviewer(policy, "ann-qx77")
    ann.decide({ann.items[0]: "keep"})
    run(policy, ONE)
    Reviewer(policy, "bob-qx77").approve()
    assert run(policy, ONE).ending == "published"
    log = decision_log(policy)
    assert [(one.reviewer, one.verdict) for one in log] == [("ann-qx77", "keep"), ("bob-qx77", "approve")]
    assert isinstance(policy.output, Path)
    for root in (policy.output, policy.state):
        for path in root.rglob("*"):
            assert not path.is_file() or b"qx77" not in path.read_bytes()


def test_two_persons_share_a_queue_and_the_more_severe_decision_holds(site: Callable[..., Policy]) -> None:
    policy = site("required")
    ann, bob = Reviewer(policy, "ann"), Reviewer(policy, "bob")
    bob.decide({bob.items[0]: "quarantine"})
    ann.decide({ann.items[0]: "keep", ann.items[1]: "blank"})
    assert sorted(verdicts(policy).values()) == ["blank", "quarantine"]
    bob.decide({bob.items[0]: "keep"})  # a correction of his own
    assert sorted(verdicts(policy).values()) == ["blank", "keep"]


# -- the sample -----------------------------------------------------------------------------


def test_nothing_is_published_until_each_person_has_judged_the_sample(site: Callable[..., Policy]) -> None:
    policy = site("{reviewers: 2, sample: 50 %}")
    ann = Reviewer(policy, "ann")
    assert len(ann.sample) == OBJECTS / 2
    ann.approve(ann.sample)
    bob = Reviewer(policy, "bob")
    assert bob.sample == ann.sample
    bob.approve(bob.sample[1:])
    result = run(policy, ONE)
    assert (result.ending, gate(result)[0], gate(result)[2]) == ("awaiting_approval", "not_run", 3)
    Reviewer(policy, "bob").approve(bob.sample[:1])
    result = run(policy, ONE)
    assert (result.ending, gate(result)[0]) == ("published", "passed")
    assert f"{100 * clopper_pearson(0, 4)[1]:.2g} %" in gate(result)[1]
    assert isinstance(policy.output, Path)
    assert "2 persons judged each of 4 objects" in (policy.output / "report.html").read_text()


def test_an_error_in_the_sample_stays_an_error_and_its_object_is_left_out(
    site: Callable[..., Policy],
) -> None:
    policy = site("{reviewers: 1, sample: 50 %}")
    ann = Reviewer(policy, "ann")
    ann.decide({ann.sample[0]: "quarantine", **dict.fromkeys(ann.sample[1:], "release")})
    result = run(policy, ONE)
    assert result.quarantined == {"review": 1}
    assert gate(result)[0] == "flagged"
    assert "1 were wrong and are left out" in gate(result)[1]
    assert f"{100 * clopper_pearson(1, 4)[1]:.2g} %" in gate(result)[1]
    Reviewer(policy, "ann").approve()
    assert run(policy, ONE).ending == "published"


@pytest.mark.parametrize("approve", ["{reviewers: 0}", "{sample: 5}", "{sample: 101 %}", "maybe", "{a: 1}"])
def test_an_approval_of_another_form_is_refused(tmp_path: Path, approve: str) -> None:
    with pytest.raises(PolicyError) as caught:
        prepare(tmp_path, release=waiting(approve))
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].line == 3


def test_who_approves_does_not_change_the_digest_of_the_policy(tmp_path: Path) -> None:
    from medsanitize.policies.digest import policy_digest

    forms = ("required", "{reviewers: 2, sample: 5 %}", "not required")
    assert len({policy_digest(prepare(tmp_path, release=waiting(one))) for one in forms}) == 1


# -- decisions for many ---------------------------------------------------------------------


def place(ann: Reviewer, text: str) -> str:
    return next(item for item, found in ann.texts.items() if found == text)


def test_a_decision_for_all_that_look_alike_holds_for_the_same_text_at_the_same_place(
    site: Callable[..., Policy],
) -> None:
    ann = Reviewer(policy := site("required"), "ann")
    assert ann.decide({place(ann, "ACME"): "keep"}, scope="alike").objects == 4
    assert list(verdicts(policy).values()) == ["keep"] * 4
    assert decision_log(policy)[0].objects == 4


def test_a_decision_for_a_series_or_a_device_holds_for_the_same_place(site: Callable[..., Policy]) -> None:
    ann = Reviewer(policy := site("required"), "ann")
    item = place(ann, "text 8")
    assert ann.decide({item: "blank"}, scopes={item: "series"}).objects == 2
    assert ann.decide({item: "blank"}, scopes={item: "device"}).objects == 5
    assert set(verdicts(policy).values()) == {"blank"}


def test_keeping_for_a_device_keeps_only_the_same_text(site: Callable[..., Policy]) -> None:
    ann = Reviewer(site("required"), "ann")
    assert ann.decide({place(ann, "text 8"): "keep"}, scope="device").objects == 1


def test_a_device_is_quarantined_as_a_whole(site: Callable[..., Policy]) -> None:
    ann = Reviewer(policy := site("required"), "ann")
    ann.decide({place(ann, "text 8"): "quarantine"}, scope="device")
    assert run(policy, ONE).quarantined == {"review": OBJECTS / 2}


def test_a_scope_without_a_meaning_is_refused(site: Callable[..., Policy]) -> None:
    ann = Reviewer(site("required"), "ann")
    for scopes in ({ann.sample[0]: "device"}, {ann.items[0]: "world"}, {"0" * 32: "alike"}, ["alike"]):
        with pytest.raises(UsageError, match="does not contain decisions"):
            ann.decide({ann.sample[0]: "release", ann.items[0]: "keep"}, scopes=scopes)


def test_the_command_applies_a_scope_and_writes_the_log(site: Callable[..., Policy], tmp_path: Path) -> None:
    ann = Reviewer(site("required"), "ann")
    path, file, log = (str(tmp_path / name) for name in ("policy.yaml", "d.json", "log.csv"))
    facts = {"version": 1, "page": ann.page, "approve": None, "decisions": {place(ann, "ACME"): "keep"}}
    Path(file).write_text(json.dumps(facts))
    call = ["review", path, "--decisions", file, "--reviewer", "ann", "--scope", "alike", "--json"]
    assert json.loads(CliRunner().invoke(cli, call).stdout)["objects"] == 4
    CliRunner().invoke(cli, ["review", path, "--log", log])
    (row,) = csv.DictReader(Path(log).read_text().splitlines())
    assert (row["reviewer"], row["scope"], row["objects"]) == ("ann", "alike", "4")


# -- the queue ------------------------------------------------------------------------------


def test_items_of_the_queue_are_paged_and_decided_without_a_page(site: Callable[..., Policy]) -> None:
    policy = site("required")
    with open_review(policy, reviewer="ann") as queue:
        assert queue.counts().undecided == OBJECTS
        first, second = queue.items(limit=1), queue.items(first=1, limit=1)
        assert first[0].name != second[0].name
        assert queue.picture(first[0].name, "before").startswith(b"picture")
        assert queue.decide({first[0].name: "blank", second[0].name: "quarantine"}).objects == 2
        assert queue.counts().undecided == OBJECTS - 2
        with pytest.raises(UsageError, match="no staged release"):
            queue.approve()
    with open_review(policy, reviewer="bob") as queue:
        assert queue.counts().undecided == OBJECTS - 2
        with pytest.raises(UsageError):
            queue.decide({"object-1": "keep"})
    assert run(policy, ONE).quarantined == {"review": 1}
    with open_review(policy, reviewer="bob") as queue:
        assert queue.approve().approved
    assert run(policy, ONE).ending == "published"
    with pytest.raises(UsageError, match="published"):
        open_review(policy, reviewer="bob")


def test_the_sample_is_judged_and_approved_in_the_queue(site: Callable[..., Policy]) -> None:
    policy = site("{reviewers: 2, sample: 30 %}")
    for name in ("ann", "bob"):
        with open_review(policy, reviewer=name) as queue:
            sample = queue.sample()
            assert len(sample) == 3
            assert all(queue.file(one).is_file() for one in sample)
            queue.decide({f"object-{one}": "release" for one in sample})
            assert queue.sample() == []
            queue.approve()
    result = run(policy, ONE)
    assert (result.ending, gate(result)[0]) == ("published", "passed")


def test_decisions_of_the_queue_give_the_release_of_the_page(site: Callable[..., Policy]) -> None:
    policy = site("required")
    with open_review(policy, reviewer="ann") as queue:
        item = next(one for one in queue.items() if one.text == "ACME")
        queue.decide({item.name: "quarantine"}, scope="series")
    by_queue = run(policy, ONE).digest
    for path in policy.state.iterdir():
        path.unlink()
    shutil.rmtree(workspace_of(policy).release)
    run(policy, ONE)
    ann = Reviewer(policy, "ann")
    assert item.name in ann.items
    ann.decide({item.name: "quarantine"}, scope="series")
    assert run(policy, ONE).digest == by_queue
