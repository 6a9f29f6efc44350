"""The programs that generate the tables reproduce the shipped ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from medsanitize.policies.tables.standard import _read
from medsanitize.policies.tables.vocabulary import words

REASON = "the programs are in the source, not in the wheel"
generate = pytest.importorskip("medsanitize.tools.standard_tables.generate", reason=REASON)
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
    assert lines[1] == "00080050,AccessionNumber,Z,,,,,,,,,,"


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
