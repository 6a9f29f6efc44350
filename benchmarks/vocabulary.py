"""Whole terms of clinical terminologies that cleaned texts keep, and names that they leave.

    python benchmarks/vocabulary.py OUT [--sample 2000] [--names 53000] [--names-from FILE] [--skip-learning]

A term counts as kept if each of its words is kept. Two lines per terminology: what ships, and the half of the
terms that was held out (by the digest of the term) when words, phrases and letter n-grams were learned
from the other half. Of sources that do not ship, only the half is judged that no rule was written with. Names
are the most frequent surnames and first names of names-dataset, and a sample of rare ones; one counts as left
if any of it remains of a text that consists of the name only. Terminologies whose packages are not installed
are skipped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

import medsanitize
from common import fresh, table
from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.vocabulary import fold
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms
from medsanitize.tools.standard_tables.terminologies import Terminology, in_half, installed

# Percent of the terms that ship, of those held out in English; names left, one of so many.
BAR_SHIPPED, BAR_HELD_OUT = 99.5, 95.0
_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"[A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u024f]{3,}")
_FIRST_RARE = 100_000
_UNRANKED = 10**9


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge what ships, learn from one half, judge the other, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--sample", type=int, default=2000, help="terms of each terminology")
    parser.add_argument("--names", type=int, default=53_000, help="frequent names")
    parser.add_argument("--names-from", type=Path, help="names.json of an earlier run")
    parser.add_argument("--skip-learning", action="store_true", help="judge only what ships")
    parser.add_argument("--judge", choices=("all", "held-out"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.judge:
        print(json.dumps(judged(given.judge == "held-out", given.sample, given.names, given.out)))
        return 0
    names = given.names_from.read_bytes() if given.names_from else b""
    out = fresh(given.out)
    if names:
        (out / "names.json").write_bytes(names)
    results = [("ships", judged(False, given.sample, given.names, out))]
    if not given.skip_learning:
        learn_half(out / "half")
        command = [sys.executable, __file__, str(out), "--judge", "held-out"]
        command += ["--sample", str(given.sample), "--names", str(given.names)]
        paths = os.pathsep.join([str(out / "half"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, check=True, text=True
        )
        results.append(("held out", json.loads(done.stdout)))
    rows = [(name, what, *row) for what, result in results for name, row in result.items()]
    print(table(("source", "tables", "language", "texts", "kept or left, %", "CPU ms a text"), sorted(rows)))
    return int(any(_is_below(row) for row in rows))


def _is_below(row: tuple[str, ...]) -> bool:
    name, what, _, _, share, _ = row
    if name.startswith("names"):
        return False
    shipped = {source.name for source in installed() if source.shipped}
    return name in shipped and float(share) < (BAR_SHIPPED if what == "ships" else BAR_HELD_OUT)


def learn_half(folder: Path) -> None:
    """Copy the package, with tables that are learned from the terms that are not held out."""
    package = folder / "medsanitize"
    ignored = shutil.ignore_patterns(
        ".*", "tests", "benchmarks", "docs", "build", "*.egg-info", "__pycache__"
    )
    shutil.copytree(Path(medsanitize.__file__).parent, package, ignore=ignored, symlinks=True)
    from medsanitize.tools.standard_tables.generate_terms import learn

    shipped = [source for source in installed() if source.shipped]
    terms = {term for source in shipped for term in source.terms()}
    # A term of another source may differ in its capitals only.
    held_out = {fold(term) for term in terms if in_half(term)}
    learnt = {term for term in terms if not in_half(term) and fold(term) not in held_out}
    cased = {term for source in shipped if source.cased for term in source.terms()}
    learned = learn(learnt, learnt & cased)
    learned.write(package / "policies" / "tables")


def judged(held_out: bool, sample: int, names: int, out: Path) -> dict[str, tuple[str, ...]]:
    """Language, number of texts, percent and milliseconds of each terminology, and of the names."""
    cleaner, nobody = TextCleaner(TextSection(action="clean")), compile_terms([])
    found: dict[str, tuple[str, ...]] = {}

    def add(name: str, language: str, counted: int, texts: int, start: float) -> None:
        each = 1000 * (time.process_time() - start) / max(1, texts)
        found[name] = language, str(texts), f"{100 * counted / max(1, texts):.2f}", f"{each:.1f}"

    for source in installed():
        terms, start = sampled(source, held_out, sample), time.process_time()
        lost = [term for term in terms if not is_kept(term, cleaner.clean(term, nobody).text)]
        (out / f"lost-{source.name}-{'held-out' if held_out else 'ships'}.txt").write_text("\n".join(lost))
        add(source.name, source.language, len(terms) - len(lost), len(terms), start)
    for what, listed in name_sets(names, out):
        start = time.process_time()
        left = [name for name in listed if cleaner.clean(name, nobody).text.strip()]
        (out / f"left-{what}-{'held-out' if held_out else 'ships'}.txt").write_text("\n".join(left))
        add(f"names: {what}", "", len(left), len(listed), start)
    return found


def sampled(source: Terminology, held_out: bool, sample: int) -> list[str]:
    """Terms to judge, by digest; only the half that was held out, except of sources that ship."""
    terms = [term for term in source.terms() if in_half(term) or not (held_out or not source.shipped)]
    return sorted(terms, key=lambda term: hashlib.sha256(term.encode()).digest()[1:])[:sample]


def is_kept(term: str, cleaned: str) -> bool:
    """Whether each word of a term is kept."""
    left = Counter(fold(word) for word in _WORD.findall(cleaned))
    return not Counter(fold(word) for word in _WORD.findall(term)) - left


def name_sets(count: int, out: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the most frequent names of names-dataset, half surnames, and as many rare ones."""
    cached = out / "names.json"
    if not cached.exists():
        frequent: list[str] = []
        rare: list[str] = []
        for kind in ("first", "last"):
            listed = ranked(kind)
            frequent += listed[: count // 2]
            rare += listed[_FIRST_RARE:]
        rare = sorted(set(rare), key=lambda name: hashlib.sha256(name.encode()).digest())[:count]
        cached.write_text(json.dumps({"frequent": list(dict.fromkeys(frequent)), "rare": rare}))
    yield from json.loads(cached.read_text()).items()


def ranked(kind: str) -> list[str]:
    """Names in Latin script, the best rank in any country first; empty without names-dataset."""
    try:
        dataset = import_module("names_dataset").NameDataset()
    except ModuleNotFoundError:
        return []
    names = dataset.first_names if kind == "first" else dataset.last_names
    ranks = {
        name: min((rank for rank in (about.get("rank") or {}).values() if rank), default=_UNRANKED)
        for name, about in names.items()
        if _NAME.fullmatch(name)
    }
    return sorted(ranks, key=lambda name: (ranks[name], name))


if __name__ == "__main__":
    sys.exit(main())
