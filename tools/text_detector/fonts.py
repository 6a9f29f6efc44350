"""Fonts of the system, the letters that each of them has, and random lines of these letters."""

from __future__ import annotations

import hashlib
import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import ImageFont

# Families whose signs are no script of names: symbols, music, mathematics, ancient sign lists.
_NO_SCRIPT = ("Symbol", "Music", "Math", "SignWriting", "Hieroglyph", "Cuneiform", "MayanNumerals", "Emoji")
# Of the families, those of one hash digit in four are held out for measuring.
_HELD_OUT = "048c"
_LATIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_MARKS = ",.:;-/^_()[]#%+*="
# Part of the lines in Latin letters, which most devices write.
_LATIN_SHARE = 0.5
_MOST_LETTERS = 3000
# Pixels by which a bitmap font may be larger than asked for.
_NEXT_SIZE = 8


@dataclass(frozen=True, slots=True)
class Font:
    """A font file and the letters that it has, Latin ones apart."""

    path: str
    letters: str
    latin: bool


def is_held_out(family: str) -> bool:
    """Return whether a family of fonts is used for measuring only."""
    return hashlib.sha256(family.encode()).hexdigest()[0] in _HELD_OUT


def installed_fonts(folder: Path, *, held_out: bool) -> list[Font]:
    """List the fonts below a folder, either for training or for measuring.

    Parameters
    ----------
    folder : Path
        As ``/usr/share/fonts``.
    held_out : bool
        Whether to list the families that training does not see.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        family = path.stem.split("-")[0]
        if path.suffix not in (".ttf", ".otf", ".ttc", ".otb") or any(one in family for one in _NO_SCRIPT):
            continue
        if is_held_out(family) is not held_out:
            continue
        letters = "".join(_letters(path))
        latin = set(_LATIN) <= set(letters)
        rest = "".join(one for one in letters if one not in _LATIN)
        if latin or len(rest) >= 10:
            found.append(Font(str(path), rest, latin))
    return found


def _letters(path: Path) -> Iterator[str]:
    """Letters of a font by its character map, as fontconfig reads it."""
    command = ["fc-query", "--index", "0", "--format", "%{charset}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    listed: list[int] = []
    for one in done.stdout.split():
        first, _, last = one.partition("-")
        listed += range(int(first, 16), int(last or first, 16) + 1)
    step = max(1, len(listed) // _MOST_LETTERS)
    for code in [code for code in listed if code < 0x250] + listed[::step]:
        if unicodedata.category(chr(code))[0] == "L":
            yield chr(code)


@cache
def sized(path: str, size: int) -> ImageFont.FreeTypeFont | None:
    """Open a font at a size in pixels; a bitmap font at the next size that it has, if any."""
    for near in range(size, size + _NEXT_SIZE):
        try:
            return ImageFont.truetype(path, near)
        except OSError:
            continue
    return None


def random_line(rng: np.random.Generator, fonts: list[Font]) -> tuple[str, str]:
    """Return the path of a font and a line of random words, dates and numbers that it can show."""
    latin = rng.random() < _LATIN_SHARE
    fitting = [font for font in fonts if (font.latin if latin else len(font.letters) >= 10)]
    font = fitting[rng.integers(len(fitting))]
    if latin:
        alphabet = (_LATIN[:26], _LATIN[26:], _LATIN, _LATIN[26:] + "áéíóúäöüßçñøåžščłęąğış")[rng.integers(4)]
    else:
        start = int(rng.integers(max(1, len(font.letters) - 40)))
        # Neighbors in the list are of one script.
        alphabet = font.letters[start : start + 40]
    words = []
    for _ in range(int(rng.integers(1, 5))):
        length = int(rng.integers(2, 11))
        if font.latin and rng.random() < 0.3:
            pool = _DIGITS + _DIGITS + _MARKS
            word = "".join(pool[int(at)] for at in rng.integers(len(pool), size=length))
        else:
            word = "".join(alphabet[int(at)] for at in rng.integers(len(alphabet), size=length))
            if latin and rng.random() < 0.4:
                word = word.capitalize()
        words.append(word)
    return font.path, " ".join(words)
