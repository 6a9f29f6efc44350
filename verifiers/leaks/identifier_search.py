"""The run-wide net: the identifiers of all patients of a run, searched in raw bytes.

A hit refuses a whole release, so only distinctive spellings are searched
(`medsanitize.verifiers.leaks.identifier_encodings`) and a hit must stand the following, which keep chance out
and real leaks in:

* An id or phone is a word of its own (no letter or digit beside it) unless it has 12 characters; one of
  digits alone is no part of a decimal number, and is not looked for in numbers, times and dates.
* A name of fewer than 9 letters has no letter beside it; one of fewer than 3 different letters is left out.
* In native pixels and other binary values the bytes of smooth images resemble letters: a hit there has
  at least 9 characters, all in one case or capitalised. In compressed pixels it has 7.
* Words of the DICOM vocabulary are no identifiers, unless beside one that is not in it.

What is left out for being short or common is counted in ``IdentifierSearch.not_searched``, by category.
"""

from __future__ import annotations

import mmap
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from ahocorasick_rs import BytesAhoCorasick, Implementation
from medsanitize.sanitize.context import KnownValue
from medsanitize.verifiers.leaks.identifier_encodings import DELETED, normalise, spellings
from medsanitize.verifiers.leaks.prefilter import byte_table, candidate_runs

PATTERNS_PER_AUTOMATON: Final = 50_000
CHUNK: Final = 1 << 20
OVERLAP: Final = 1024
_FEW_PATTERNS: Final = 2_000
_LONG_NAME: Final = 9
_LONG_ID: Final = 12
_HEAD: Final = 12
_MANY_HEADS: Final = 1_000
_RULES: Final = ("name", "id", "phone", "address", "institution", "text", "uid", "source-text")
_WORD: Final = len(_RULES) - 1
_UID: Final = re.compile(rb"[0-2](?:\.[0-9]+)+")
_RUN: Final = re.compile(rb"[ ^,_='\"/\\;:()\t\r\n-]{4,}")
_UID_LETTERS: Final = b".0123456789"
_UNKNOWN: Final = b""
_PART: Final = 4
_PIECES: Final = 256
"""A sieve pays that lets through a part of a chunk, one in so many, and fewer pieces than these."""
_OUTRIGHT: Final = 32
"""Chunks searched without the sieve after one of which it let too much through."""
_DIGIT_SEPARATORS: Final = b" -/()"


@dataclass(frozen=True, slots=True)
class IdentifierHit:
    """Where a known value stands in a buffer, and of which category it is. Never the value.

    ``digits``: it is made of digits alone. ``length``: its characters. ``one_case``: upper, lower or title.
    """

    start: int
    end: int
    rule: str
    digits: bool
    length: int
    one_case: bool


class IdentifierSearch:
    """Patterns of a run; automata are built when first used, and are not pickled.

    Attributes
    ----------
    vocabulary : frozenset of str
        Folded words that are no identifiers by themselves.
    not_searched : dict
        Number of distinct values by category that are too short or too common to be searched.
    """

    def __init__(
        self,
        patterns: dict[bytes, int],
        uids: array[int],
        heads: frozenset[bytes],
        vocabulary: frozenset[str],
        not_searched: dict[str, int],
    ) -> None:
        import numpy as np

        for head in heads:
            patterns.setdefault(head, _RULES.index("uid"))
        self.vocabulary = vocabulary
        self.not_searched = not_searched
        self.matchers: dict[frozenset[KnownValue], Any] = {}
        self._patterns = sorted(patterns)
        self._rules = bytes(patterns[pattern] for pattern in self._patterns)
        np.frombuffer(uids, np.uint64).sort()  # in place: a list of a million numbers takes ten times as much
        self._uids = uids
        self._automata: list[tuple[BytesAhoCorasick, bytes]] | None = None
        self._words: dict[bytes, set[bytes]] = {}
        self._table: bytes | None = _UNKNOWN

    def __repr__(self) -> str:
        return "IdentifierSearch(...)"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_automata": None, "matchers": {}}

    def hits(
        self, buffer: bytes | mmap.mmap, start: int = 0, end: int | None = None
    ) -> Iterator[IdentifierHit]:
        """Yield what is found in ``buffer[start:end]``, a chunk at a time; places are those in ``buffer``."""
        for begin, chunk in _chunks(buffer, start, len(buffer) if end is None else end):
            yield from self._in_chunk(chunk, begin)

    def long_hits(self, chunk: bytes, offset: int) -> Iterator[IdentifierHit]:
        """What is found in a chunk of image data that begins at ``offset``; chunks overlap by ``OVERLAP``.

        All UIDs, and of other values those of `LONG` characters; of shorter ones not each is found.
        """
        table = self._letters()
        if table is None or self._could_stand_in(candidate_runs(chunk, table), table):
            yield from self._in_chunk(chunk, offset)

    def hits_in_samples(self, buffer: bytes | mmap.mmap, start: int, end: int) -> Iterator[IdentifierHit]:
        """What is found in ``buffer[start:end]``, native samples of a picture, as by `long_hits`.

        Where samples look like letters (a dark picture may), the next chunks are searched outright.
        """
        table, outright = self._letters(), 0
        for begin, chunk in _chunks(buffer, start, end):
            outright -= 1
            if table is not None and outright < 0:
                pieces = list(islice(candidate_runs(chunk, table), _PIECES))
                if len(pieces) == _PIECES or sum(map(len, pieces)) > len(chunk) // _PART:
                    outright = _OUTRIGHT
                elif not self._could_stand_in(pieces, table):
                    continue
            yield from self._in_chunk(chunk, begin)

    def _could_stand_in(self, pieces: Iterable[bytes], table: bytes) -> bool:
        """Whether a value could stand in what a sieve let through."""
        left = normalise(bytes([table.index(0)]).join(set(pieces)))  # tables of JPEG tiles recur
        return any(one.find_matches_as_indexes(left, overlapping=True) for one, _ in self._built())

    def _letters(self) -> bytes | None:
        """Which bytes the values are made of, in any case, and what may separate them; see `byte_table`."""
        if self._table == _UNKNOWN:
            plain = b"".join((*self._patterns, *self._words, *((_UID_LETTERS,) if self._uids else ())))
            self._table = byte_table(plain + plain.upper() + DELETED)
        return self._table

    def with_words(self, words: Iterable[bytes]) -> IdentifierSearch:
        """Give this net with words beside it, found in the same pass under the rule ``source-text``.

        Parameters
        ----------
        words : iterable of bytes
            In lower case. They are found in any case and in UTF-16, and else as they are.
        """
        joined = copy(self)
        joined._words, joined._table = {}, _UNKNOWN
        for word in words:
            joined._words.setdefault(normalise(word), set()).add(word)
        if not joined._words:
            return self
        if len(self._patterns) + len(joined._words) <= _FEW_PATTERNS:
            rules = dict.fromkeys(joined._words, _WORD) | dict(zip(self._patterns, self._rules, strict=True))
            patterns = sorted(rules)
            joined._automata = [(_automaton(patterns), bytes(map(rules.__getitem__, patterns)))]
        else:
            beside = sorted(joined._words)
            joined._automata = [*self._built(), (_automaton(beside), bytes([_WORD]) * len(beside))]
        return joined

    def _built(self) -> list[tuple[BytesAhoCorasick, bytes]]:
        """The automata, each with the rules of its patterns."""
        if self._automata is None:
            rules = (
                self._rules[start : start + PATTERNS_PER_AUTOMATON]
                for start in range(0, len(self._rules), PATTERNS_PER_AUTOMATON)
            )
            self._automata = [
                (_automaton(block), rules)
                for block, rules in zip(_blocks(self._patterns), rules, strict=True)
            ]
        return self._automata

    def _in_chunk(self, chunk: bytes, offset: int) -> Iterator[IdentifierHit]:
        haystack = normalise(chunk)
        origin: Any = None
        for automaton, rules in self._built():
            for pattern, start, end in automaton.find_matches_as_indexes(haystack, overlapping=True):
                if origin is None:
                    origin = _origin(chunk)
                first, last = int(origin[start]), int(origin[end - 1]) + 1
                if self._is_word(chunk[first:last], haystack[start:end]):
                    yield IdentifierHit(
                        offset + first, offset + last, _RULES[_WORD], False, end - start, True
                    )
                rule = rules[pattern]
                if rule == _WORD:
                    continue
                hit = self._confirmed(chunk, first, last, _RULES[rule], haystack[start:end])
                if hit is not None:
                    begin, stop = hit
                    raw = chunk[first:last].replace(b"\0", b"")
                    yield IdentifierHit(
                        offset + begin,
                        offset + stop,
                        _RULES[rule],
                        haystack[start:end].isdigit(),
                        end - start,
                        raw.isupper() or raw.islower() or raw.istitle() or not raw.isalpha(),
                    )

    def _is_word(self, raw: bytes, pattern: bytes) -> bool:
        """Whether one of the words stands here, separators and all."""
        return raw.lower().replace(b"\0", b"") in self._words.get(pattern, ())

    def _confirmed(
        self, chunk: bytes, first: int, last: int, rule: str, pattern: bytes
    ) -> tuple[int, int] | None:
        if rule == "uid":
            return self._whole_uid(chunk, first)
        raw = chunk[first:last]
        if pattern.isascii() and b"\0" in raw:
            if any(raw[1::2]):
                return None
            raw = raw[::2]
        if _RUN.search(raw):
            return None
        if pattern.isdigit() and raw.translate(None, _DIGIT_SEPARATORS) != pattern:
            return None
        return first, last

    def _whole_uid(self, chunk: bytes, first: int) -> tuple[int, int] | None:
        """Look up the whole UID that begins at ``first``; its neighbours are neither digit nor dot."""
        raw = chunk[first : first + 130]
        step = 2 if raw[1:2] == b"\0" else 1
        before = chunk[max(0, first - step) : max(0, first - step) + 1] if first >= step else b""
        if before.isdigit() or before == b".":
            return None
        found = _UID.match(raw[::step])
        if found is None or not self.knows_uid(found[0]):
            return None
        return first, first + step * found.end()

    def knows_uid(self, uid: bytes) -> bool:
        """Tell whether ``uid`` is one of the run's known UIDs."""
        digest = _digest(uid)
        place = bisect_left(self._uids, digest)
        return place < len(self._uids) and self._uids[place] == digest


def build_identifier_search(
    known_by_all: Iterable[KnownValue], vocabulary: frozenset[str] = frozenset()
) -> IdentifierSearch:
    """Build the run-wide net.

    Pass only categories that the policy claims to have removed: where it keeps, say, institutions
    or UIDs, leave those out. Memory: about 0.4 KB a pattern (a patient has about ten) while being built,
    0.1 KB afterwards; 8 bytes a UID.

    Parameters
    ----------
    known_by_all : iterable of Known
        The identifiers of every patient and study; consumed once, repetitions are harmless.
    vocabulary : frozenset of str
        Words, lower case without accents, that are ordinary in DICOM.
    """
    patterns: dict[bytes, int] = {}
    uids = array("Q")
    heads: set[bytes] = set()
    skipped: dict[str, set[int]] = {}
    for known in known_by_all:
        if known.category == "date":
            continue
        if known.category == "uid":
            raw = known.value.strip(" \0").encode("ascii", "replace")
            if _UID.fullmatch(raw) and len(raw) >= _HEAD and not is_registered(raw.decode("ascii")):
                uids.append(_digest(raw))
                heads.add(b"2.25." if raw.startswith(b"2.25.") else raw[:_HEAD])
            continue
        rule = _RULES.index(known.category if known.category in _RULES else "text")
        found = spellings(known, vocabulary)
        for pattern in found:
            patterns.setdefault(pattern, rule)
        if not found and known.value.strip(" ^=\0"):
            skipped.setdefault(known.category, set()).add(_digest(known.value.encode("utf-8", "replace")))
    short = heads if len(heads) <= _MANY_HEADS else {head[: _HEAD // 2] for head in heads}
    counts = Counter({category: len(values) for category, values in skipped.items()})
    return IdentifierSearch(patterns, uids, frozenset(short), vocabulary, dict(sorted(counts.items())))


def stands_alone(buffer: bytes | mmap.mmap, hit: IdentifierHit, low: int, high: int) -> bool:
    """Tell whether a hit within ``buffer[low:high]`` is a word of its own as its category demands."""
    if hit.rule in ("uid", "address", "institution", "text"):
        return True
    raw = bytes(buffer[hit.start : hit.end])
    if not raw.isascii() or (
        hit.length >= (_LONG_NAME if hit.rule == "name" else _LONG_ID) and not hit.digits
    ):
        return True
    step = 2 if b"\0" in raw else 1
    before = b"".join(_at(buffer, hit.start - count * step, low, high) for count in (1, 2))
    after = b"".join(_at(buffer, hit.end - 1 + count * step, low, high) for count in (1, 2))
    if hit.rule == "name":
        return not before[:1].isalpha() and not after[:1].isalpha()
    if before[:1].isalnum() or after[:1].isalnum():
        return False
    return not (hit.digits and (_decimal(before) or _decimal(after)))


def _at(buffer: bytes | mmap.mmap, place: int, low: int, high: int) -> bytes:
    return bytes(buffer[place : place + 1]) if low <= place < high else b""


def _decimal(neighbours: bytes) -> bool:
    return neighbours[:1] == b"." and neighbours[1:2].isdigit()


def is_registered(uid: str) -> bool:
    """Tell whether the standard registers ``uid`` (PS3.6 annex A)."""
    from pydicom._uid_dict import UID_dictionary

    return uid in UID_dictionary


def _chunks(buffer: bytes | mmap.mmap, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Chunks of ``buffer[start:end]`` that overlap, each with where it begins."""
    if end - start <= CHUNK + OVERLAP:
        yield start, bytes(buffer[start:end])
        return
    for place in range(start, end, CHUNK):
        begin = max(start, place - OVERLAP)
        chunk = buffer[begin : min(place + CHUNK, end)]
        if isinstance(buffer, mmap.mmap):
            buffer.madvise(mmap.MADV_DONTNEED)  # pages that were read need not stay in memory
        yield begin, chunk


def _automaton(patterns: list[bytes]) -> BytesAhoCorasick:
    kind = Implementation.DFA if len(patterns) <= _FEW_PATTERNS else Implementation.ContiguousNFA
    return BytesAhoCorasick(patterns, implementation=kind)


def _blocks(patterns: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(patterns), PATTERNS_PER_AUTOMATON):
        yield patterns[start : start + PATTERNS_PER_AUTOMATON]


def _origin(chunk: bytes) -> Any:
    """Map each place of the normalised chunk to its place in the chunk."""
    import numpy as np

    kept = np.ones(256, dtype=bool)
    kept[list(DELETED)] = False
    return np.flatnonzero(kept[np.frombuffer(chunk, dtype=np.uint8)])


def _digest(raw: bytes) -> int:
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "big")
