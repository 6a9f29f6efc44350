"""Review by a person: page, decisions, and their effect on the next run."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import PolicyError, UsageError
from medsanitize.pipeline.review import pages as review_module
from medsanitize.pipeline.review.pages import apply_decisions, make_review
from medsanitize.pipeline.review.review_decisions import read_decisions
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.stages import review_items
from medsanitize.pipeline.state.shards import Shard
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.result import Outcome, ReviewItem, Sanitized
from PIL import Image

from tests.helpers.browser import browser
from tests.helpers.hospital import CANARIES, tree

ONE = Options(workers=1)
APPROVED = '{name: chest-ct, version: "1.0", mode: pseudonymous, approve: required}'
NASTY = f"<img src=x onerror=alert(1)>{CANARIES[0]}</script>"
Workplace = Callable[..., Policy]


def picture(shade: int) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (240, 60), shade).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(autouse=True)
def _doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object function that applies decisions, with one review item per patient for the pixels of CT."""
    original = DicomSanitizer.__call__

    def call(self: DicomSanitizer, data: Any, context: Context) -> Sanitized:
        done = original(self, data, context)
        if done.record.outcome is not Outcome.RELEASED or done.record.modality != "CT":
            return done
        verdicts = {decision.location: decision.verdict for decision in context.decisions}
        verdict = verdicts.get("pixels")
        assert verdict != "quarantine"
        if verdict is None:
            told = ReviewItem("pixels", "ocr:unsure", f"{NASTY} {context.patient}", picture(9), picture(200))
            return replace(done, review_items=(told,))
        whole = b"".join(piece for piece in done.files[0].pieces if isinstance(piece, bytes))
        whole = whole[:-2] + (b"\1\0" if verdict == "keep" else b"\2\0")
        return replace(done, files=(replace(done.files[0], pieces=(whole,)),))

    monkeypatch.setattr(DicomSanitizer, "__call__", call)


class Desk:
    """A reviewer of one policy: reads the ids of the page and submits decisions."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.page = workspace_of(policy).review_page().read_text()
        self.id = re.findall(r'data-page="([^"]*)"', self.page)[0]
        self.digest = re.findall(r'data-digest="([^"]*)"', self.page)[0]
        names = re.findall(r'type="radio" name="([^"]*)"', self.page)
        self.review_items = [name for name in dict.fromkeys(names) if re.fullmatch("[0-9a-f]{32}", name)]
        self.sample = [name for name in dict.fromkeys(names) if name.startswith("object-")]

    def file(self, approving: bool = False, **changes: Any) -> Path:
        path = self.policy.output.parent / "decisions.json"
        facts = {
            "version": 1,
            "page": self.id,
            "approve": self.digest if approving else None,
            "decisions": {},
            **changes,
        }
        path.write_text(json.dumps(facts))
        return path

    def hand_in(self, decisions: dict[str, str], approve: bool = False) -> Any:
        return apply_decisions(self.policy, self.file(approve, decisions=decisions))


@pytest.fixture
def desk(workplace: Workplace) -> Callable[..., Desk]:
    """Run a policy that requires approval, make the page, and start the review."""

    def sit(name: str = "w", **sections: str) -> Desk:
        # The planted sanitizer changes pixels without a reason, which validation would quarantine.
        policy = workplace(name, **{"release": APPROVED, "validation": "'off'", **sections})
        run(policy, ONE)
        make_review(policy)
        return Desk(policy)

    return sit


# -- the page ---------------------------------------------------------------------------------


def test_the_page_shows_review_items_quarantine_sample_and_counts(desk: Callable[..., Desk]) -> None:
    one = desk()
    assert len(one.review_items) == 3  # a review item of several objects is shown once
    assert len(one.sample) == 15
    assert one.page.count("data:image/png") == 6
    assert "cut.dcm" in one.page
    assert "In 4 objects." in one.page
    assert "data:image/jpeg" in one.page
    assert "(0010,0010)" in one.page


def test_boxes_can_be_drawn_on_sample_pictures_of_an_image(desk: Callable[..., Desk]) -> None:
    page = desk().page

    tools = re.findall(r'data-source="([^"]*)" data-rows="(\d+)" data-columns="(\d+)"', page)
    sources = [(dict(json.loads(unescape(source))), rows, columns) for source, rows, columns in tools]
    assert ("GE MEDICAL SYSTEMS", "CT", "128", "128") in [
        (source.get("manufacturer"), source.get("modality"), rows, columns)
        for source, rows, columns in sources
    ]


def test_values_are_escaped_and_no_resource_is_loaded(desk: Callable[..., Desk]) -> None:
    page = desk().page
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror" in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert not re.search(r"(src|href)=\"(?!data:image/)|url\(|@import|https?://", page)
    assert "default-src 'none'" in page


def test_the_page_is_readable_by_its_owner_only_and_states_phi(desk: Callable[..., Desk]) -> None:
    one = desk()
    assert workspace_of(one.policy).review_page().stat().st_mode & 0o777 == 0o600
    assert workspace_of(one.policy).review_page().parent == one.policy.state
    assert "Contains PHI." in one.page


def test_review_items_are_stored_encrypted(desk: Callable[..., Desk]) -> None:
    one = desk()
    one.policy.state.joinpath(workspace_of(one.policy).review_page().name).unlink()
    for path in one.policy.state.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert CANARIES[0].encode() not in content
        assert picture(9)[20:60] not in content


def test_the_page_is_deterministic(desk: Callable[..., Desk]) -> None:
    one, two = desk("one"), desk("two")
    assert (one.digest, one.review_items, one.id) == (two.digest, two.review_items, two.id)
    assert one.page.replace("/one/", "/two/") == two.page


def test_the_page_is_split_when_it_is_full(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_module, "MAX_CARDS", 2)
    policy = workplace(release=APPROVED)
    run(policy, ONE)
    made = make_review(policy)
    assert (len(made.pages), made.review_items, made.left_out) == (2, 3, 0)
    assert "page 2 of 2" in made.pages[1].read_text()
    assert "Quarantined objects" not in made.pages[1].read_text()


def test_items_above_the_limit_are_counted_and_reported(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review_items, "PER_RUN", 1)
    policy = workplace(release=APPROVED)
    run(policy, ONE)
    made = make_review(policy)
    assert (made.review_items, made.left_out) == (1, 8)
    assert "more review items were not stored" in made.pages[0].read_text()


def test_review_items_of_shards_are_merged(workplace: Workplace) -> None:
    policy = workplace(release=APPROVED)
    run(policy, Options(workers=1, inventory_only=True))
    for number in (1, 2):
        run(policy, Options(workers=1, shard=Shard(number, 2)))
    run(policy, ONE)
    assert make_review(policy).review_items == 3


def test_an_anonymous_run_keeps_no_review_items(workplace: Workplace) -> None:
    policy = workplace(release='{name: a, version: "1", mode: anonymous}')
    run(policy, ONE)
    told = {"audit.json", "metrics.prom", "report.html", "return.json", "run.lock"}
    assert {path.name for path in policy.state.iterdir()} == told
    with pytest.raises(UsageError, match="cannot be reviewed"):
        make_review(policy)


def test_an_anonymous_run_cannot_wait_for_approval(workplace: Workplace) -> None:
    with pytest.raises(PolicyError, match="cannot wait for approval"):
        workplace(release='{name: a, version: "1", mode: anonymous, approve: required}')


def test_there_is_no_review_before_a_run(workplace: Workplace) -> None:
    policy = workplace(release=APPROVED)
    with pytest.raises(UsageError, match="no state"):
        make_review(policy)
    run(policy, Options(workers=1, inventory_only=True))
    with pytest.raises(UsageError, match="not finished"):
        make_review(policy)


def test_a_published_release_can_be_viewed_but_not_decided_on(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, ONE)
    made = make_review(policy)
    page = made.pages[0].read_text()
    assert (made.ending, made.sampled) == ("published", 15)
    assert 'type="radio"' not in page
    with pytest.raises(UsageError, match="published"):
        apply_decisions(policy, Desk(policy).file())


# -- decisions --------------------------------------------------------------------------------


def test_a_review_without_changes_approves_the_reviewed_release(desk: Callable[..., Desk]) -> None:
    one = desk()
    taken = one.hand_in({one.sample[0]: "release"}, approve=True)
    done = run(one.policy, ONE)
    assert (taken.objects, done.ending, done.digest) == (0, "published", one.digest)
    assert not workspace_of(one.policy).review_page().exists()
    assert "review by a person: passed" in (one.policy.output / "provenance.jsonld").read_text()


def test_a_decision_is_applied_to_every_affected_object(desk: Callable[..., Desk]) -> None:
    one = desk()
    taken = one.hand_in({one.review_items[0]: "keep", one.review_items[1]: "blank"}, approve=True)
    again = run(one.policy, ONE)
    ends = [path.read_bytes()[-2:] for path in (one.policy.output / ".staging" / "data").rglob("*.dcm")]
    assert taken.objects == 9
    assert again.ending == "awaiting_approval"  # the approved release differs from the staged one
    assert (ends.count(b"\1\0"), ends.count(b"\2\0")) == (4, 4)


def test_the_next_page_shows_open_items_and_changes(desk: Callable[..., Desk]) -> None:
    one = desk()
    one.hand_in({one.review_items[0]: "keep", **dict.fromkeys(one.sample, "release")})
    run(one.policy, ONE)
    make_review(one.policy)
    two = Desk(one.policy)
    assert two.review_items == one.review_items[1:]
    assert len(two.sample) in (4, 5)
    assert "It changed after the last review" in two.page
    two.hand_in({}, approve=True)
    assert run(one.policy, ONE).ending == "published"


def test_quarantine_by_review_is_an_outcome_with_its_rule(desk: Callable[..., Desk]) -> None:
    one = desk()
    one.hand_in({one.review_items[0]: "quarantine", one.sample[0]: "quarantine"})
    again = run(one.policy, ONE)
    assert again.quarantined["review"] in (4, 5, 6)
    assert again.ending == "awaiting_approval"
    assert sum(again.outcomes.values()) == 20
    assert "A reviewer quarantined it" in (make_review(one.policy), Desk(one.policy))[1].page


def test_the_same_decisions_give_the_same_release(desk: Callable[..., Desk]) -> None:
    trees = []
    for name in ("a", "b"):
        one = desk(name)
        one.hand_in({one.review_items[0]: "keep", one.review_items[2]: "quarantine"})
        staged = run(one.policy, Options(workers=1))
        assert run(one.policy, Options(workers=1, approve=staged.digest)).ending == "published"
        trees.append(tree(one.policy.output))
    assert trees[0] == trees[1]


def test_a_run_killed_after_the_decisions_gives_the_same_release(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    from medsanitize.pipeline import requeue
    from medsanitize.pipeline import run as module
    from medsanitize.pipeline.stages import audit, sanitize

    trees = []
    for name in ("a", "b"):
        one = desk(name)
        one.hand_in({one.review_items[0]: "keep", one.review_items[2]: "quarantine"})
        if name == "b":
            steps = (
                (requeue, "remove_unreleased"),
                (sanitize, "sanitize_objects"),
                (audit, "audit_objects"),
                (module, "give_evidence"),
                (module, "_conclude"),
            )
            for place, attribute in steps:
                with monkeypatch.context() as patch:
                    patch.setattr(place, attribute, _killed)
                    with pytest.raises(KeyboardInterrupt):
                        run(one.policy, ONE)
        staged = run(one.policy, ONE)
        run(one.policy, Options(workers=1, approve=staged.digest))
        trees.append(tree(one.policy.output))
    assert trees[0] == trees[1]


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_object_that_failed_the_release_can_be_quarantined(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medsanitize.pipeline.stages import audit as audit_stage

    original = audit_stage._audit_one
    first: list[str] = []

    def audit(worker: Any, target: Any) -> Any:
        first[:] = first or [target.sha256]
        found = original(worker, target)
        return replace(found, findings=(("file", "audit:made-up"),)) if target.sha256 == first[0] else found

    monkeypatch.setattr(audit_stage, "_audit_one", audit)
    policy = workplace()
    refused = run(policy, ONE)
    make_review(policy)
    page = workspace_of(policy).review_page().read_text()
    finding = re.findall(r'name="(finding-[0-9a-f]{32})"', page)[0]
    apply_decisions(policy, Desk(policy).file(decisions={finding: "quarantine"}))
    done = run(policy, ONE)
    assert (refused.ending, done.ending, done.quarantined["review"]) == ("refused", "published", 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"version": True},
        {"more": 1},
        {"page": 7},
        {"approve": True},
        {"decisions": []},
        {"decisions": {"x": "keep"}},
        {"decisions": {"object-1": "keep"}},
        {"decisions": {"object-1": ["release"]}},
        {"decisions": {"f" * 32: "release"}},
    ],
)
def test_a_decision_file_of_another_format_is_rejected(tmp_path: Path, changes: dict[str, Any]) -> None:
    facts = {"version": 1, "page": "0" * 32, "approve": None, "decisions": {"object-1": "release"}}
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(facts))
    assert read_decisions(file) == facts
    file.write_text(json.dumps({**facts, **changes}))
    with pytest.raises(UsageError, match="does not contain decisions"):
        read_decisions(file)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"version":1,"version":1}', "[" * 100_000])
def test_an_invalid_decision_file_is_rejected(tmp_path: Path, content: str) -> None:
    (tmp_path / "decisions.json").write_text(content)
    with pytest.raises(UsageError, match="does not contain decisions"):
        read_decisions(tmp_path / "decisions.json")


def test_decisions_of_another_page_are_rejected_and_not_stored(desk: Callable[..., Desk]) -> None:
    one = desk()
    before = run(one.policy, ONE).digest
    for changes, told in (
        ({"page": "0" * 32}, "another run"),
        ({"approve": "0" * 64}, "not for the staged release"),
        ({"decisions": {one.review_items[0]: "quarantine", "f" * 32: "keep"}}, "not on the page"),
    ):
        with pytest.raises(UsageError, match=told):
            apply_decisions(one.policy, one.file(**changes))
    after = run(one.policy, ONE)
    assert (after.digest, after.quarantined.get("review")) == (before, None)


def test_decisions_are_stored_until_a_run_of_their_policy(
    desk: Callable[..., Desk], workplace: Workplace
) -> None:
    one = desk()
    changed = workplace(release=APPROVED, deduplicate="{pixels: ignore}")
    with pytest.raises(UsageError, match="policy or one of its lists has changed"):
        apply_decisions(changed, one.file())


def test_decisions_can_be_submitted_page_by_page_and_corrected(desk: Callable[..., Desk]) -> None:
    one = desk()
    one.hand_in({one.review_items[0]: "quarantine"})
    one.hand_in({one.review_items[1]: "keep"})
    taken = one.hand_in({one.review_items[0]: "blank"})
    again = run(one.policy, ONE)
    assert (taken.objects, again.quarantined.get("review")) == (9, None)


def test_a_restart_discards_the_page(desk: Callable[..., Desk]) -> None:
    one = desk()
    shutil.rmtree(one.policy.inputs[0] / "p0")
    run(one.policy, ONE)
    assert not workspace_of(one.policy).review_page().exists()
    assert workspace_of(one.policy).database.exists()


# -- in a browser -----------------------------------------------------------------------------


@pytest.mark.system
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium (tests/install_system.sh)")
def test_decisions_made_in_a_browser_are_saved_and_applied(desk: Callable[..., Desk], tmp_path: Path) -> None:
    one = desk()
    with browser(tmp_path / "profile") as page:
        page.open(workspace_of(one.policy).review_page(), tmp_path)
        assert page.ask("document.getElementById('decided').value") == "0 of 18 decided"
        page.click(f'label:has(input[name="{one.review_items[0]}"][value="quarantine"])')
        page.press("n")
        page.press("n")
        page.press("1")
        assert page.ask("document.getElementById('decided').value") == "2 of 18 decided"
        page.ask(
            "document.getElementById('filter').value = 'sample';"
            "document.getElementById('filter').dispatchEvent(new Event('change', {bubbles: true}))"
        )
        assert page.ask("document.querySelectorAll('article:not([hidden])').length") == 15
        page.click("#save")
        saved = tmp_path / "decisions.json"
        page.until("true")
        _wait_for(saved)
        assert page.ask("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
        assert not [url for url in page.requests() if not url.startswith(("file:", "data:", "blob:"))]
        assert page.complaints() == []
    found = json.loads(saved.read_text())
    assert found["decisions"][one.review_items[0]] == "quarantine"
    assert len(found["decisions"]) == 2
    assert apply_decisions(one.policy, saved).objects > 0
    assert run(one.policy, ONE).quarantined["review"] >= 4


def _wait_for(path: Path) -> None:
    import time

    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
