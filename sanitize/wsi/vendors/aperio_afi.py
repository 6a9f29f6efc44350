"""Aperio AFI: an XML list of SVS files in the same folder, one per channel of a fluorescence scan.

Readers use only the ``Path`` elements, in their order. They take the name of a channel from the part of the
file name after the last underscore, or from the description of the SVS.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan
from medsanitize.sanitize.formats.xml import local_name, parse_xml, write_element
from medsanitize.sanitize.pieces import Copy, OutFile, Piece
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.stains import known_channel
from medsanitize.sanitize.wsi.vendors import aperio

NAME = "aperio-afi"
_ROOT, _SUFFIX = "ImageList", ".svs"
_MOST_BYTES, _HEAD = 1 << 20, 1 << 16
_BEFORE_TEXT = b"\xef\xbb\xbf\xff\xfe \t\r\n"
_PATH = re.compile(r"<(?:\w+:)?Path[^<>]*>(.*?)</(?:\w+:)?Path\s*>", re.DOTALL)
_VERBATIM = re.compile(r"<!\[CDATA\[(.*)\]\]>", re.DOTALL)


def recognizes(view: SlideView) -> bool:
    """Return whether the file is an XML image list and has the suffix ``.afi`` or names an SVS."""
    # NUL bytes are removed so that one comparison serves UTF-8 and UTF-16.
    head = bytes(view.data[:_HEAD]).replace(b"\0", b"").lstrip(_BEFORE_TEXT)
    named = view.files[0].name.lower().endswith(".afi") or _SUFFIX.encode() in head.lower()
    return named and head.startswith(b"<") and f"<{_ROOT}".encode() in head


def companions(listed: bytes) -> frozenset[str]:
    """Return the names of the SVS files in the same folder that an AFI lists, even if its XML is invalid.

    Parameters
    ----------
    listed : bytes
        Content of the AFI file.
    """
    # Inventory must find the files of a damaged slide too, else each SVS would become a slide of its own.
    wide = listed[:2] in (b"\xff\xfe", b"\xfe\xff")
    content = listed[:_MOST_BYTES].decode("utf-16" if wide else "utf-8", "replace")
    verbatim = (_VERBATIM.fullmatch(given.strip()) for given in _PATH.findall(content))
    plain = (html.unescape(given).strip() for given in _PATH.findall(content))
    names = {found[1].strip() for found in verbatim if found} | set(plain)
    return frozenset(name for name in names if name.lower().endswith(_SUFFIX) and not _leaves(name))


def plan_edits(view: SlideView, rules: WholeSlides, name: SlideName) -> EditPlan:
    """Plan every SVS as `aperio` does, under a new name, and a new list.

    Raises
    ------
    Quarantined
        ``slide-file-elsewhere`` if a name leads out of the folder; ``slide-file-missing``;
        ``slide-not-supported`` if a named file is not an SVS, or to wipe the slide in place; otherwise as
        in `aperio`.
    """
    # The SVS files can be wiped individually.
    if view.untouched:
        raise Quarantined("slide-not-supported", "structure")
    index = {file.name: number for number, file in enumerate(view.files) if number}
    paths = _paths(view)
    for path in paths:
        if _leaves(path):
            raise Quarantined("slide-file-elsewhere", "structure")
        if path not in index:
            raise Quarantined("slide-file-missing", "structure")
    # A file that the list does not name would be dropped without a report.
    if len(paths) != len(index):
        raise Quarantined("slide-not-supported", "structure")
    files: list[OutFile] = []
    plans: list[EditPlan] = []
    counts = {"C:slide-description": 1}
    for number, path in enumerate(paths, 1):
        channel = known_channel(path[: -len(_SUFFIX)].rpartition("_")[2])
        ending = f"_{number}_{channel}" if channel else f"_{number}"
        plan = _channel(view, index[path], rules, SlideName(name.instance + ending, name.key))
        files.append(OutFile(ending + _SUFFIX, _from(plan.files[0].pieces, index[path])))
        plans.append(plan)
        for rule, count in plan.rules.items():
            counts[rule] = counts.get(rule, 0) + count
    listed = [
        write_element("Image", None, write_element("Path", None, name.instance + file.name)) for file in files
    ]
    xml = '<?xml version="1.0"?>\r\n' + write_element(_ROOT, None, "".join(listed)) + "\r\n"
    names = tuple((path, name.instance + file.name) for path, file in zip(paths, files, strict=True))
    macros = tuple("".join(plan.facts.macros) for plan in plans)
    facts = replace(plans[0].facts, macros=macros if any(macros) else ())
    return EditPlan((OutFile(".afi", (xml.encode("ascii"),)), *files), facts, counts, names)


def _paths(view: SlideView) -> list[str]:
    """Return the distinct file names of the list, in its order."""
    if len(view.data) > _MOST_BYTES:
        raise Quarantined("slide-description-too-large", "description")
    root = parse_xml(bytes(view.data))
    found = [(one.text or "").strip() for one in root.iter() if local_name(one) == "Path"]
    if local_name(root) != _ROOT or not found:
        raise Quarantined("slide-description", "description")
    return list(dict.fromkeys(found))


def _leaves(path: str) -> bool:
    """Return whether a name may lead out of the folder."""
    # Separators of all systems: a list made on Windows must not be harmless only on Linux.
    return path in ("", ".", "..") or any(one in path for one in "/\\:\0")


def _channel(view: SlideView, file: int, rules: WholeSlides, name: SlideName) -> EditPlan:
    alone = SlideView((view.files[file],), view.untouched)
    if not aperio.recognizes(alone):
        raise Quarantined("slide-not-supported", "structure")
    return aperio.plan_edits(alone, rules, name)


def _from(pieces: tuple[Piece, ...], file: int) -> tuple[Piece, ...]:
    """Let the copies among the pieces refer to the file with index ``file``."""
    return tuple(piece._replace(file=file) if isinstance(piece, Copy) else piece for piece in pieces)
