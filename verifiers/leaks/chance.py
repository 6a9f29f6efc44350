"""Whether a hit in image data is a value or chance; values that say nothing.

A run searches V byte patterns in B bytes of image data. A hit counts only if it has at least

    log2(V * B * SPELLINGS / EXPECTED_CHANCE_HITS)

bits, where its bits are the negative logarithm of the probability that image data has these bytes here. The
expected number of hits by chance in the whole run is then at most `EXPECTED_CHANCE_HITS`, whatever the run's
size: a larger run asks more of short values, never of long ones. The models of image data:

* *Compressed*: bytes are independent and uniform, 8 bits each: the output of an ideal code cannot be
  compressed (Shannon 1948, theorem 9). A ramp, as in the tables of JPEG, never counts.
* *Native*: each byte continues the one k bytes before it (k from 1 to 4: 8 and 16 bits, RGB, RGBA), with a
  difference of two-sided geometric distribution, the model of continuous-tone images of LOCO-I (Weinberger,
  Seroussi and Sapiro, IEEE Trans. Image Process. 9(8), 2000, section III); or bytes are independent, as in
  noise, with a density estimated by a kernel (Parzen 1962). Parameters are those of the bytes around the hit:
  on the left, on the right, or on both sides. The model that makes the hit likeliest counts.
* No hit is taken for less likely than `STRIP` bits beyond what the best parameters for the value itself give:
  a strip of other texture, such as an edge or a burned-in line, may be in any image.

Bits are added by what chance rarely has: a separator on both sides, and words of the DICOM vocabulary nearby.
`benchmarks/chance.py` compares the number of hits with the bound, for random, flat, smooth and text-like
pixels and for short values, of which chance finds many.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import Final

from medsanitize.verifiers.leaks.identifier_encodings import DELETED, words

EXPECTED_CHANCE_HITS: Final = 0.01
"""Upper bound of the expected number of chance hits in the image data of a run."""
SPELLINGS: Final = 3
"""Spellings of a pattern with separators inside, weighted by their probability (less than 0.1 each)."""
_CASES: Final = 3
"""Upper, lower and title case. In native data, only one of them is in the range of the levels."""
STRIP: Final = 28.0
_RAMP: Final = 2.0
"""Bits a byte below which a value resembles a ramp, as in test patterns and in the tables of JPEG."""
_BYTE: Final = 8.0
_AROUND: Final = 32
"""Bytes on each side of a hit that show what the image is like there."""
_LAGS: Final = (1, 2, 3, 4)
_WORDS_WITHIN: Final = 64
_LEAST_WORD: Final = 5
_LETTERS: Final = re.compile(rb"[A-Za-z]{5,}")
_MOST_AT_BORDER: Final = 6.0
_LONGEST_PATTERN: Final = 3
_REPEATED: Final = 3


def says_nothing(value: str) -> bool:
    """Whether a value tells nothing: no letter or digit, one of them only, or a short pattern repeated.

    Placeholders such as ``XXXXXXXX``, ``xxx xxxx``, ``0000000``, ``------`` and ``xyxyxyxy`` say nothing; a
    name of few letters such as Anna or Otto does.
    """
    text = "".join(words(value))
    # One repeated letter of a script of words may be a name.
    if len(text) < 2:
        return not text
    if len(set(text)) == 1:
        return text.isascii() or len(text) > _REPEATED
    return any(
        len(text) >= _REPEATED * period and text == (text[:period] * len(text))[: len(text)]
        for period in range(2, _LONGEST_PATTERN + 1)
    )


@dataclass(frozen=True, slots=True)
class ChanceLimit:
    """How many bits a hit in image data needs, from the size of the run.

    Attributes
    ----------
    values : int
        Number of byte patterns that are searched.
    size : int
        Bytes of the released files, all of which may be image data.
    """

    values: int
    size: int

    @property
    def bits(self) -> float:
        """Least bits of a hit that counts."""
        return log2(max(self.values, 1) * max(self.size, 1) * SPELLINGS / EXPECTED_CHANCE_HITS)


def hit_bits(
    buffer: bytes | mmap.mmap,
    start: int,
    end: int,
    *,
    native: bool,
    bounds: tuple[int, int],
    vocabulary: frozenset[str] = frozenset(),
) -> float:
    """Return the negative logarithm of the probability of ``buffer[start:end]`` in image data.

    Parameters
    ----------
    buffer : bytes or mmap
        The searched bytes.
    start, end : int
        The hit.
    native : bool
        Whether the samples are stored uncompressed, or compressed by run lengths.
    bounds : tuple of int
        Range of the image data; bytes outside are not around the hit.
    vocabulary : frozenset of str
        Words, folded, that text around a hit consists of.
    """
    step = 2 if buffer[start + 1 : start + 2] == b"\0" else 1
    low, high = bounds
    text = bytes(buffer[start:end:step])
    begin = start - _AROUND * step
    left = bytes(buffer[(begin if begin >= low else low + (start - low) % step) : start : step])
    right = bytes(buffer[end - 1 + step : min(high, end + _AROUND * step) : step])
    own = _own(text)
    if own < _RAMP * len(text):
        bits = own
    elif native:
        # Separators around a value belong to it, not to the image.
        before, behind = left.rstrip(DELETED) or left, right.lstrip(DELETED) or right
        bits = min(_likeliest(text, before, behind), own + STRIP)
    else:
        bits = _BYTE * len(text) - log2(_CASES)
    area = buffer[max(low, start - _WORDS_WITHIN) : start], buffer[end : min(high, end + _WORDS_WITHIN)]
    return bits + _borders(left, right, native=native) + _language(area, native=native, vocabulary=vocabulary)


def _own(text: bytes) -> float:
    """Bits of a text under the parameters that suit it best: noise in its range, or its own differences."""
    if len({second - first for first, second in pairwise(text)}) < 2:
        return 2 * _BYTE
    noise = len(text) * log2(max(text) - min(text) + 1)
    return min(noise, *(_differences(text, _steps(text, lag), lag) for lag in _LAGS))


def _likeliest(text: bytes, left: bytes, right: bytes) -> float:
    """Bits of a text under the model of the bytes around it that makes it likeliest."""
    found = []
    for around in ((left,), (right,), (left, right)):
        levels = b"".join(around)
        if not levels:
            continue
        found.append(_independent(text, levels))
        for lag in _LAGS:
            steps = [step for side in around for step in _steps(side, lag)]
            found.append(_differences(text, steps or [64], lag))
    return min(found, default=_BYTE * len(text))


def _independent(text: bytes, levels: bytes) -> float:
    """Bits of a text whose bytes are independent, and as frequent as similar ones are in ``levels``."""
    middle = sum(levels) / len(levels)
    width = max(1, int(sum(abs(level - middle) for level in levels) / len(levels)) // 2)
    found = 0.0
    for one in text:
        near = sum(abs(one - level) <= width for level in levels)
        found -= log2((near / (2 * width + 1) + 1 / 256) / (len(levels) + 1))
    return found


def _steps(text: bytes, lag: int) -> list[int]:
    return [abs(second - first) for first, second in zip(text, text[lag:], strict=False)]


def _differences(text: bytes, like: Sequence[int], lag: int) -> float:
    """Bits of a text whose differences are two-sided geometric with the mean size of those in ``like``."""
    mean = (sum(like) + 0.5) / (len(like) + 0.5)
    ratio = ((1 + mean * mean) ** 0.5 - 1) / mean
    each = -log2((1 - ratio) / (1 + ratio))
    # The first bytes are anything: they begin the text.
    return _BYTE * min(lag, len(text)) + sum(each - size * log2(ratio) for size in _steps(text, lag))


def _borders(left: bytes, right: bytes, *, native: bool) -> float:
    """Bits of a separator, or of the end of the data, on both sides."""
    if (left and left[-1] not in DELETED) or (right and right[0] not in DELETED):
        return 0.0
    if not native:
        return 2 * (_BYTE - log2(len(DELETED)))
    around = left[:-1] + right[1:]
    share = (sum(one in DELETED for one in around) + 1) / (len(around) + 2)
    return 2 * min(-log2(share), _MOST_AT_BORDER)


def _language(area: tuple[bytes, bytes], *, native: bool, vocabulary: frozenset[str]) -> float:
    """Bits of vocabulary words around a hit, less those of choosing the words and their places."""
    choice = log2(2 * _WORDS_WITHIN * max(len(vocabulary), 1) * _CASES)
    found = 0.0
    for word in _words_in(area):
        if word.decode("ascii").lower() in vocabulary:
            found += max(0.0, (_own(word) if native else _BYTE * len(word)) - choice)
    return found


def _words_in(area: tuple[bytes, bytes]) -> Iterator[bytes]:
    for side in area:
        for match in _LETTERS.finditer(bytes(side).replace(b"\0", b"")):
            if len(match[0]) >= _LEAST_WORD and (
                match[0].isupper() or match[0].islower() or match[0].istitle()
            ):
                yield match[0]
