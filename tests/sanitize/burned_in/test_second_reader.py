"""The second reader confirms what the first one read, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from medsanitize.errors import EnvironmentFailure
from medsanitize.sanitize.burned_in import second_reader
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.second_reader import agrees, confirms, is_installed, read_crop, scripts_of
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Picture = NDArray[np.uint8]

installed = pytest.mark.skipif(not is_installed(), reason="needs tesseract (tests/install_system.sh)")


def line(text: str, *, size: int = 20, ink: int = 220, ground: int = 10) -> Picture:
    font = ImageFont.load_default(size)
    picture = Image.new("L", (int(font.getlength(text)) + 16, size + 16), ground)
    ImageDraw.Draw(picture).text((8, 6), text, ink, font=font)
    return np.asarray(picture)


def read(text: str) -> TextBox:
    return TextBox(0, 0, 10, 10, text, 0.95)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program of the same name that has data for Latin and does what the test writes into it."""
    path = tmp_path / "tesseract"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    caches = (second_reader._read, second_reader._languages, second_reader.version)
    for one in caches:
        one.cache_clear()
    yield path
    for one in caches:
        one.cache_clear()


def write(path: Path, body: str) -> None:
    languages = 'if [ "$1" = --list-langs ]; then printf "List\\neng\\n"; exit; fi'
    path.write_text(f"#!/bin/sh\n{languages}\n{body}\n")
    path.chmod(0o700)


@installed
@pytest.mark.parametrize("text", ["PORTABLE", "Gain 52%", "80 kV 2.5 mAs"])
@pytest.mark.parametrize(("ink", "ground"), [(220, 10), (10, 220)])
def test_both_readers_agree_on_plain_text(text: str, ink: int, ground: int) -> None:
    assert agrees(read(text), line(text, ink=ink, ground=ground))


@installed
def test_upright_and_inverted_lines_are_confirmed() -> None:
    assert all(agrees(read("PORTABLE"), np.rot90(line("PORTABLE"), turn)) for turn in (1, 2, 3))


@installed
@pytest.mark.parametrize("text", ["WEST", "SUPINE", ""])
def test_another_text_is_not_confirmed(text: str) -> None:
    assert not agrees(read(text), line("WESTWAY MEDICAL"))


@installed
def test_noise_confirms_nothing() -> None:
    noise = np.random.default_rng(1).integers(0, 256, (30, 120), np.uint8)

    assert not agrees(read("PORTABLE"), noise)


@installed
def test_a_line_is_cut_out_of_its_frame_with_a_margin() -> None:
    frame = np.full((200, 300), 10, np.uint8)
    text = line("PORTABLE")
    frame[60 : 60 + text.shape[0], 80 : 80 + text.shape[1]] = text
    height, width = text.shape

    assert confirms(TextBox(84, 63, 76 + width, 57 + height, "PORTABLE", 0.9), frame)
    assert not confirms(TextBox(84, 123, 76 + width, 117 + height, "PORTABLE", 0.9), frame)


def test_scripts_are_those_of_the_letters() -> None:
    assert scripts_of("MRT Иван 3") == {"LATIN", "CYRILLIC"}
    assert scripts_of("11:24") == {"LATIN"}


@installed
def test_a_script_without_data_is_not_read() -> None:
    assert read_crop(line("PORTABLE"), ["TIFINAGH"]).score == 0
    assert not agrees(read("ⴰⵎⴰⵣⵉⵖ"), line("PORTABLE"))


def test_a_reading_does_not_show_its_text() -> None:
    assert "KOWALSKA" not in repr(second_reader.Reading("KOWALSKA", 0.9))


@pytest.mark.parametrize("body", ["exit 1", "kill -9 $$", "printf garbage"])
def test_a_program_that_fails_confirms_nothing(program: Path, body: str) -> None:
    write(program, body)

    assert not agrees(read("PORTABLE"), line("PORTABLE"))


def test_a_program_that_does_not_end_confirms_nothing(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_reader, "_TIMEOUT", 0.2)
    write(program, "exec sleep 30")
    monkeypatch.setattr(second_reader, "_languages", lambda: frozenset(["eng"]))

    assert not agrees(read("PORTABLE"), line("PORTABLE"))


def test_the_picture_reaches_the_program_by_its_standard_input_only(program: Path, tmp_path: Path) -> None:
    write(program, f'cat > /dev/null; echo "$@" >> {tmp_path}/arguments; printf "head\\n"')

    read_crop(line("KOWALSKA"), ["LATIN"])

    given = (tmp_path / "arguments").read_text().split()
    assert given == ["stdin", "stdout", "-l", "eng", "--psm", "7", "--dpi", "200", "quiet", "tsv"]


def test_a_missing_program_is_an_error_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EnvironmentFailure, match="tesseract"):
        read_crop(line("PORTABLE"), ["LATIN"])
