"""Audit released slides: by OpenSlide and tifffile, against their source, and byte by byte.

All bytes outside the tiles are searched for hidden data of any kind; those inside the tiles for known
identifiers.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final

from medsanitize.release.multi_file_objects import parts_digest
from medsanitize.sanitize.result import FilePart, Finding, SlideRecord
from medsanitize.verifiers.leaks.identifier_search import (
    OVERLAP,
    IdentifierHit,
    IdentifierSearch,
    stands_alone,
)
from medsanitize.verifiers.leaks.prefilter import MIN_RUN
from medsanitize.verifiers.leaks.slide_hidden_data import (
    Tokens,
    base64_words,
    hidden_data_rules,
    identifying_words,
    profile_mark,
    tile_faults,
)
from medsanitize.verifiers.leaks.slide_layout import MalformedSlide, Tiles, texts_of, tiles_of
from medsanitize.verifiers.leaks.slide_macro import Part as Kept
from medsanitize.verifiers.leaks.slide_rendering import differences
from medsanitize.verifiers.leaks.slide_single_pass import SinglePassReader, sums_of

STRUCTURE: Final = Finding("structure", "audit:structure")
# Shorter words of the source occur in encoded tiles by chance.
_LEAST_OF_SOURCE: Final = 10
_CONTEXT_BYTES: Final = 16
"""Bytes before a value that decide whether it is a separate word."""


@dataclass(frozen=True, slots=True, repr=False)
class StagedSlide:
    """A slide to audit: its main file, its record, and its source if available.

    Attributes
    ----------
    main : Path
        The main released file.
    sha256 : str
        SHA-256 (hex) in the record.
    stated : SlideRecord
        What the run recorded about the slide.
    parts : tuple of FilePart
        All files in the record; empty for a slide of one file.
    sources : tuple of Path
        Files of the source, the main one first.
    metadata : bool
        Whether the policy keeps comments and application segments of JPEG tiles.
    macro : Kept or None
        Part of the macro image that the policy keeps.
    """

    main: Path
    sha256: str
    stated: SlideRecord
    parts: tuple[FilePart, ...] = ()
    sources: tuple[Path, ...] = ()
    metadata: bool = False
    macro: Kept | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """All released files, the main one first."""
        if not self.parts:
            return (self.main,)
        stem = str(self.main).removesuffix(self.parts[0].name)
        return tuple(Path(stem + part.name) for part in self.parts)

    def __repr__(self) -> str:
        return f"StagedSlide({len(self.files)} files)"


def audit_slide(staged: StagedSlide, *, search: IdentifierSearch) -> tuple[Finding, ...]:
    """Audit a released slide: search its bytes, and compare what viewers show with record and source.

    Parameters
    ----------
    staged : StagedSlide
        The slide.
    search : IdentifierSearch
        The run-wide search.

    Returns
    -------
    tuple of Finding
        ``audit:digest``; ``audit:structure``; ``audit:picture``; ``audit:date`` etc. for hidden data;
        ``audit:name`` etc. for identifiers; ``audit:viewer`` if OpenSlide or tifffile read something else
        than in the source. Sorted, never a value.
    """
    return read_slide(staged, search=search)[0]


def read_slide(
    staged: StagedSlide, *, search: IdentifierSearch
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Audit a slide and digest its tiles in one pass.

    Parameters
    ----------
    staged : StagedSlide
        The slide.
    search : IdentifierSearch
        The run-wide search.

    Returns
    -------
    findings : tuple of Finding
        As for `audit_slide`.
    digests : tuple of str
        As for `tile_digests`.
    """
    findings: set[Finding] = set()
    sums: dict[Path, str] = {}
    joined: list[bytes] = []
    with ThreadPoolExecutor(1) as viewer:
        # Decoding releases the interpreter's lock, so the viewer runs while the bytes are searched.
        looked_at = (staged.main, staged.stated, staged.sources, staged.macro)
        seen = viewer.submit(lambda: list(differences(*looked_at)))
        try:
            findings.update(_in_bytes(staged, search, sums, joined))
        except MalformedSlide:
            findings.add(STRUCTURE)
        findings.update(seen.result())
    findings.update(_digests(staged, sums))
    ordered = sorted(findings, key=lambda finding: (finding.location, finding.rule))
    return tuple(ordered), _of_tiles(staged.main, joined)


def _in_bytes(
    staged: StagedSlide, search: IdentifierSearch, sums: dict[Path, str], joined: list[bytes]
) -> Iterator[Finding]:
    """Yield findings of every file, each read once; add to ``sums`` (digests) and ``joined`` (tile sums)."""
    layouts = tiles_of(staged.main, staged.files[1:])
    texts = list(texts_of(staged.sources[0], staged.sources[1:])) if staged.sources else []
    tokens = identifying_words(texts)
    extended = search.with_words(
        word for word in (*tokens, *base64_words(texts)) if len(word) >= _LEAST_OF_SOURCE
    )
    for path, tiles in layouts.items():
        if path.stat().st_size == 0:
            yield STRUCTURE
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            one = SinglePassReader(data, tiles.base)
            gaps = _gaps(tiles.every, len(data))
            yield from _known(data, gaps, chain(_outside(data, gaps, extended), one.hits(extended)), extended)
            sums[path] = one.sha256
            joined.append(one.tiles)
            yield from _search(data, tiles, tokens, metadata=staged.metadata)


def tile_digest(main: Path, others: Sequence[Path]) -> str | None:
    """Return the first of `tile_digests`, that of the whole slide; None if the tiles cannot be located."""
    return next(iter(tile_digests(main, others)), None)


def tile_digests(main: Path, others: Sequence[Path]) -> tuple[str, ...]:
    """Return digests of the tiles of the largest level, in order, independent of the container.

    Of JPEG tiles, only the data from the first scan counts, so that comments and the location of tables have
    no influence.

    Parameters
    ----------
    main : Path
        Main file of the slide.
    others : sequence of Path
        Its other files.

    Returns
    -------
    tuple of str
        64 hexadecimal digits each: of the whole slide and, for a list of scans (AFI) with several channels,
        of each channel. Empty if the tiles cannot be located. Not to be published: the original slide has the
        same digest.
    """
    joined = []
    try:
        layouts = tiles_of(main, others)
    except MalformedSlide:
        return ()
    for path, tiles in layouts.items():
        if tiles.base:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                joined.append(sums_of(data, tiles.base))
    return _of_tiles(main, joined)


def _of_tiles(main: Path, joined: Sequence[bytes]) -> tuple[str, ...]:
    """Return the digest of all files together and, for a list of scans, of each."""
    several = [one for one in joined if one]
    apart = several if main.suffix.lower() == ".afi" and len(several) > 1 else []
    return tuple(sha256(one).hexdigest() for one in (b"".join(several), *apart) if one)


def _digests(staged: StagedSlide, sums: Mapping[Path, str]) -> Iterator[Finding]:
    """Check that every file exists, is no link, and has the recorded digest.

    ``sums`` contains digests of files that were already read.
    """
    files = staged.files
    if any(path.is_symlink() or not path.is_file() for path in files):
        yield Finding("file", "audit:missing")
        return
    found = [sums.get(path) or _digest(path) for path in files]
    if staged.parts:
        stated = [part.sha256 for part in staged.parts]
        if found != stated or parts_digest(staged.parts) != staged.sha256:
            yield Finding("file", "audit:digest")
    elif found != [staged.sha256]:
        yield Finding("file", "audit:digest")


def _digest(path: Path) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _search(data: mmap.mmap, tiles: Tiles, tokens: Tokens, *, metadata: bool) -> Iterator[Finding]:
    marks = [mark for place in tiles.profiles if (mark := profile_mark(data, place)) is not None]
    unmarked = _gaps(sorted([*tiles.every, *marks]), len(data))
    # Joined by bytes that occur in no text, so that no match spans two gaps.
    outside = b"\xfe\xfd".join(data[start:end] for start, end in unmarked)
    for rule in hidden_data_rules(outside, tokens):
        yield Finding("description", f"audit:{rule}")
    for rule in tile_faults(data, tiles, metadata=metadata):
        yield Finding("tiles", f"audit:{rule}")


def _gaps(ranges: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    gaps, reached = [], 0
    for start, end in (*ranges, (size, size)):
        if start > reached:
            gaps.append((reached, start))
        reached = max(reached, end)
    return gaps


def _outside(
    data: mmap.mmap, gaps: Sequence[tuple[int, int]], extended: IdentifierSearch
) -> Iterator[IdentifierHit]:
    """Yield hits that begin outside the tiles, of any length."""
    windows: list[tuple[int, int]] = []
    for start, end in gaps:
        # Windows exceed gaps, to include adjacent characters and values that extend into a tile.
        begin, stop = max(start - _CONTEXT_BYTES, 0), min(end + OVERLAP, len(data))
        if windows and begin <= windows[-1][1]:
            begin = windows.pop()[0]
        windows.append((begin, stop))
    for begin, stop in windows:
        for hit in extended.hits(data[begin:stop]):
            yield replace(hit, start=begin + hit.start, end=begin + hit.end)


def _known(
    data: mmap.mmap, gaps: Sequence[tuple[int, int]], hits: Iterable[IdentifierHit], search: IdentifierSearch
) -> Iterator[Finding]:
    """Yield findings for hits; in tiles, only for those that are unlikely by chance."""
    from bisect import bisect_right

    starts = [start for start, _ in gaps]
    for hit in hits:
        if hit.rule == "source-text":
            yield Finding("tiles", "audit:source-text")
            continue
        number = bisect_right(starts, hit.start) - 1
        inside = number < 0 or hit.start >= gaps[number][1]
        if inside and hit.rule != "uid" and hit.length < MIN_RUN:
            continue
        if inside and not search.counts_in_image(data, hit, 0, len(data), native=False):
            continue
        if stands_alone(data, hit, 0, len(data)):
            yield Finding("tiles" if inside else "description", f"audit:{hit.rule}")


def manifest_facts(row: Any) -> SlideRecord:
    """Return what a manifest row states about a slide."""
    levels = tuple(
        (int(width), int(height))
        for width, _, height in (one.partition("x") for one in str(row.slide_levels).split(","))
    )
    macros = str(row.slide_macros or "")
    return SlideRecord(str(row.slide_vendor), levels, row.slide_mpp, row.slide_objective, macros=macros)
