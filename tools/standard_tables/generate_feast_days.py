"""Generate the names of feasts and public holidays.

``python -m medsanitize.tools.standard_tables.generate_feast_days --sources FOLDER`` writes ``feast_days.txt``
to ``policies/tables``: names in the languages of all countries, folded. Run by a maintainer, never at run
time. Requires the unpacked package holidays in the folder; see ``VOCABULARY.md``.
"""

from __future__ import annotations

import argparse
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

from medsanitize.policies.tables import vocabulary
from medsanitize.sanitize.text.scripts.characters import WORD, has_script, script_of
from medsanitize.sanitize.text.scripts.forms import is_script_word

TABLES = Path(__file__).parents[2] / "policies" / "tables"
_CALLED = re.compile(r'(?:tr|self\.tr)\(\s*"((?:[^"\\]|\\.)*)"\s*\)')
_REMARK = re.compile(r"\s*[（(].*?[)）]")
_BORDER = re.compile(r"\s*(?:[;/]| – | - )\s*")
_NUMBER = re.compile(r"%|\d{3}")
_WORD = re.compile(f"{WORD}+")
_LEADING = re.compile(
    r"^(?:(?:the|le|la|les|el|los|las|il|lo|i|o|a|os|as|het|de|der|die|das) (?=\S+ )|[ld] (?=\S))"
)
_MOST_WORDS = 6
_FEWEST_LETTERS = 4
# Stock exchanges also close for storms and strikes.
_FINANCIAL = re.compile(r"X[A-Z]{3}|NYSE|BVMF|IFEU|B3|ECB|NSE|BSE")
# Words that are more often something else: Hebrew "weeks", Korean "Korean food", German "driveway".
_ORDINARY = frozenset(
    "sunday heat snowstorm auffahrt cherchera carnival visitation prinsesse easter christmas natale natal "
    "navidad noël noel holiday weekend birthday jubilee dano reis oster lincoln losar nadal tasua pasen "
    "pasku onam pisah rincon "
    "שבועות 한식 청명 休息日 проводи עצמאות تعطیلی".split()
)
_OTHER = frozenset(["transfer day", "natal day", "colon day", "big day", "show day", "capital day"])
_SURE = frozenset(["cjk", "thai", "hangul", "devanagari"])
_LATIN_END = 0x250
# Of other scripts, names are not cut in texts and need no table.
_KEPT = frozenset(["greek", "cyrillic", "hebrew", "arabic", "devanagari", "thai", "hangul", "cjk"])


def main(argv: list[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Make the names of feasts and public holidays.")
    parser.add_argument("--sources", type=Path, required=True, help="folder of the unpacked packages")
    options = parser.parse_args(argv)
    found = {key for name in _names(options.sources / "holidays") for key in _keys(name)}
    (TABLES / "feast_days.txt").write_text("".join(f"{key}\n" for key in sorted(found)), encoding="utf-8")


def _names(folder: Path) -> Iterator[str]:
    for part in ("countries", "groups", "calendars"):
        for path in sorted((folder / part).rglob("*.py")):
            yield from _CALLED.findall(path.read_text(encoding="utf-8"))
    for path in sorted((folder / "locale").glob("*/LC_MESSAGES/*.mo")):
        if not _FINANCIAL.fullmatch(path.stem):
            with path.open("rb") as file:
                translations = gettext.GNUTranslations(file)
            # gettext has no public list of messages.
            catalog: dict[object, str] = translations._catalog  # type: ignore[attr-defined]
            yield from (text or key for key, text in catalog.items() if isinstance(key, str))


def _keys(name: str) -> Iterator[str]:
    """Yield the parts of a name as the table has them."""
    for part in _BORDER.split(_REMARK.sub("", name)):
        key = _LEADING.sub("", " ".join(_WORD.findall(vocabulary.fold(part))))
        if key and not _NUMBER.search(part) and _is_read(key) and _is_clear(key):
            yield key


def _is_read(key: str) -> bool:
    """Return whether all letters are of scripts in which names are sought."""
    return all(
        ord(char) < _LATIN_END or script_of(char) in _KEPT or "\u1e00" <= char < "\u1f00" for char in key
    )


def _is_clear(key: str) -> bool:
    """Return whether a name means a day and nothing else."""
    words = key.split()
    if len(words) > _MOST_WORDS:
        return False
    if len(words) > 1:
        said = all(word in vocabulary.words() or word.isdigit() for word in words)
        return key == "new year" or not (said or key in _OTHER)
    if key in _ORDINARY or key.isdigit():
        return False
    if has_script(key):
        return len(key) > 1 and (script_of(key[0]) in _SURE or not _is_common(key))
    said = key in vocabulary.words() or key in vocabulary.clinical_words()
    return len(key) >= _FEWEST_LETTERS and not said


def _is_common(key: str) -> bool:
    """Return whether a word of a script with spaces is short and in the vocabulary."""
    return is_script_word(key) and len(key) < _FEWEST_LETTERS


if __name__ == "__main__":
    main()
