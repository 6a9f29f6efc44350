"""From six questions to a policy, in a real browser."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize import POLICY_QUESTIONS, UsageError, draft_policy, load_policy, policy_problems
from medsanitize.cli import cli

from tests.helpers.desk import open_desk
from tests.helpers.desk_browser import opened_page, severe_findings, until
from tests.helpers.hospital import write_ct

QUESTIONS = POLICY_QUESTIONS[1:]
PAIRS = [
    {one.name: first.value, other.name: second.value}
    for one, other in itertools.combinations(QUESTIONS, 2)
    for first in one.choices
    for second in other.choices
]
HARBOR_FORBIDS = {("dates", "shift"), ("dates", "shift-times"), ("faces", "flag")}


def test_any_two_answers_make_a_valid_policy_that_says_so() -> None:
    for answers in PAIRS:
        if answers.get("audience") == "safe-harbor" and HARBOR_FORBIDS & set(answers.items()):
            with pytest.raises(UsageError, match="Safe Harbor"):
                draft_policy(answers)
            continue
        text = draft_policy({**answers, "export": "./ex port"})
        assert policy_problems(text, base="/nowhere") == (), answers


def test_answers_decide_what_they_say(tmp_path: Path) -> None:
    answers = ["dates=shift-times", "burned_in_text=all", "faces=deface", "earlier=drop", "export=./in"]
    arguments = [part for one in answers for part in ("--answer", one)]
    done = CliRunner().invoke(cli, ["init", str(tmp_path / "policy.yaml"), "--name", "ct", *arguments])
    assert done.exit_code == 0, done.output

    policy = load_policy(tmp_path / "policy.yaml")
    assert (policy.release.name, policy.release.approve) == ("ct", "required")
    assert policy.inputs == (tmp_path / "in",)
    assert (policy.dicom.dates.method, policy.dicom.dates.times) == ("shift", "shift")
    assert (policy.pixels.mask, policy.pixels.faces) == ("all-text", "deface")
    assert policy.dicom.options.clean_pixel_data
    assert (policy.deduplicate.registry, policy.registry is None) == ("drop", False)


def test_an_answer_never_weakens_safe_harbor_by_default() -> None:
    text = draft_policy({"audience": "safe-harbor"})
    assert "method: year" in text
    assert "faces: quarantine" in text


@pytest.mark.desk
@pytest.mark.system
def test_a_steward_makes_a_policy_without_a_terminal(tmp_path: Path) -> None:
    write_ct(tmp_path / "data" / "<b>export" / "i0", 0)
    with open_desk(tmp_path / "data") as desk, opened_page(desk) as page:
        page.click("text=New release")
        page.click("text=data/")
        page.click("text=<b>export/")
        page.click("text=Use this folder")
        page.wait_for_selector(".CodeMirror")
        page.fill("input[name=name]", "chest")
        page.check("input[name=dates][value=year]")
        until(page, "policyEditor.editor.getValue().includes('method: year')")
        # Another answer that the chosen audience does not allow is said at once.
        page.check("input[name=audience][value=safe-harbor]")
        page.wait_for_selector("text=does not allow flag")
        page.check("input[name=faces][value=deface]")
        until(page, "policyEditor.editor.getValue().includes('faces: deface')")
        assert severe_findings(page) == []

        page.click(".CodeMirror-lines")
        page.keyboard.press("Control+Home")
        page.keyboard.type("bogus: 1\n")
        page.wait_for_selector("text=Line 1, column 1: The key 'bogus' is unknown")
        page.click("text=Follow the answers again")
        page.wait_for_selector(".problems", state="detached")
        page.click("text=Create the release")
        page.wait_for_url("**/inventory")

    policy = load_policy(tmp_path / "data" / "chest" / "policy.yaml")
    assert policy.preset == "hipaa-safe-harbor"
    assert policy.inputs == (tmp_path / "data" / "<b>export",)
    assert (tmp_path / "data" / "chest" / "release.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
@pytest.mark.desk
@pytest.mark.system
def test_a_policy_is_edited_with_completion_and_never_over_another_change(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(draft_policy({}))
    with open_desk(tmp_path) as desk, opened_page(desk) as page:
        page.click("text=my-release")
        page.click("nav >> text=Policy")
        page.click(".CodeMirror-lines")
        page.keyboard.press("Control+End")
        page.keyboard.type("\nvalid")
        page.keyboard.press("Control+Space")
        page.click(".CodeMirror-hint >> text=validation:")
        page.keyboard.type("a")
        page.keyboard.press("Control+Space")
        page.click(".CodeMirror-hint >> text=all")
        page.click("text=Save the policy")
        page.wait_for_selector("text=The policy is stored")
        assert load_policy(tmp_path / "policy.yaml").validation == "all"

        changed = (tmp_path / "policy.yaml").read_text() + "# by somebody else\n"
        (tmp_path / "policy.yaml").write_text(changed)
        desk.cookie = next(one["value"] for one in page.context.cookies() if one["name"] == "desk")
        path = page.url.removeprefix(desk.origin).partition("?")[0]
        answer = desk.post(path, text=draft_policy({}), digest="0" * 16)
        assert (answer.status, "was changed since" in answer.text) == (409, True)
        assert (tmp_path / "policy.yaml").read_text() == changed


@pytest.mark.desk
@pytest.mark.system
def test_rules_of_another_program_fill_the_policy_and_say_what_became_of_them(tmp_path: Path) -> None:
    write_ct(tmp_path / "export" / "one.dcm", 1, "P1", 1)
    rules = tmp_path / "anonymizer.script"
    rules.write_text(
        '<script>\n<e en="T" t="00080070" n="Manufacturer">@remove()</e>\n'
        '<e en="T" t="00101010" n="PatientAge">@keep()</e>\n</script>\n'
    )
    with open_desk(tmp_path) as desk, opened_page(desk) as page:
        page.click("text=New release")
        page.click(f"text={tmp_path.name}/")
        page.click("text=export/")
        page.click("text=Use this folder")
        page.wait_for_selector(".CodeMirror")
        page.set_input_files("#rules", rules)
        page.wait_for_selector("text=2 rules of")
        page.click("summary >> text=carried over")
        assert "Manufacturer" in page.inner_text("#imported")
        assert severe_findings(page) == []
        page.fill("input[name=name]", "taken-over")
        page.click("text=Create the release")
        page.wait_for_url("**/inventory")
    policy = load_policy(tmp_path / "taken-over" / "policy.yaml")
    assert "Manufacturer: D # line 2: @remove" in (tmp_path / "taken-over" / "policy.yaml").read_text()
    assert policy.inputs == (tmp_path / "export",)
