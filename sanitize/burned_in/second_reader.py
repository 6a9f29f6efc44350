"""The second reader of text in pixels: Tesseract, which shares no code and no training data with the first.

Both readers together acquit: a line stays only if they read the same harmless text. A reader that is unsure,
takes too long, fails, or has no data for the script acquits nothing. Crops contain PHI: they reach the
program through its standard input, never through a file or an argument.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from io import BytesIO

import numpy as np
from medsanitize.errors import EnvironmentFailure
from medsanitize.offline import plain_environment
from medsanitize.policies.model import Pixels
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.text.edit_distance import edit_distance
from medsanitize.sanitize.text.ocr_matching import skeleton_of
from numpy.typing import NDArray

Crop = NDArray[np.uint8]
"""Gray values of one line with its margin, shape (rows, columns)."""

PROGRAM = "tesseract"
_TIMEOUT = 20.0  # seconds
# Height to which a crop is scaled, ground around it (pixels), and the longest line that is read.
_HEIGHT, _AROUND, _LONGEST = 56, 12, 4096
_TALL = 1.5
# Letters for each of which the readers may differ in one; shorter lines must be equal.
_LETTERS_PER_ERROR = 6
# Least certainty of the second reader, of one or two letters and of more.
_SURE, _SOMETHING = 0.7, 0.3
_FEW = 2
# Data of each script, the best first: that of all languages of the script, then of one.
_DATA = {
    "LATIN": ("script/Latin", "Latin", "eng"),
    "CYRILLIC": ("script/Cyrillic", "Cyrillic", "rus"),
    "GREEK": ("script/Greek", "Greek", "ell"),
    "ARABIC": ("script/Arabic", "Arabic", "ara"),
    "HEBREW": ("script/Hebrew", "Hebrew", "heb"),
    "DEVANAGARI": ("script/Devanagari", "Devanagari", "hin"),
    "THAI": ("script/Thai", "Thai", "tha"),
    "CJK": ("script/HanS", "HanS", "chi_sim"),
    "HIRAGANA": ("script/Japanese", "Japanese", "jpn"),
    "KATAKANA": ("script/Japanese", "Japanese", "jpn"),
    "HANGUL": ("script/Hangul", "Hangul", "kor"),
}


@dataclass(frozen=True, slots=True, repr=False)
class Reading:
    """Text of a crop and the certainty of its least certain word, 0 to 1. Contains PHI."""

    text: str
    score: float

    def __repr__(self) -> str:
        return f"Reading({self.score:.2f})"


def confirmation(rules: Pixels) -> Callable[[TextBox, Crop], bool] | None:
    """Return `confirms` if the policy asks for this reader.

    Parameters
    ----------
    rules : Pixels
        The policy's section ``pixels``.
    """
    return confirms if PROGRAM in rules.readers else None


def is_installed() -> bool:
    """Return whether the program is installed with data for the Latin script."""
    return shutil.which(PROGRAM) is not None and bool(set(_DATA["LATIN"]) & _languages())


@cache
def version() -> str:
    """Return the version of the program, such as 5.3.0; empty if it is not installed."""
    found = re.search(r"\d+(?:\.\d+)+", _output("--version"))
    return found[0] if found else ""


@cache
def _languages() -> frozenset[str]:
    return frozenset(line.strip() for line in _output("--list-langs").splitlines()[1:])


def _output(option: str) -> str:
    """Output of a question about the installation, whichever stream the release uses."""
    if shutil.which(PROGRAM) is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603  no shell, and no word from elsewhere
            [PROGRAM, option], capture_output=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode(errors="replace")


def scripts_of(text: str) -> frozenset[str]:
    """Return the scripts of the letters of a text, as Unicode names them; Latin if it has none."""
    names = {unicodedata.name(letter, "").split(" ")[0] for letter in text if letter.isalpha()}
    return frozenset(names) or frozenset(["LATIN"])


def read_crop(crop: Crop, scripts: Sequence[str] | frozenset[str]) -> Reading:
    """Read one line of text.

    Parameters
    ----------
    crop : array of uint8, shape (rows, columns)
        A horizontal line with some ground around it, bright on dark or dark on bright.
    scripts : collection of str
        As `scripts_of` returns them.

    Returns
    -------
    Reading
        Empty, with certainty 0, if the program has no data for a script, fails, or takes too long.

    Raises
    ------
    EnvironmentFailure
        The program is not installed.
    """
    if shutil.which(PROGRAM) is None:
        raise EnvironmentFailure(
            "The second reader of text in pixels, tesseract, is not installed",
            "Install tesseract with its script data, or write pixels.readers: [rapidocr]",
        )
    data = [next((one for one in _DATA.get(name, ()) if one in _languages()), "") for name in sorted(scripts)]
    if not crop.size or not all(data):
        return Reading("", 0.0)
    shown = _prepared(crop)
    return _read(shown.tobytes(), shown.shape[0], shown.shape[1], "+".join(dict.fromkeys(data)))


def agrees(first: TextBox, crop: Crop) -> bool:
    """Return whether the second reader reads the text that the first one read.

    Parameters
    ----------
    first : TextBox
        A line as the first reader read it.
    crop : array of uint8, shape (rows, columns)
        The line with some ground around it; upright lines are read in both directions.

    Returns
    -------
    bool
        True if the texts are equal apart from look-alike characters and one difference for six letters.
    """
    wanted = skeleton_of(first.text)
    scripts = scripts_of(first.text)
    # The first reader reads lines in their best orientation, which a box does not state.
    turns = (1, 3) if crop.shape[0] > _TALL * crop.shape[1] else (0, 2)
    for turn in turns:
        second = read_crop(np.rot90(crop, turn), scripts)
        found = skeleton_of(second.text)
        few = min(len(wanted), len(found)) <= _FEW
        most = len(wanted) // _LETTERS_PER_ERROR
        sure = second.score >= (_SURE if few else _SOMETHING)
        if sure and found and edit_distance(wanted, found, most) <= most:
            return True
    return False


def confirms(first: TextBox, picture: Crop) -> bool:
    """Return whether the second reader agrees on a line of a rendering; see `agrees`.

    Parameters
    ----------
    first : TextBox
    picture : array of uint8, shape (rows, columns)
        The complete frame.
    """
    margin = max(first.height // 8, 2)
    rows = slice(max(first.top - margin, 0), first.bottom + margin)
    return agrees(first, picture[rows, max(first.left - margin, 0) : first.right + margin])


def _prepared(crop: Crop) -> Crop:
    """Scale a line to the height that the program reads best, dark on bright, with ground around it."""
    import cv2

    gray = crop.astype(np.float32)
    low, high = float(gray.min()), float(gray.max())
    gray = (gray - low) * (255 / max(high - low, 1.0))
    edge = np.concatenate([gray[0], gray[-1], gray[:, 0], gray[:, -1]])
    ground = float(np.median(edge))
    # The edge of a crop is ground: it is darker than the middle of the range if the letters are bright.
    if ground < 128:
        gray, ground = 255 - gray, 255 - ground
    scale = _HEIGHT / gray.shape[0]
    width = min(max(round(gray.shape[1] * scale), 1), _LONGEST)
    sized = cv2.resize(gray, (width, _HEIGHT), interpolation=cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA)
    padded = np.pad(np.clip(sized, 0, 255), _AROUND, constant_values=ground)
    return np.ascontiguousarray(padded.astype(np.uint8))


@lru_cache(maxsize=1024)
def _read(cells: bytes, rows: int, columns: int, data: str) -> Reading:
    """Call the program; cached, since frames of a loop have the same lines."""
    from PIL import Image

    stream = BytesIO()
    Image.frombytes("L", (columns, rows), cells).save(stream, "PNG")
    command = [PROGRAM, "stdin", "stdout", "-l", data, "--psm", "7", "--dpi", "200", "quiet", "tsv"]
    try:
        done = subprocess.run(  # noqa: S603  no shell; scripts are chosen from a list
            command,
            input=stream.getvalue(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT,
            check=False,
            # One thread: workers share the cores.
            env={**plain_environment(), "OMP_THREAD_LIMIT": "1"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return Reading("", 0.0)
    if done.returncode:
        return Reading("", 0.0)
    return _words(done.stdout.decode("utf-8", errors="replace"))


def _words(table: str) -> Reading:
    """Return the words of the program's table: level, place and size, certainty in percent, text."""
    words: list[tuple[float, str]] = []
    for line in table.splitlines()[1:]:
        cells = line.split("\t")
        if len(cells) == 12 and cells[0] == "5" and cells[11].strip():
            words.append((float(cells[10]) / 100, cells[11]))
    if not words:
        return Reading("", 0.0)
    return Reading(" ".join(text for _, text in words), max(0.0, min(score for score, _ in words)))
