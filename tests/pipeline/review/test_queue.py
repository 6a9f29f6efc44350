"""A review in progress: what it shows, and that its decisions are those of the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from medsanitize import open_review, staged_frame, staged_header
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.review.pages import apply_decisions, make_review
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.result import CheckResult, Outcome, ReviewItem, Sanitized

from tests.helpers.hospital import CANARIES, tree

ONE = Options(workers=1)
APPROVED = '{name: chest-ct, version: "1.0", mode: pseudonymous, approve: required}'
Workplace = Callable[..., Policy]


@pytest.fixture(autouse=True)
def _doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object function whose CT pixels are a review item, and which writes its decisions into them."""
    original = DicomSanitizer.__call__

    def call(self: DicomSanitizer, data: Any, context: Context) -> Sanitized:
        done = original(self, data, context)
        if done.record.outcome is not Outcome.RELEASED or done.record.modality != "CT":
            return done
        record = replace(done.record, pixels=CheckResult.PASSED)
        blanked = sorted(one.location for one in context.decisions if one.verdict == "blank")
        whole = b"".join(piece for piece in done.files[0].pieces if isinstance(piece, bytes))
        whole = whole[:-2] + len(blanked).to_bytes(2, "little")
        files = (replace(done.files[0], pieces=(whole,)),)
        items = () if blanked else (ReviewItem("pixels", "ocr:unsure", CANARIES[0], b"", b""),)
        return replace(done, record=record, files=files, review_items=items)

    monkeypatch.setattr(DicomSanitizer, "__call__", call)


@pytest.fixture
def staged(workplace: Workplace) -> Callable[[str], Policy]:
    def make(name: str) -> Policy:
        policy = workplace(name, release=APPROVED, validation="'off'")
        run(policy, ONE)
        return policy

    return make


def test_a_session_shows_items_sample_series_and_quarantine(staged: Callable[[str], Policy]) -> None:
    with open_review(staged("w")) as review:
        counts = review.counts()
        (item,) = review.items()
        assert (item.rule, item.location, item.text, item.objects) == (
            "ocr:unsure",
            "pixels",
            CANARIES[0],
            12,
        )
        assert (counts.undecided, counts.sampled, counts.decided, counts.approvable) == (1, 15, 0, True)
        assert sum(one.objects for one in review.series()) == 15
        assert review.count_series() == len(review.series())
        assert len(review.objects_of_series(item.first)) == 4
        assert review.series(first=2, limit=1) == [review.series()[2]]
        assert "cut.dcm" in [Path(one.path).name for one in review.quarantined()]
        file = review.file(item.first)
        assert (staged_frame(file).rows, staged_frame(file, edge=32).png[:4]) == (128, b"\x89PNG")
        assert CANARIES[0] not in str(staged_header(file))


def test_decisions_are_those_of_the_command_line_to_the_byte(staged: Callable[[str], Policy]) -> None:
    here, there = staged("here"), staged("there")
    with open_review(here) as review:
        (item,) = review.items()
        second = review.objects_of_series(item.first)[1]
        review.decide({f"box-{item.first}-1-10-20-60-40": "blank"})
        review.decide({f"object-{second}": "quarantine"})

    make_review(there)
    page = workspace_of(there).review_page().read_text().partition('data-page="')[2].partition('"')[0]
    decisions = {f"box-{item.first}-1-10-20-60-40": "blank", f"object-{second}": "quarantine"}
    file = there.state / "decisions.json"
    file.write_text(json.dumps({"version": 1, "page": page, "approve": None, "decisions": decisions}))
    apply_decisions(there, file)

    for policy in (here, there):
        done = run(policy, ONE)
        assert done.ending == "awaiting_approval"
        assert done.outcomes["quarantined"] == 4
        run(policy, Options(workers=1, approve=done.digest))
    assert tree(Path(str(here.output))) == tree(Path(str(there.output)))


def test_approval_in_a_session_publishes(staged: Callable[[str], Policy]) -> None:
    policy = staged("w")
    with open_review(policy) as review:
        review.approve()
    assert run(policy, ONE).ending == "published"
    with pytest.raises(UsageError, match="published"):
        open_review(policy)


_DECIDE_AND_DIE = """
import os, signal, sys
from medsanitize import open_review
review = open_review(sys.argv[1])
(item,) = review.items()
review.decide({item.name: "blank"})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_decision_survives_kill_9(staged: Callable[[str], Policy]) -> None:
    policy = staged("w")
    killed = subprocess.run([sys.executable, "-c", _DECIDE_AND_DIE, str(policy.state.parent / "policy.yaml")])
    assert killed.returncode == -signal.SIGKILL
    with open_review(policy) as review:
        assert (review.counts().decided, review.counts().undecided) == (13, 0)  # a dropped copy has it, too
        assert review.counts().requeued == 13
        assert not review.counts().approvable
        with pytest.raises(UsageError, match="Run again"):
            review.approve()


def test_a_box_is_moved_and_withdrawn(staged: Callable[[str], Policy]) -> None:
    with open_review(staged("w")) as review:
        (item,) = review.items()
        first, second = f"box-{item.first}-1-1-2-3-4", f"box-{item.first}-1-5-6-7-8"
        review.decide({first: "blank"})
        review.decide({first: "withdraw", second: "blank"})
        assert review.boxes(item.first) == (("pixels/frame 1/box 5,6,7,8", "blank"),)
        review.decide({second: "withdraw"})
        assert review.boxes(item.first) == ()


@pytest.mark.parametrize(
    "box", ["1-0-0-129-10", "1-10-10-10-20", "2-0-0-10-10", "0-0-0-10-10", "1-0-0-10-129"]
)
def test_a_box_outside_its_image_is_refused(staged: Callable[[str], Policy], box: str) -> None:
    with open_review(staged("w")) as review:
        (item,) = review.items()
        with pytest.raises(UsageError, match="not in its image"):
            review.decide({f"box-{item.first}-{box}": "blank"})
        assert review.counts().decided == 0


def test_a_box_where_pixels_are_not_read_is_refused(staged: Callable[[str], Policy]) -> None:
    with open_review(staged("w")) as review:
        unread = next(
            number
            for number in review.sample()
            if (image := review.image(number)) is not None and image.rows and not image.reads_pixels
        )
        with pytest.raises(UsageError, match="does not read the pixels"):
            review.decide({f"box-{unread}-1-0-0-5-5": "blank"})


def test_a_review_excludes_a_run_and_another_review(staged: Callable[[str], Policy]) -> None:
    policy = staged("w")
    with open_review(policy):
        with pytest.raises(EnvironmentFailure):
            run(policy, ONE)
        with pytest.raises(EnvironmentFailure):
            open_review(policy)
    open_review(policy).close()


def test_a_person_withdraws_only_his_own_decisions(staged: Callable[[str], Policy]) -> None:
    policy = staged("w")
    with open_review(policy, reviewer="ann") as review:
        (item,) = review.items()
        review.decide({item.name: "blank"})
    with open_review(policy, reviewer="bob") as review:
        with pytest.raises(UsageError, match="not of the person"):
            review.decide({item.name: "withdraw"})
        assert review.counts().undecided == 0
    with open_review(policy, reviewer="ann") as review:
        review.decide({item.name: "withdraw"})
        assert review.counts().undecided == 1
        assert [one.verdict for one in review.log()] == ["blank", "withdraw"]
