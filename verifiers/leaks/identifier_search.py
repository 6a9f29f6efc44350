"""The run-wide identifier search: identifiers of all patients of a run, in raw bytes.

A hit prevents publication, so only distinctive patterns are searched
(`medsanitize.verifiers.leaks.identifier_encodings`), and hits are filtered to exclude chance but keep real
leaks:

* An ID or phone number must be a separate word (no adjacent letter or digit) unless it has 12 characters. One
  of only digits must not be part of a decimal number, and is ignored in numbers, times and dates.
* A name of fewer than 9 letters must have no adjacent letter.
* In native pixels and other binary values, bytes of smooth images resemble letters: a hit there needs at
  least 9 characters, all upper case, all lower case or capitalized. In compressed pixels it needs 7. In a
  large run, a short value needs more (`medsanitize.verifiers.leaks.chance`).
* Words of the DICOM vocabulary are not identifiers, unless combined with another word.
* A value that says nothing, such as ``XXXXXXXX``, is searched nowhere.

The number of values that are not searched because they are short or common is in
``IdentifierSearch.not_searched``, by category; ``IdentifierSearch.saying_nothing`` counts the others.
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
from medsanitize.verifiers.leaks.chance import ChanceLimit, hit_bits, says_nothing
from medsanitize.verifiers.leaks.identifier_encodings import DELETED, normalize, spellings
from medsanitize.verifiers.leaks.prefilter import MIN_RUN, byte_table, candidate_runs

# Construction memory grows with the patterns of one automaton, search time with the number of automata.
PATTERNS_PER_AUTOMATON: Final = 50_000
CHUNK: Final = 1 << 20
# Longer than identifiers are, so that none is cut by the border of two chunks.
OVERLAP: Final = 1024
# A DFA is faster but larger than an NFA; it is used only up to this number of patterns.
_FEW_PATTERNS: Final = 2_000
_LONG_NAME: Final = 9
_LONG_ID: Final = 12
# UIDs are found by their first 12 characters and then looked up whole by hash.
_HEAD: Final = 12
_MANY_HEADS: Final = 1_000
_RULES: Final = ("name", "id", "phone", "address", "institution", "text", "uid", "source-text")
_WORD: Final = len(_RULES) - 1
_UID: Final = re.compile(rb"[0-2](?:\.[0-9]+)+")
_RUN: Final = re.compile(rb"[ ^,_='\"/\\;:()\t\r\n-]{4,}")
_UID_LETTERS: Final = b".0123456789"
_NOT_COMPUTED: Final = b""
_MIN_REDUCTION: Final = 4
_MAX_PIECES: Final = 256
"""Worthwhile if the prefilter keeps one in `_MIN_REDUCTION` bytes and `_MAX_PIECES` pieces at most."""
_UNFILTERED_CHUNKS: Final = 32
"""Number of chunks searched without prefilter after one of which it kept too much."""
_DIGIT_SEPARATORS: Final = b" -/()"
ASSUMED_SIZE: Final = 10_000_000_000
"""Bytes of a run whose size is not known."""
_LEAST_IN_NATIVE: Final = MIN_RUN
# Compressed data has no runs of similar bytes, so shorter values are unlikely by chance.
_LEAST_IN_COMPRESSED: Final = 7


@dataclass(frozen=True, slots=True)
class IdentifierHit:
    """Position and category of a known value in a buffer; never the value.

    ``digits``: it consists of digits only. ``length``: its normalized characters. ``one_case``: upper, lower
    or title case.
    """

    start: int
    end: int
    rule: str
    digits: bool
    length: int
    one_case: bool


class IdentifierSearch:
    """The patterns of a run. Automata are built on first use and are not pickled.

    Attributes
    ----------
    vocabulary : frozenset of str
        Folded words that are not identifiers by themselves.
    not_searched : dict of str to int
        Number of distinct values by category that are too short or too common to be searched.
    saying_nothing : int
        Number of distinct values that say nothing and are not searched at all.
    limit : ChanceLimit
        How many bits a hit in image data needs.
    """

    def __init__(
        self,
        patterns: dict[bytes, int],
        uids: array[int],
        heads: frozenset[bytes],
        vocabulary: frozenset[str],
        not_searched: dict[str, int],
        saying_nothing: int = 0,
        size: int = ASSUMED_SIZE,
    ) -> None:
        import numpy as np

        for head in heads:
            patterns.setdefault(head, _RULES.index("uid"))
        self.vocabulary = vocabulary
        self.not_searched = not_searched
        self.saying_nothing = saying_nothing
        self.matchers: dict[frozenset[KnownValue], Any] = {}
        self._patterns = sorted(patterns)
        self.limit = ChanceLimit(len(self._patterns), size)
        self._rules = bytes(patterns[pattern] for pattern in self._patterns)
        np.frombuffer(uids, np.uint64).sort()  # in place: a list of integers takes ten times the memory
        self._uids = uids
        self._automata: list[tuple[BytesAhoCorasick, bytes]] | None = None
        self._words: dict[bytes, set[bytes]] = {}
        self._table: bytes | None = _NOT_COMPUTED

    def __repr__(self) -> str:
        return "IdentifierSearch(...)"

    def __getstate__(self) -> dict[str, Any]:
        # Automata are larger than their patterns; each worker builds its own.
        return {**self.__dict__, "_automata": None, "matchers": {}}

    def hits(
        self, buffer: bytes | mmap.mmap, start: int = 0, end: int | None = None
    ) -> Iterator[IdentifierHit]:
        """Yield hits in ``buffer[start:end]``, chunk by chunk; positions are relative to ``buffer``."""
        for begin, chunk in _chunks(buffer, start, len(buffer) if end is None else end):
            yield from self._in_chunk(chunk, begin)

    def long_hits(self, chunk: bytes, offset: int) -> Iterator[IdentifierHit]:
        """Yield hits in a chunk of image data that starts at ``offset``; chunks overlap by ``OVERLAP``.

        UIDs and values of at least `MIN_RUN` characters are all found; shorter values only by chance.
        """
        table = self._letters()
        if table is None or self._could_stand_in(candidate_runs(chunk, table), table):
            yield from self._in_chunk(chunk, offset)

    def hits_in_samples(self, buffer: bytes | mmap.mmap, start: int, end: int) -> Iterator[IdentifierHit]:
        """Yield hits in ``buffer[start:end]``, native samples of an image, as `long_hits` does.

        If the samples resemble letters (as in dark images), the following chunks are searched without
        prefilter.
        """
        table, outright = self._letters(), 0
        for begin, chunk in _chunks(buffer, start, end):
            outright -= 1
            if table is not None and outright < 0:
                pieces = list(islice(candidate_runs(chunk, table), _MAX_PIECES))
                if len(pieces) == _MAX_PIECES or sum(map(len, pieces)) > len(chunk) // _MIN_REDUCTION:
                    outright = _UNFILTERED_CHUNKS
                elif not self._could_stand_in(pieces, table):
                    continue
            yield from self._in_chunk(chunk, begin)

    def counts_in_image(
        self, buffer: bytes | mmap.mmap, hit: IdentifierHit, low: int, high: int, *, native: bool
    ) -> bool:
        """Whether a hit in the image data ``buffer[low:high]`` is too unlikely to be chance.

        Parameters
        ----------
        buffer : bytes or mmap
            The searched bytes.
        hit : IdentifierHit
            A hit in them.
        low, high : int
            Range of the image data.
        native : bool
            Whether its samples are uncompressed, or compressed by run lengths.
        """
        if hit.rule == "uid":
            return True
        if hit.length < (_LEAST_IN_NATIVE if native else _LEAST_IN_COMPRESSED) or not hit.one_case:
            return False
        bits = hit_bits(
            buffer, hit.start, hit.end, native=native, bounds=(low, high), vocabulary=self.vocabulary
        )
        return bits >= self.limit.bits

    def _could_stand_in(self, pieces: Iterable[bytes], table: bytes) -> bool:
        """Whether a value can occur in the pieces that the prefilter kept."""
        left = normalize(bytes([table.index(0)]).join(set(pieces)))  # tables of JPEG tiles repeat
        return any(one.find_matches_as_indexes(left, overlapping=True) for one, _ in self._built())

    def _letters(self) -> bytes | None:
        """Return the table of bytes that occur in values or separate them; see `byte_table`."""
        if self._table == _NOT_COMPUTED:
            plain = b"".join((*self._patterns, *self._words, *((_UID_LETTERS,) if self._uids else ())))
            self._table = byte_table(plain + plain.upper() + DELETED)
        return self._table

    def with_words(self, words: Iterable[bytes]) -> IdentifierSearch:
        """Return this search extended by words, found in the same pass under the rule ``source-text``.

        Parameters
        ----------
        words : iterable of bytes
            In lower case. They match in any case and in UTF-16, but with exactly their separators.
        """
        joined = copy(self)
        joined._words, joined._table = {}, _NOT_COMPUTED
        for word in words:
            joined._words.setdefault(normalize(word), set()).add(word)
        if not joined._words:
            return self
        if len(self._patterns) + len(joined._words) <= _FEW_PATTERNS:
            rules = dict.fromkeys(joined._words, _WORD) | dict(zip(self._patterns, self._rules, strict=True))
            patterns = sorted(rules)
            joined._automata = [(_automaton(patterns), bytes(map(rules.__getitem__, patterns)))]
        else:
            added = sorted(joined._words)
            joined._automata = [*self._built(), (_automaton(added), bytes([_WORD]) * len(added))]
        return joined

    def _built(self) -> list[tuple[BytesAhoCorasick, bytes]]:
        """Return the automata, each with the rules of its patterns."""
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
        haystack = normalize(chunk)
        origin: Any = None
        for automaton, rules in self._built():
            for pattern, start, end in automaton.find_matches_as_indexes(haystack, overlapping=True):
                # Computed only for chunks with a match, which are rare.
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
        """Whether one of the words occurs here, including its separators."""
        return raw.lower().replace(b"\0", b"") in self._words.get(pattern, ())

    def _confirmed(
        self, chunk: bytes, first: int, last: int, rule: str, pattern: bytes
    ) -> tuple[int, int] | None:
        if rule == "uid":
            return self._whole_uid(chunk, first)
        raw = chunk[first:last]
        if pattern.isascii() and b"\0" in raw:
            # UTF-16 of ASCII text has NUL in every second byte; other NULs are binary data.
            if any(raw[1::2]):
                return None
            raw = raw[::2]
        # Long runs of separators are tables or padding, not a value.
        if _RUN.search(raw):
            return None
        if pattern.isdigit() and raw.translate(None, _DIGIT_SEPARATORS) != pattern:
            return None
        return first, last

    def _whole_uid(self, chunk: bytes, first: int) -> tuple[int, int] | None:
        """Look up the whole UID that starts at ``first`` and has no adjacent digit or dot."""
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
        """Whether ``uid`` is a known UID of the run."""
        digest = _digest(uid)
        place = bisect_left(self._uids, digest)
        return place < len(self._uids) and self._uids[place] == digest


def build_identifier_search(
    known_by_all: Iterable[KnownValue],
    vocabulary: frozenset[str] = frozenset(),
    size: int = ASSUMED_SIZE,
) -> IdentifierSearch:
    """Build the run-wide search.

    Pass only categories that the policy removes: if it keeps institutions or UIDs, leave these out. Memory:
    about 0.4 KB per pattern (a patient has about ten) during construction, 0.1 KB afterwards; 8 bytes per
    UID.

    Parameters
    ----------
    known_by_all : iterable of KnownValue
        Identifiers of all patients and studies; consumed once, may repeat.
    vocabulary : frozenset of str
        Words that are common in DICOM, in lower case without accents.
    size : int
        Bytes that the run searches.

    Returns
    -------
    IdentifierSearch
        Picklable; workers build the automata.
    """
    patterns: dict[bytes, int] = {}
    uids = array("Q")
    heads: set[bytes] = set()
    skipped: dict[str, set[int]] = {}
    empty: set[int] = set()
    for known in known_by_all:
        # Almost any date is the date of some patient; they are searched only in objects of their own patient.
        if known.category == "date":
            continue
        if known.category == "uid":
            raw = known.value.strip(" \0").encode("ascii", "replace")
            if _UID.fullmatch(raw) and len(raw) >= _HEAD and not is_registered(raw.decode("ascii")):
                uids.append(_digest(raw))
                # All UUID-derived UIDs share one head: 12 characters would add a pattern for each of them.
                heads.add(b"2.25." if raw.startswith(b"2.25.") else raw[:_HEAD])
            continue
        if says_nothing(known.value):
            if known.value.strip(" ^=\0"):
                empty.add(_digest(known.value.encode("utf-8", "replace")))
            continue
        rule = _RULES.index(known.category if known.category in _RULES else "text")
        found = spellings(known, vocabulary)
        for pattern in found:
            patterns.setdefault(pattern, rule)
        if not found and known.value.strip(" ^=\0"):
            skipped.setdefault(known.category, set()).add(_digest(known.value.encode("utf-8", "replace")))
    # Shorter heads are fewer: most UIDs of an archive share a root.
    short = heads if len(heads) <= _MANY_HEADS else {head[: _HEAD // 2] for head in heads}
    counts = Counter({category: len(values) for category, values in skipped.items()})
    told = dict(sorted(counts.items()))
    return IdentifierSearch(patterns, uids, frozenset(short), vocabulary, told, len(empty), size)


def stands_alone(buffer: bytes | mmap.mmap, hit: IdentifierHit, low: int, high: int) -> bool:
    """Whether a hit is a separate word, as its category requires.

    Parameters
    ----------
    buffer : bytes or mmap
        The searched bytes.
    hit : IdentifierHit
        A hit in them.
    low, high : int
        Range of the value that contains the hit; bytes outside are not adjacent to it.
    """
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


def _decimal(neighbors: bytes) -> bool:
    return neighbors[:1] == b"." and neighbors[1:2].isdigit()


def is_registered(uid: str) -> bool:
    """Whether the standard registers ``uid`` (PS3.6 annex A), or it is a documented private SOP class."""
    from medsanitize.policies.tables.standard import private_sop_classes
    from pydicom._uid_dict import UID_dictionary

    return uid in UID_dictionary or uid in private_sop_classes()


def _chunks(buffer: bytes | mmap.mmap, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield overlapping chunks of ``buffer[start:end]`` with their start positions."""
    if end - start <= CHUNK + OVERLAP:
        yield start, bytes(buffer[start:end])
        return
    for place in range(start, end, CHUNK):
        begin = max(start, place - OVERLAP)
        chunk = buffer[begin : min(place + CHUNK, end)]
        if isinstance(buffer, mmap.mmap):
            buffer.madvise(mmap.MADV_DONTNEED)  # keeps memory flat: mapped pages are not needed again
        yield begin, chunk


def _automaton(patterns: list[bytes]) -> BytesAhoCorasick:
    kind = Implementation.DFA if len(patterns) <= _FEW_PATTERNS else Implementation.ContiguousNFA
    return BytesAhoCorasick(patterns, implementation=kind)


def _blocks(patterns: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(patterns), PATTERNS_PER_AUTOMATON):
        yield patterns[start : start + PATTERNS_PER_AUTOMATON]


def _origin(chunk: bytes) -> Any:
    """Return the position in the chunk of each byte of the normalized chunk."""
    import numpy as np

    kept = np.ones(256, dtype=bool)
    kept[list(DELETED)] = False
    return np.flatnonzero(kept[np.frombuffer(chunk, dtype=np.uint8)])


def _digest(raw: bytes) -> int:
    # 64 bits: with a million UIDs a random 8-byte collision has probability 5e-14 per lookup.
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "big")
