"""Lists of the site in the state folder: edited, used by the next run, decisions of a review stay."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pydicom
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.edit_site_lists import edit_site_lists, site_lists
from medsanitize.pipeline.resume import release_keys
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.decisions import any_decision, store_decision
from medsanitize.policies.model import Policy
from medsanitize.policies.site_lists import STATE_FILES, with_site_lists

from tests.helpers.hospital import prepare, write_ct

ONE = Options(workers=1)
QUICK = {
    "preset": "research",
    "dicom": "{options: {clean_pixel_data: false}}",
    "pixels": "{at_risk: release, faces: ignore}",
}
WAITING = '{name: test, version: "1.0", mode: pseudonymous, approve: required}'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for number, text in ((1, "CT chest Zorbexia"), (2, "CT chest")):
        write_ct(tmp_path / f"export/{number}.dcm", number, f"P{number}", number, StudyDescription=text)
    return tmp_path


def policy(site: Path, **more: str) -> Policy:
    return prepare(site, **{**QUICK, **more})


def staged(own: Policy) -> set[str]:
    root = workspace_of(own).staging
    return {str(pydicom.dcmread(path).get("StudyDescription", "")) for path in root.rglob("*.dcm")}


def test_a_word_is_added_and_removed_and_the_file_is_private(site: Path) -> None:
    own = policy(site)
    assert edit_site_lists(own, add_never=["Ward  Nine", "Ward Nine"], add_safe=["Zorbexia"]).added == 2
    path = own.state / STATE_FILES["deny_list"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert site_lists(own).deny == ("Ward Nine",)
    path.write_text("# of the site\n" + path.read_text())
    assert edit_site_lists(own, remove_never=["Ward Nine"]).never == 0
    assert path.read_text() == "# of the site\n"


@pytest.mark.parametrize("word", ["7", "!!", "A # B", "x" * 300])
def test_an_entry_that_no_list_may_have_is_refused(site: Path, word: str) -> None:
    own = policy(site)
    with pytest.raises(UsageError) as caught:
        edit_site_lists(own, add_never=[word])
    assert word not in str(caught.value)
    assert not (own.state / STATE_FILES["deny_list"]).exists()


def test_a_word_that_is_not_listed_cannot_be_removed(site: Path) -> None:
    with pytest.raises(UsageError, match="not in never-words"):
        edit_site_lists(policy(site), remove_never=["Ward Nine"])


def test_the_lists_of_the_state_join_those_of_the_policy(site: Path) -> None:
    own = policy(site, text="{deny_list: [Ward Nine]}")
    assert edit_site_lists(own, add_never=["Ward Ten"]).never_in_force == 2
    assert with_site_lists(own).text.deny_list == ("Ward Nine", "Ward Ten")


def test_the_next_run_uses_a_new_safe_word_and_a_new_never_word(site: Path) -> None:
    own = policy(site, release=WAITING, text="{allow_list: [Zorbexia]}")
    assert run(own, ONE).ending == "awaiting_approval"
    assert "CT chest Zorbexia" in staged(own)
    edit_site_lists(own, add_never=["Zorbexia"])
    assert run(own, ONE).ending == "awaiting_approval"
    assert staged(own) == {"CT chest"}


def test_decisions_stay_when_a_word_is_added_and_go_when_the_policy_changes(site: Path) -> None:
    own = policy(site, release=WAITING)
    run(own, ONE)
    decide(own, 1, "quarantine")
    edit_site_lists(own, add_never=["Ward Nine"])
    assert run(own, ONE).quarantined == {"review": 1}
    edit_site_lists(own, add_never=["Ward Ten"])
    changed = policy(site, release=WAITING, text="{action: keep-vocabulary}")
    assert run(changed, ONE).quarantined == {}


def test_the_amended_release_equals_one_of_a_run_with_the_same_words(site: Path) -> None:
    own = policy(site, release=WAITING)
    run(own, ONE)
    edit_site_lists(own, add_never=["Zorbexia", "chest"])
    amended = run(own, ONE).digest
    for path in own.state.glob("*.sqlite*"):
        path.unlink()
    os.rename(workspace_of(own).staging, site / "gone")
    assert run(own, ONE).digest == amended


def test_a_process_killed_before_the_list_is_written_leaves_a_valid_state(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = policy(site, release=WAITING)
    first = run(own, ONE)
    decide(own, 1, "quarantine")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("medsanitize.pipeline.jobs.edit_site_lists.write_atomic", killed)
    with pytest.raises(KeyboardInterrupt):
        edit_site_lists(own, add_never=["Ward Nine"])
    assert run(own, ONE).digest == first.digest
    with state_of(own) as state:
        assert any_decision(state)
        state.close()


def test_the_command_reads_words_from_a_file_or_the_standard_input(site: Path) -> None:
    policy(site)
    path = str(site / "policy.yaml")
    result = CliRunner().invoke(cli, ["lists", path, "--never", "-", "--json"], input="Ward Nine # a ward\n")
    assert json.loads(result.stdout)["added"] == 1
    assert "Ward" not in result.output
    shown = CliRunner().invoke(cli, ["lists", path, "--show"])
    assert "Ward Nine" in shown.output


def state_of(own: Policy):  # type: ignore[no-untyped-def]
    return State(workspace_of(own).database, release_keys(own)).closed_on_failure()


def decide(own: Policy, number: int, verdict: str) -> None:
    """Store a decision as the review does."""
    with state_of(own) as state:
        with state.transaction():
            store_decision(state, [(number, "")], verdict)
        state.close()
