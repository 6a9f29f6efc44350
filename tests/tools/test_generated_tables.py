"""The programs that generate the tables reproduce the shipped ones."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest
from medsanitize.errors import UsageError
from medsanitize.policies.tables.standard import _read
from medsanitize.policies.tables.vocabulary import words

REASON = "the programs are in the source, not in the wheel"
generate = pytest.importorskip("medsanitize.tools.standard_tables.generate", reason=REASON)
part15 = pytest.importorskip("medsanitize.tools.standard_tables.part15", reason=REASON)
generate_vocabulary = pytest.importorskip(
    "medsanitize.tools.standard_tables.generate_vocabulary", reason=REASON
)


def test_iods_match_the_generator_output() -> None:
    pytest.importorskip("highdicom")
    assert generate.iods_json() == _read("iods.json")


def test_generator_writes_rows_in_the_order_of_masks() -> None:
    source = [
        {"tag": "(60XX,4000)", "name": "Overlay Comments", "basicProfile": "X", "cleanGraphOpt": "C"},
        {"tag": "(0008,0050)", "name": "Accession Number", "basicProfile": "Z"},
        {"tag": "(gggg,eeee) where gggg is odd", "name": "Private Attributes", "basicProfile": "X"},
    ]
    lines = generate.confidentiality_csv(source).splitlines()
    assert [line.split(",")[0] for line in lines] == ["mask", "00080050", "60xx4000", "private"]
    assert lines[1] == "00080050,AccessionNumber,SH,Z,,,,,,,,,,"


DOCBOOK = """<?xml version="1.0"?>
<book xmlns="http://docbook.org/ns/docbook"><title>PS3.15</title>
<subtitle>DICOM PS3.15 2027a - Security and System Management Profiles</subtitle>
<chapter><table xml:id="table_E.1-1"><thead><tr>
{heads}</tr></thead><tbody>
<tr><td><para>Overlay \u200bComments</para></td><td><para>(60xx,4000)</para></td><td><para>Y</para></td>
<td><para>X/Z/U*<footnote><para>Of sequences.</para></footnote></para></td>{empty}<td><para>C</para></td></tr>
</tbody></table>
<table xml:id="table_E.3.10-1"><thead><tr>{private}</tr></thead><tbody>
<tr><td>(2001,xx0a)</td><td>Philips Imaging DD 001</td><td>OW/OB</td><td>1</td><td>Pixels</td></tr>
</tbody></table></chapter></book>"""
_OPTIONS = (
    "Rtn. Safe Priv. Opt.|Rtn. UIDs Opt.|Rtn. Dev. Id. Opt.|Rtn. Inst. Id. Opt.|Rtn. Pat. Chars. Opt.|"
    "Rtn. Long. Full Dates Opt.|Rtn. Long. Modif. Dates Opt.|Clean Desc. Opt.|Clean Struct. Cont. Opt."
).split("|")


def docbook(tmp_path: Path) -> Path:
    def heads(names: list[str]) -> str:
        return "".join(f"<th><para>{name}</para></th>" for name in names)

    columns = ["Attribute Name", "Tag", "Retd. (from PS3.6)", "Basic Prof.", *_OPTIONS, "Clean Graph. Opt."]
    private = heads(["Data Element", "Private Creator", "VR", "VM", "Meaning"])
    empty = "<td><para/></td>" * len(_OPTIONS)
    path = tmp_path / "part15.xml"
    path.write_text(DOCBOOK.format(heads=heads(columns), empty=empty, private=private), encoding="utf-8")
    return path


def test_generator_reads_the_docbook_of_the_standard(tmp_path: Path) -> None:
    generate.main([str(docbook(tmp_path)), "--out", str(tmp_path)])

    assert (tmp_path / "edition.txt").read_text() == "2027a\n"
    table, private = (tmp_path / name for name in ("confidentiality.csv", "safe_private.csv"))
    assert table.read_text().splitlines()[1] == "60xx4000,OverlayComments,LT,X/Z/U*,,,,,,,,,,C"
    assert private.read_text().splitlines()[1] == "2001,Philips Imaging DD 001,0a,UN,1,opaque"


def test_generator_rejects_a_table_without_a_column(tmp_path: Path) -> None:
    source = tmp_path / "table.json"
    source.write_text('[{"name": "Accession Number", "tag": "(0008,0050)"}]')

    with pytest.raises(UsageError, match="no column basicProfile"):
        part15.read_table(source, part15.CONFIDENTIALITY)


@pytest.mark.parametrize(
    ("tag", "name", "keyword", "vr"),
    [
        ("(0008,FFF0)", "Names to Use Sequence", "NamesToUseSequence", "SQ"),
        ("(0008,FFF1)", "Start DateTime", "StartDateTime", "DT"),
        ("(0008,FFF2)", "Dose Model Name", "DoseModelName", "LO"),
    ],
)
def test_an_attribute_that_the_dictionary_lacks_is_named_as_in_the_standard(
    tag: str, name: str, keyword: str, vr: str
) -> None:
    row = generate.confidentiality_csv([{"tag": tag, "name": name, "basicProfile": "X"}]).splitlines()[1]
    assert row.split(",")[1:4] == [keyword, vr, "X"]


def test_the_shipped_table_is_as_the_generator_writes_it() -> None:
    written = _read("confidentiality.csv")
    rows = [
        {
            "tag": "(gggg,eeee) where gggg is odd" if mask == "private" else f"({mask[:4]},{mask[4:]})",
            # The name of an attribute is not shipped; its keyword gives the same keyword and VR.
            "name": re.sub(r"(?<=[a-z])(?=[A-Z])", " ", row["keyword"]).replace("Date Time", "DateTime"),
            "basicProfile": row["basic"],
            **{source: row[column] for column, source in generate.SOURCE_COLUMNS.items()},
        }
        for row in csv.DictReader(written.splitlines())
        for mask in [row["mask"]]
    ]
    assert generate.confidentiality_csv(rows) == written


def test_the_shipped_private_table_is_as_the_generator_writes_it() -> None:
    written = _read("safe_private.csv")
    rows = [
        {**row, "element": f"({row['group']},xx{row['element']})"}
        for row in csv.DictReader(written.splitlines())
    ]
    assert generate.safe_private_csv(rows) == written


def test_no_surname_first_name_or_place_of_four_letters_is_a_word() -> None:
    pytest.importorskip(
        "faker", reason="Faker's lists of names are needed to check the vocabulary against them"
    )
    names = {name for name in generate_vocabulary.name_words() if len(name) > 3}
    assert names & words() <= generate_vocabulary.keep_words()


def test_kept_names_are_few() -> None:
    assert len(generate_vocabulary.keep_words()) < 160


def test_the_generator_reproduces_the_shipped_files(tmp_path: Path) -> None:
    pytest.importorskip("faker", reason="Faker is needed to generate the vocabulary")
    # In a separate process: libraries loaded by other tests add words to pydicom's dictionaries.
    command = [sys.executable, "-m", generate_vocabulary.__name__, "--out", str(tmp_path)]
    subprocess.run(command, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
    for name in ("vocabulary.txt", "coded_concepts.csv"):
        assert (tmp_path / name).read_bytes() == (generate_vocabulary.TABLES / name).read_bytes()
