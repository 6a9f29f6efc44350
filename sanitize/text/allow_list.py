"""Safe words of a site: rooms of devices, names of protocols. They stay where the other rules would cut them.

An entry is found regardless of case and of the separators between its words, otherwise exactly. It does not
count behind a title, a relative or a label for a person: ``Werner`` may be the name of a device, and
``Dr. Werner`` is a person. Known identifiers and never-words are cut from it as from any other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.vocabulary import cues, fold
from medsanitize.sanitize.text.folding import is_syllabic

Span = tuple[int, int]
_WORD: Final = re.compile(r"[^\W_]+")
_GAP: Final = re.compile(r"[\W_]{0,3}")


class AllowList:
    """Safe words, compiled for the search in texts.

    Parameters
    ----------
    entries : iterable of str
        As `medsanitize.policies.site_lists` reads them.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._unspaced: list[str] = []
        self._phrases: dict[str, list[list[str]]] = {}
        for entry in entries:
            words = [fold(word) for word in _WORD.findall(entry)]
            # Without spaces between words, an entry may be anywhere in a run of characters.
            if any(map(is_syllabic, entry)):
                self._unspaced.append(entry)
            elif words:
                self._phrases.setdefault(words[0], []).append(words)

    def spans(self, text: str) -> list[Span]:
        """Return the half-open spans of entries in a text, in order and disjoint."""
        merged: list[Span] = []
        for start, end in sorted((*self._spaced(text), *self._within_runs(text))):
            if merged and start < merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged

    def _spaced(self, text: str) -> Iterator[Span]:
        if not self._phrases:
            return
        found = list(_WORD.finditer(text))
        folded = [fold(word[0]) for word in found]
        for place, word in enumerate(folded):
            for phrase in self._phrases.get(word, ()):
                last = place + len(phrase) - 1
                if folded[place : last + 1] != phrase or _announces_person(text, found, place):
                    continue
                gaps = zip(found[place:last], found[place + 1 : last + 1], strict=True)
                if all(_GAP.fullmatch(text, one.end(), other.start()) for one, other in gaps):
                    yield found[place].start(), found[last].end()

    def _within_runs(self, text: str) -> Iterator[Span]:
        for entry in self._unspaced:
            yield from (found.span() for found in re.finditer(re.escape(entry), text))


def allow_list_of(rules: TextSection) -> AllowList | None:
    """Return the compiled safe words of a policy; None without any."""
    if isinstance(rules.allow_list, Path):
        raise TypeError("the allow list was not read")
    return _compiled(rules.allow_list) if rules.allow_list else None


@lru_cache(maxsize=4)
def _compiled(entries: tuple[str, ...]) -> AllowList:
    return AllowList(entries)


def _announces_person(text: str, found: list[re.Match[str]], place: int) -> bool:
    """Whether the word before says that a person follows: ``Dr. Werner``, ``MTRA: Werner``."""
    if not place:
        return False
    before, gap = found[place - 1], text[found[place - 1].end() : found[place].start()]
    word = fold(before[0])
    if word in cues()["ambiguous title"]:
        titled = "." in gap or not before[0].isupper()
        return titled and not gap.strip(" .")
    if word in cues()["label"] and ":" in gap:
        return True
    return not gap.strip(" .") and (word in cues()["title"] or word in cues()["relation"])
