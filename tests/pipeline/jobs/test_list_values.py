"""The values that are left in a release or in staged objects: counted, sorted, searched, and ruled out."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.add_rule import add_rule
from medsanitize.pipeline.jobs.list_values import open_values
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state.value_index import ValueIndex, ValueIndexWriter
from medsanitize.policies.load import load
from medsanitize.policies.model import Policy
from medsanitize.verifiers.leaks.object_values import AttributePath, ObjectValue

from tests.helpers.hospital import prepare, write_ct
from tests.pipeline.jobs.test_edit_site_lists import QUICK, WAITING, decide

ONE = Options(workers=1)
MARK = "<script>alert(1)</script>"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        write_ct(
            tmp_path / f"export/{number}.dcm",
            number,
            f"P{number}",
            number,
            StudyDescription="CT chest" if number < 3 else "CT abdomen",
        )
    return tmp_path


def policy(site: Path, **more: str) -> Policy:
    return prepare(site, **{**QUICK, "release": WAITING, **more})


def test_values_of_staged_objects_are_sorted_by_rarity(site: Path) -> None:
    own = policy(site)
    run(own, ONE)
    with open_values(own) as index:
        assert (index.objects, index.unlisted) == (3, 0)
        found = index.values("StudyDescription")
        assert [(one.value, one.objects) for one in found] == [("CT abdomen", 1), ("CT chest", 2)]
        assert (workspace_of(own).staging / found[0].example).is_file()
        assert index.count("StudyDescription") == 2
        assert [one.value for one in index.values(search="ABDO")] == ["CT abdomen"]
        assert index.count(search="%") == 0
    assert stat.S_IMODE(workspace_of(own).values.stat().st_mode) == 0o600


def test_the_index_of_a_policy_is_kept_until_its_objects_change(site: Path) -> None:
    own = policy(site)
    run(own, ONE)
    with open_values(own):
        first = workspace_of(own).values.stat().st_mtime_ns
    with open_values(own):
        assert workspace_of(own).values.stat().st_mtime_ns == first
    add_rule(site / "policy.yaml", "StudyDescription")
    changed = load(site / "policy.yaml")
    run(changed, ONE)
    with open_values(changed) as index:
        assert index.count("StudyDescription") in (0, 1)
        assert not index.values(search="chest")


def test_a_rule_for_a_value_keeps_the_decisions_and_the_text_of_the_policy(site: Path) -> None:
    own = policy(site)
    run(own, ONE)
    decide(own, 1, "quarantine")
    path = site / "policy.yaml"
    path.write_text("# our policy\n" + path.read_text())
    add_rule(path, "RequestAttributesSequence.StudyDescription")
    assert path.read_text().startswith("# our policy\n")
    changed = load(path)
    assert changed.dicom.attributes["00081030"] == "X"
    assert run(changed, ONE).quarantined == {"review": 1}


def test_a_published_release_is_listed_by_its_folder_and_by_its_policy(site: Path) -> None:
    own = policy(site, release='{name: test, version: "1.0", mode: pseudonymous}')
    run(own, ONE)
    assert isinstance(own.output, Path)
    with open_values(own.output) as by_folder, open_values(own) as by_policy:
        assert by_folder.attributes(limit=1000) == by_policy.attributes(limit=1000)
        assert by_folder.count() == by_policy.count() > 20


@pytest.mark.parametrize("attribute", ['(0029,"ACME",10)', "NoSuchAttribute", "00290010"])
def test_an_attribute_without_a_rule_is_refused_and_the_policy_stays(site: Path, attribute: str) -> None:
    policy(site)
    before = (site / "policy.yaml").read_text()
    with pytest.raises(UsageError):
        add_rule(site / "policy.yaml", attribute)
    assert (site / "policy.yaml").read_text() == before


def test_there_are_no_values_before_a_run_or_without_a_release(site: Path) -> None:
    with pytest.raises(UsageError, match="no state"), open_values(policy(site)):
        pass
    with pytest.raises(UsageError, match="not a release"), open_values(site):
        pass


def test_thousands_of_values_are_counted_in_pages_and_hostile_ones_are_data(tmp_path: Path) -> None:
    attribute = AttributePath("ImageComments", "LT", False)
    writer = ValueIndexWriter(tmp_path / "v.sqlite")
    for number in range(3000):
        text = MARK if number < 5 else f"value {number} %_! \ud800"
        writer.add(
            f"data/{number}", {attribute: {text.encode("utf-8", "replace"): ObjectValue(text, 9, b"")}}
        )
    writer.finish("x", 0)
    with ValueIndex(tmp_path / "v.sqlite") as index:
        assert index.is_of("x")
        assert index.count() == 2996
        assert len(list(index.all_values("ImageComments"))) == 2996
        assert [one.objects for one in index.values(search="<SCRIPT>")] == [5]
        assert index.count(search="%_!") == 2995
        assert index.values("x'; DROP TABLE found; --") == ()
        assert index.values(offset=2995)[0].value == MARK


def test_an_index_that_was_not_finished_is_made_again(tmp_path: Path) -> None:
    ValueIndexWriter(tmp_path / "v.sqlite")._flush()
    with ValueIndex(tmp_path / "v.sqlite") as index:
        assert not index.is_of("")
    writer = ValueIndexWriter(tmp_path / "v.sqlite")
    writer.finish("", 2)
    with ValueIndex(tmp_path / "v.sqlite") as index:
        assert index.is_of("")
        assert index.unlisted == 2


def test_the_command_prints_values_and_logs_none(site: Path) -> None:
    own = policy(site)
    run(own, ONE)
    path = str(site / "policy.yaml")
    result = CliRunner().invoke(cli, ["values", path, "--json", "--log-json", "--most", "0"])
    facts = json.loads(result.stdout)
    listed = {one["path"]: one["values"] for one in facts["attributes"]}
    assert [one["value"] for one in listed["StudyDescription"]] == ["CT abdomen", "CT chest"]
    assert "abdomen" not in result.stderr
    text = CliRunner().invoke(cli, ["values", path, "--attribute", "StudyDescription", "--at-most", "1"])
    assert "CT abdomen" in text.output
    assert "CT chest" not in text.output
    removed = CliRunner().invoke(cli, ["values", path, "--remove", "StudyDescription"])
    assert removed.exit_code == 0
    assert load(site / "policy.yaml").dicom.attributes["00081030"] == "X"
