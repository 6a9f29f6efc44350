"""Write the reference of rule ids from the source code: `python docs/rules.py` prints it.

The site includes it in docs/rules.md when it is built. Only the source is read: neither medsanitize nor a
dependency of it is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("api", "pipeline", "sanitize", "verifiers")
_RAISED = frozenset(["Quarantined", "SourceProblem"])
_CHANGE = re.compile(r"[XZDKCU]:[\w.-]+")
_AUDIT = re.compile(r"audit:[a-z-]+")

DROPPED: Mapping[str, str] = {
    "container": "An archive, compressed file or disk image; `containers.action` is `drop`.",
    "container-opened": "An archive or disk image that was opened; each file in it has its own outcome.",
    "ignored:...": "A file whose kind is in `ignore`; the kind follows the colon.",
    "consent": "The patient is in the list `exclude`, or the object belongs to a study of such a patient.",
    "document": "An encapsulated document, model or recording; `documents.other` is `drop`.",
    "duplicate-bytes": "A byte-identical copy of a released object (`deduplicate.bytes`).",
    "duplicate-pixels": "An object with the same pixels as a released one (`deduplicate.pixels`).",
    "duplicate-registry": "An object that an earlier release contains (`deduplicate.registry`).",
    "overlap": "An object of a patient who matches a patient of an earlier release (`overlap.action`).",
    "raster-image": "A PNG, JPEG or TIFF file; `raster.action` is `drop`.",
    "slide": "A whole-slide image; `wsi.action` is `drop`.",
    "slide-picture": "A label, overview or unwanted thumbnail instance of a DICOM whole-slide image.",
    "synthesize:replaced": "An image that the policy replaces by synthetic ones (`synthesize.replace`).",
}
"""Why an object is dropped."""

CHANGES: Mapping[str, str] = {
    "E.1-1": "by PS3.15 Table E.1-1",
    "option": "by an option of PS3.15 that the policy turns on",
    "policy": "by an override in `dicom.attributes`",
    "unlisted": "in no table of PS3.15, by its VR",
    "unchanged": "the value is released as it was; not counted as an action",
    "empty": "the value was empty",
    "age-over-89": "age over 89 years, replaced by `090Y`",
    "address": "application entity title or address (VR AE, UR)",
    "after-image": "bytes after the end of the image",
    "after-pixel-data": "elements after the pixel data",
    "beyond-its-count": "data beyond what the related counts declare",
    "binary": "binary data where the standard has no sample data",
    "bits-outside-bits-stored": "bits outside Bits Stored, set to 0",
    "burned-in-text": "region of pixels with text, blanked",
    "color-profile": "ICC profile of an image file or slide: removed (X), or reduced to its numbers (C)",
    "dangling-reference": "reference to an item or overlay that is not released",
    "date": "date, shifted or reduced to the year",
    "decompressed": "lossy image stored as its decoded pixels",
    "document-rebuilt": "PDF rebuilt from cleaned page images",
    "duplicate-element": "second element with the same tag",
    "encapsulated-document": "encapsulated document in an object that is not rebuilt",
    "exif": "EXIF metadata",
    "fill-bits": "padding bits of rows",
    "foreign-byte-order": "numbers whose byte order cannot be converted",
    "foreign-numbers": "many numbers in an attribute that does not belong to the object's IOD",
    "frame-metadata": "comments and application segments in a compressed frame",
    "free-text": "free text, cleaned",
    "free-text-language": "free text in a language that the word lists do not cover, cleaned",
    "group-length": "group length element, or Length to End",
    "icc-profile": "ICC profile: numbers are kept, texts are removed",
    "icon-image": "icon image",
    "institution": "content item with the name or address of an institution",
    "invalid-value": "value that is not valid for its VR",
    "iptc": "IPTC metadata",
    "jpeg-application": "application segment of a JPEG file",
    "jpeg-comment": "comment of a JPEG file",
    "jpeg-more-pictures": "additional images in a JPEG file (MPF)",
    "jpeg-tables": "JPEG tables that no scan uses",
    "known-identifier": "number that is a known identifier of the patient",
    "long-number": "number in a safe private attribute, as long as that of a patient or an order",
    "missing": "UID that the object lacked",
    "named": "value that contains a name known of the patient",
    "not-a-defined-term": "coded string that is no defined term",
    "nothing-left": "item or sequence with no content left",
    "observer-context": "content item about an observer",
    "offset-table": "offset table of one frame that was wrong or missing (C), or extended table (X)",
    "overlay": "overlay plane: text in it blanked (C) or removed (X)",
    "patient": "patient name and ID, in an object that must not have them",
    "person-name": "person name (VR PN)",
    "pixel-slack": "bytes after the last sample, removed",
    "place": "reference to a content item, renumbered",
    "png-chunk": "chunk of a PNG file that viewers do not need",
    "png-text": "text of a PNG file",
    "png-time": "time stamp of a PNG file",
    "private": "private attribute that is not known to be safe",
    "pseudonym": "patient ID and name, replaced by the pseudonym",
    "request-context": "content item about the request",
    "identifier-context": "content item with an identifier, a label, a device or a place",
    "safe-private": "private attribute of the list of safe ones, cleaned",
    "shared-uid": "SOP Instance UID that another object states as well (`deduplicate.one_uid`)",
    "slide-description": "description of a slide: reduced to the allowed keys",
    "slide-label": "label image of a slide, replaced by one with its released name",
    "slide-macro": "macro image of a slide: a part is kept (C), or removed (X)",
    "slide-picture": "label, macro or other additional image of a slide",
    "number-of-frames": "unreadable Number of Frames, stated again by the size of the pixel data",
    "statement": "attributes that state the de-identification",
    "explicit-items-of-un": "items of explicit VR in a sequence that is written as UN",
    "stray-item": "item or delimiter outside of a sequence",
    "subject-context": "content item about the subject's identity",
    "surplus-frames": "frames beyond the declared number, cut off",
    "text-in-numbers": "readable text in binary numbers",
    "tiff-tag": "TIFF tag that viewers do not need",
    "tiff-text": "TIFF tag with text",
    "tiff-thumbnail": "thumbnail of a TIFF file",
    "tile-metadata": "comments and application segments of a slide's tiles",
    "tile-slack": "bytes after the end of a slide's tile",
    "time": "time of day: shifted (C) or removed, as `dicom.dates.times` sets",
    "uncounted": "sample data whose size no other element declares",
    "undecodable-pixels": "pixel data that nothing describes, or of an unknown transfer syntax: left out",
    "unknown-attribute": "attribute that PS3.6 does not list",
    "unknown-character-set": "character set that the standard does not list",
    "unknown-code": "code that is not known to belong to its scheme",
    "unknown-scheme": "coding scheme that is not known",
    "unreadable-sequence": "sequence that cannot be parsed",
    "unused-colors": "palette entries that no pixel uses",
    "wrong-vr": "value representation that contradicts PS3.6",
    "xmp": "XMP metadata",
}
"""What a change concerns, by the part of the rule id after the action code."""

AUDIT: Mapping[str, str] = {
    "address": "A known address.",
    "coded-text": "Text in base64 in the metadata of a slide.",
    "date": "A known date of the patient, or a date in the metadata of a slide.",
    "digest": "The bytes differ from the recorded digest.",
    "guid": "A GUID in the metadata of a slide.",
    "id": "A known number, such as a patient ID or an accession number.",
    "index": "The research index says something else than the manifest or the header.",
    "institution": "A known institution or department.",
    "internal-error": "The audit failed while reading the object.",
    "malformed-": "The file cannot be parsed; the rest of the id says why.",
    "manifest": "The manifest and the object disagree.",
    "meta": "An element that does not belong into the file meta information.",
    "metadata": "EXIF, XMP or an ICC profile with more than numbers, in a slide.",
    "missing": "A file of the release is missing.",
    "name": "A known name of a person.",
    "order": "Elements are not in the order of their tags.",
    "packed-text": "Compressed text in the metadata of a slide.",
    "person-name": "A person name other than the pseudonym or a dummy value.",
    "phone": "A known phone number.",
    "picture": "An image in a slide that should not be there, or that is not the recorded one.",
    "pixels": "The pixels of a slide differ from those of its source.",
    "preamble": "The preamble of a DICOM file is not empty.",
    "private": "A private attribute without creator, or of a creator that the policy does not keep.",
    "pseudonym": "Patient ID is not the recorded pseudonym.",
    "second-reader": "pydicom reads other elements than the audit's own parser.",
    "size": "The size differs from the recorded one.",
    "source-text": "A word of the source's own metadata, in a slide.",
    "structure": "Data where the format of a released object has none.",
    "text": "Another known text, such as the name of a device or station.",
    "tile-metadata": "Comments or application segments in the tiles of a slide.",
    "tile-slack": "Bytes after the end of a tile of a slide.",
    "uid": "A known UID of the source, or a UID that is neither registered nor new.",
    "unlisted": "A file in the release that the manifest does not list.",
    "viewer": "OpenSlide cannot open the slide, or shows other levels than recorded.",
    "worker-died": "The worker process that read the object crashed.",
}
"""What the audit found, by the part of the rule id after ``audit:``."""

_ACTIONS = (
    ("D", "replaced by a dummy value"),
    ("Z", "emptied"),
    ("X", "removed"),
    ("K", "kept"),
    ("C", "cleaned"),
    ("U", "UID replaced"),
)


def page() -> str:
    """Return the tables of all rule ids as Markdown."""
    reason_for = _rule_help().reason_for
    quarantine = ((f"`{rule}`", *reason_for(rule)) for rule in sorted(quarantine_rules()))
    dropped = ((f"`{rule}`", meaning) for rule, meaning in DROPPED.items())
    changes = ((f"`{why}`", meaning) for why, meaning in sorted(CHANGES.items(), key=_alphabetical))
    audit = ((f"`audit:{rule}{'...' * rule.endswith('-')}`", meaning) for rule, meaning in AUDIT.items())
    return "\n".join(
        [
            "## Quarantined objects\n",
            _table(("rule", "reason", "what to do"), quarantine),
            "## Dropped objects\n",
            _table(("rule", "reason"), dropped),
            "## Changes\n",
            "A change has the id `ACTION:SUBJECT`, as in `X:private`. The actions are those of PS3.15. "
            "`face-defaced` has no action: a face was removed from the pixels.\n",
            _table(("code", "action"), _ACTIONS),
            _table(("subject", "meaning"), changes),
            "## Audit findings\n",
            "In the table of quarantined objects, a slide that fails the audit has one of these ids.\n",
            _table(("rule", "meaning"), audit),
        ]
    )


def quarantine_rules() -> set[str]:
    """Return the ids of every rule that quarantines an object, except those of the audit."""
    raised = {rule for call in _calls() if _name(call) in _RAISED for rule in _texts(call.args[:1])}
    return raised | set(_rule_help()._EXACT)


def dropped_rules() -> set[str]:
    """Return the ids that the code drops objects by."""
    return {rule for call in _calls() if _name(call) == "Excluded" for rule in _texts(call.args[:1])}


def change_subjects() -> set[str]:
    """Return the parts after the action code of all rule ids of changes."""
    ids = {text for text in _constants() if _CHANGE.fullmatch(text)}
    whys = {
        text
        for call in _calls()
        if _name(call) in ("Rule", "remove_by_type")
        for text in _texts(call.args[1:2] if _name(call) == "Rule" else call.args[5:6])
    }
    return {text[2:] for text in ids} | whys


def audit_rules() -> set[str]:
    """Return the parts after ``audit:`` of the audit's rule ids."""
    return {text.partition(":")[2] for text in _constants() if _AUDIT.fullmatch(text)}


def _alphabetical(item: tuple[str, str]) -> str:
    return item[0].lower()


@cache
def _trees() -> tuple[ast.Module, ...]:
    files = (path for name in _PACKAGES for path in sorted((_ROOT / name).rglob("*.py")))
    return tuple(ast.parse(path.read_text(encoding="utf-8")) for path in files)


def _calls() -> Iterator[ast.Call]:
    return (node for tree in _trees() for node in ast.walk(tree) if isinstance(node, ast.Call))


def _constants() -> Iterator[str]:
    return (
        node.value
        for tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def _texts(arguments: Iterable[ast.expr]) -> Iterator[str]:
    """Yield the strings that an argument may be; a conditional expression has two."""
    for argument in arguments:
        if isinstance(argument, ast.IfExp):
            yield from _texts([argument.body, argument.orelse])
        elif isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value


@cache
def _rule_help() -> Any:
    """Return the module of reasons, loaded by its path: importing the package needs its dependencies."""
    spec = spec_from_file_location("rule_help", _ROOT / "pipeline" / "reporting" / "rule_help.py")
    if spec is None or spec.loader is None:
        raise SystemExit("pipeline/reporting/rule_help.py is missing")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    print(page())
