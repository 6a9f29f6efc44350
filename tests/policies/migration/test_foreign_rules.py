"""Readers of other programs' rules: what each line leaves of a value, and lines that are not understood."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import PolicyError, UsageError
from medsanitize.policies.migration.ctp_actions import UnknownSyntax, read_action
from medsanitize.policies.migration.foreign_rules import ForeignRules
from medsanitize.policies.migration.read_rules import MAX_BYTES, read_foreign_rules


def read(folder: Path, text: str | bytes) -> ForeignRules:
    path = folder / "rules"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_foreign_rules(path)


def effects(found: ForeignRules) -> dict[str, str]:
    return {rule.attribute: rule.effect for rule in found.rules}


def problems(folder: Path, text: str | bytes) -> list[tuple[int, str]]:
    with pytest.raises(PolicyError) as caught:
        read(folder, text)
    return [(one.line, one.message) for one in caught.value.problems]


# -- CTP and RSNA ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "effect"),
    [
        ("@keep()", "keep"),
        ("@remove()", "remove"),
        ("", "remove"),
        ("@empty()", "empty"),
        ("@blank(8)", "empty"),
        ("@hashuid(@UIDROOT,this)", "uid"),
        ("@incrementdate(this,@DATEINC)", "shift"),
        ("@hash(this,10)", "derive"),
        ("ANON-@hash(this,10)", "derive"),
        ("@always()YES", "replace"),
        ("Some text", "replace"),
        ("@param(@SITEID)", "replace"),
        ("@append(){More text}", "keep"),
        ("@lookup(this,ptid)", "unknown"),
        ("@process()", "clean"),
        ('@contents(this,"[A-Z]\\(x\\)")', "derive"),
        ('@if(Modality,equals,"CT"){@remove()}{@remove()}', "remove"),
        ('@if(Modality,equals,"CT"){@remove()}{@keep()}', "conditional"),
        ('@if(Modality,equals,"C)T"){@quarantine()}{@remove()}', "remove"),
        ("@select(){@remove()}{@empty()}", "conditional"),
        ("a\\@b", "replace"),
    ],
)
def test_what_a_ctp_action_leaves(script: str, effect: str) -> None:
    assert read_action(script, empty_keeps=False).effect == effect


@pytest.mark.parametrize(
    "script",
    ["@forget()", "@hash(this", "@if(Modality,exists){@keep()}", "@keep", "@select(){@keep()}x", "@"],
)
def test_an_action_that_is_not_understood_is_an_error(script: str) -> None:
    with pytest.raises(UnknownSyntax):
        read_action(script, empty_keeps=False)


CTP = """<?xml version="1.0" encoding="UTF-8"?>
<script>
 <p t="DATEINC">-77</p>
 <e en="T" t="00081030" n="StudyDescription">@remove()</e>
 <e en="F" t="00081090" n="ManufacturerModelName">@keep()</e>
 <e en="T" t="0029[SITE 1.0]10" n="Mark">@keep()</e>
 <e en="T" t="00290010" n="Block">@remove()</e>
 <k en="T" t="0018">Keep group 0018</k>
 <r en="T" t="privategroups">Remove private groups</r>
 <r en="F" t="curves">Remove curves</r>
</script>
"""


def test_a_ctp_script_is_read_with_its_lines(tmp_path: Path) -> None:
    found = read(tmp_path, CTP)
    assert [(rule.line, rule.attribute, rule.effect) for rule in found.rules] == [(4, "00081030", "remove")]
    assert [(note.line, note.weaker) for note in found.notes] == [(6, True), (8, True)]
    assert found.removed == ((9, "private"),)
    assert found.keeps_unnamed


def test_an_empty_action_keeps_in_a_script_of_the_rsna_anonymizer(tmp_path: Path) -> None:
    text = """<script>
 <e en="T" t="00080060" n="Modality"></e>
 <e en="T" t="00080018" n="SOPInstanceUID">@uid</e>
 <e en="T" t="00100020" n="PatientID">@ptid</e>
 <e en="T" t="00080020" n="StudyDate">@hashdate(this,PatientID)</e>
</script>"""
    found = read(tmp_path, text)
    assert effects(found) == {
        "00080060": "keep",
        "00080018": "uid",
        "00100020": "replace",
        "00080020": "shift",
    }
    assert found.language == "RSNA Anonymizer script"
    assert not found.keeps_unnamed


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('<script>\n<e en="T" t="00100010">@forget()</e>\n</script>', 2),
        ('<script>\n<e en="T" t="name">@keep()</e></script>', 2),
        ('<script>\n\n<q en="T" t="00100010">@keep()</q></script>', 3),
        ('<script>\n<r en="T" t="everything">x</r></script>', 2),
        ('<script>\n<e en="maybe" t="00100010">@keep()</e></script>', 2),
        ("<script>\nDoe\n</script>", 2),
        ('<script>\n<e en="T" t="00100010">@keep()</e>\n', 3),
        ('<!DOCTYPE s [\n<!ENTITY a "aaaa">]>\n<script/>', 1),
    ],
)
def test_a_script_with_an_unknown_line_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    assert problems(tmp_path, text)[0][0] == line


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE s [<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY a{n} "&a{n - 1 if n else ""};&a{n - 1 if n else ""};">' for n in range(30)
    )
    text = bomb + ']>\n<script><e en="T" t="00100010">&a29;</e></script>'
    assert "document type" in problems(tmp_path, text)[0][1]


def test_messages_do_not_quote_a_script(tmp_path: Path) -> None:
    text = '<script><e en="T" t="DOE-JANE" n="DOE-JANE">@DOEJANE(x)</e></script>'
    with pytest.raises(PolicyError) as caught:
        read(tmp_path, text)
    assert "DOE" not in str(caught.value).upper()


# -- deid -----------------------------------------------------------------------------------

DEID = """FORMAT dicom

%filter graylist

LABEL One scanner # a comment
  contains Modality US
  + equals Manufacturer ACME
  + equals Rows 600
  ctpcoordinates 0,0,800,40
  coordinates 10,20,30,60

LABEL Part of a name
  contains Manufacturer AC
  coordinates 0,0,10,10

%header

ADD PatientIdentityRemoved YES
BLANK PatientBirthDate
KEEP Modality
REPLACE PatientID var:entity_id
REPLACE SOPInstanceUID deid_func:suid
REPLACE StationName STATION
JITTER StudyDate -31
REMOVE (0008,1030)
REMOVE endswith:DeliveryTime
REMOVE PatientComments func:is_name
KEEP (0033,"ACME 1.0",0E)
REMOVE ALL func:is_tag_private
REMOVE NoSuchKeyword

%fields names
FIELD contains:Name
"""


def test_a_deid_recipe_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, DEID)
    assert effects(found) == {
        "00120062": "replace",
        "00100030": "empty",
        "00080060": "keep",
        "00100020": "unknown",
        "00080018": "uid",
        "00081010": "replace",
        "00080020": "shift",
        "00081030": "remove",
        "00104000": "conditional",
    } | {rule.attribute: "remove" for rule in found.rules if rule.line == 26}
    assert found.removed == ((29, "private"),)
    assert {note.line for note in found.notes} == {12, 28, 30, 32}


def test_an_exact_filter_becomes_areas_of_a_device(tmp_path: Path) -> None:
    (region,) = read(tmp_path, DEID).regions
    assert dict(region.fields) == {"modality": "US", "manufacturer": "ACME", "rows": 600}
    assert region.boxes == ((0, 0, 800, 40), (10, 20, 20, 40))


def test_fields_are_found_by_a_part_of_their_keyword(tmp_path: Path) -> None:
    found = read(tmp_path, "FORMAT dicom\n%header\nREMOVE startswith:PatientBirth\n")
    assert {"00100030", "00100032"} <= set(effects(found))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("FORMAT dicom\n%header\nFORGET PatientName\n", 3),
        ("FORMAT dicom\n%header\nREPLACE PatientName\n", 3),
        ("FORMAT dicom\n%heading\nREMOVE PatientName\n", 2),
        ("FORMAT dicom\nREMOVE PatientName\n%header\n", 2),
        ("FORMAT dicom\n%filter a\ncontains Modality CT\n", 3),
        ("FORMAT dicom\n%filter a\nLABEL x\n  resembles Modality CT\n", 4),
        ("FORMAT dicom\n%filter a\nLABEL x\n  coordinates 0,0,a,5\n", 4),
        ("FORMAT nifti\n%header\nREMOVE PatientName\n", 1),
    ],
)
def test_a_recipe_with_an_unknown_line_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    assert problems(tmp_path, text)[0][0] == line


# -- Kitware and DSA ------------------------------------------------------------------------


def test_a_dictionary_of_dicom_anonymizer_is_read(tmp_path: Path) -> None:
    text = """{
 "(0x0008, 0x1030)": "delete",
 "(0x0008, 0x0018)": "replace_UID",
 "(0x10, 0x10)": "deleteOrEmptyOrReplace",
 "(0x5000, 0x0000, 0xFF00, 0x0000)": "delete",
 "(0x0008, 0x103E)": {"action": "regexp", "find": "a", "replace": "b"},
 "(0x0029, 0x1010)": "keep",
 "(0x0008, 0x0080)": "my_own_function"
}"""
    found = read(tmp_path, text)
    assert effects(found) == {
        "00081030": "remove",
        "00080018": "uid",
        "00100010": "replace",
        "50xxxxxx": "remove",
        "0008103e": "derive",
    }
    assert [(note.line, note.weaker) for note in found.notes] == [(7, True), (8, False)]


def test_rules_of_imagedephi_are_read(tmp_path: Path) -> None:
    text = """---
name: Ours
svs:
  associated_images:
    label:
      action: keep
    macro:
      action: delete
  image_description:
    AppMag:
      action: keep
    User:
      action: keep
dicom:
  delete_custom_metadata: false
  metadata:
    StudyDescription:
      action: delete
    StudyInstanceUID:
      action: replace_uid
"""
    found = read(tmp_path, text)
    assert effects(found) == {"00081030": "remove", "0020000d": "uid"}
    assert [(note.line, note.weaker) for note in found.notes] == [(5, True), (12, True), (15, True)]


def test_settings_of_wsi_deid_are_read(tmp_path: Path) -> None:
    text = """[global]
server.port = 8080
[wsi_deid]
always_redact_label = False
redact_macro_square = True
no_redact_control_keys = {
    "^internal;aperio_version$": "",
    "^a[(]b": ""}
show_import_button = True
"""
    notes = read(tmp_path, text).notes
    assert [(note.line, note.weaker) for note in notes] == [(4, True), (5, False), (6, True)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n "(0x0008; 0x1030)": "delete"}', 2),
        ('{\n "(0x0008, 0x1030)": "delete",\n "(0x0008, 0x1030)": "keep"}', 3),
        ("svs:\n  extras:\n    a: b\n", 2),
        ("dicom:\n  metadata:\n    StudyDate:\n      action: forget\n", 3),
        ("[wsi_deid]\nkeep_everything = True\n", 2),
        ("[wsi_deid]\nhide_metadata_keys = {\n", 2),
        ("just: text\n", 1),
    ],
)
def test_rules_with_an_unknown_line_are_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    assert line in [found for found, _ in problems(tmp_path, text)]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="4 MB"):
        read(tmp_path, b"#" * (MAX_BYTES + 1))


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_foreign_rules(tmp_path / "none")
