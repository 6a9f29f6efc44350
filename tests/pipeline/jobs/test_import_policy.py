"""A policy from the rules of another program: stricter rules are taken over, weaker ones are listed."""

from __future__ import annotations

import json
from pathlib import Path

import medsanitize
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy
from medsanitize.policies.template import policy_template

SCRIPT = """<script>
 <e en="T" t="00080020" n="StudyDate">@incrementdate(this,-77)</e>
 <e en="T" t="00080080" n="InstitutionName">@keep()</e>
 <e en="T" t="0008103e" n="SeriesDescription">@remove()</e>
 <e en="T" t="00081030" n="StudyDescription">@remove()</e>
 <e en="T" t="00080060" n="Modality">@remove()</e>
 <e en="T" t="00280010" n="Rows">@remove()</e>
 <e en="T" t="00100010" n="PatientName">@hash(this,10)</e>
 <e en="T" t="00100040" n="PatientSex">@if(PatientSex,exists){@keep()}{@empty()}</e>
 <e en="T" t="00120063" n="DeIdentificationMethod">@always()OURS</e>
 <r en="T" t="privategroups">Remove private groups</r>
</script>
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "anonymizer.script"
    path.write_text(SCRIPT)
    return path


def imported(path: Path, preset: str = "research") -> tuple[medsanitize.ImportedPolicy, Policy]:
    made = medsanitize.import_policy(path, preset=preset, name="ct")  # type: ignore[arg-type]
    return made, loads(made.text, base=path.parent)


def test_a_stricter_rule_is_in_the_policy(script: Path) -> None:
    made, policy = imported(script)
    research = loads(policy_template("research", "ct"), base=script.parent)
    # Some IODs require a series description, and some an empty study description.
    assert policy.dicom.attributes == {"0008103e": "D", "00081030": "Z", **research.dicom.attributes}
    assert not policy.dicom.options.retain_safe_private
    assert {one.line for one in made.carried} == {4, 5, 11}


def test_a_weaker_rule_is_listed_and_the_preset_holds(script: Path) -> None:
    made, policy = imported(script)
    assert [(one.line, one.attribute) for one in made.weaker] == [(3, "InstitutionName"), (8, "PatientName")]
    assert not {"00080080", "00100010"} & set(policy.dicom.attributes)


def test_a_date_that_is_shifted_is_weaker_than_one_that_is_removed(script: Path) -> None:
    made, _ = imported(script, "ps3.15-basic")
    assert "StudyDate" in [one.attribute for one in made.weaker]


def test_what_objects_need_and_what_depends_on_them_is_not_carried_over(script: Path) -> None:
    made, policy = imported(script)
    assert [(one.line, one.attribute) for one in made.not_carried_over] == [
        (6, "Modality"),
        (7, "Rows"),
        (9, "PatientSex"),
    ]
    assert not {"00080060", "00280010"} & set(policy.dicom.attributes)


def test_attributes_that_the_file_keeps_by_not_naming_them_are_listed(script: Path) -> None:
    made, _ = imported(script)
    assert "AccessionNumber" in made.unnamed
    assert "StudyDate" not in made.unnamed


def test_no_import_weakens_a_preset(tmp_path: Path) -> None:
    keeping = tmp_path / "keeping.script"
    masks = "00080050 00080080 00080090 00100010 00100020 00100030 00080018 00080020 00104000"
    rules = "".join(f'<e en="T" t="{mask}">@keep()</e>' for mask in masks.split())
    keeping.write_text(f"<script>{rules}</script>")
    for preset in ("ps3.15-basic", "research", "hipaa-safe-harbor"):
        made, policy = imported(keeping, preset)
        plain = loads((made.text.split("# Imported")[0]), base=tmp_path)
        assert policy.dicom == plain.dicom
        assert len(made.weaker) == 9


def test_areas_of_a_device_are_in_the_policy(tmp_path: Path) -> None:
    recipe = tmp_path / "deid.dicom"
    recipe.write_text(
        'FORMAT dicom\n%filter a\nLABEL x\n  equals Manufacturer AC"ME\\n\n  coordinates 1,2,11,22\n'
    )
    _, policy = imported(recipe)
    (region,) = policy.pixels.regions
    assert (region.manufacturer, region.boxes) == ('AC"ME\\n', ((1, 2, 10, 20),))


def test_the_command_writes_a_valid_policy_and_lists_the_rest(script: Path, tmp_path: Path) -> None:
    target = tmp_path / "policy.yaml"
    arguments = ["policy", "import", str(script), str(target), "--name", "ct"]
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["rules"], found["weaker"][0]["line"]) == (0, 9, 3)
    assert loads(target.read_text(), base=tmp_path).release.name == "ct"
    again = CliRunner().invoke(cli, arguments)
    assert again.exit_code == 2
    assert "exists" in again.output


def test_the_command_prints_lines_that_it_does_not_understand(tmp_path: Path) -> None:
    path = tmp_path / "bad.script"
    path.write_text('<script>\n<e en="T" t="00100010">@forget()</e></script>')
    result = CliRunner().invoke(cli, ["policy", "import", str(path), str(tmp_path / "p.yaml")])
    assert result.exit_code == 2
    assert "2:" in result.output
    assert not (tmp_path / "p.yaml").exists()
