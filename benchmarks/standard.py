"""Tables E.1-1 and E.3.10-1 of PS3.15, row by row: what is left, and what an option keeps.

    python benchmarks/standard.py [--every N] [--only NAME]

Plants a value of each row in an object of an IOD that carries it, at depths 0, 1 and 3, in implicit, explicit
and deflated syntax, and sanitizes it under each preset and under the Basic Profile with each option. Values
are a name, identifiers and clinical words: what the row removes must be in no byte of the released object,
what an option keeps must be in it. Reads the shipped tables. Exits 1 if a value is left or lost, or an object
is quarantined.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import pack

from medsanitize.policies.load import PRESETS, loads
from medsanitize.policies.model import Options, Policy
from medsanitize.policies.tables.safe_private import SafePrivate, safe_private
from medsanitize.policies.tables.standard import (
    ConfidentialityRow,
    attribute_types,
    confidentiality_rows,
    edition,
    sop_class_names,
)
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom, kept_attributes
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.sanitize.result import Outcome

IMPLICIT, EXPLICIT, DEFLATED = "1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.1.99"
SYNTAXES = (IMPLICIT, EXPLICIT, DEFLATED)
DEPTHS = (0, 1, 3)
AROUND = (0x00082218, 0x00082220, 0x00080121)
"""Sequences of anatomic codes, which the table does not name: the items that nested values are in."""
SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
EXCEPT = ("1.2.840.10008.5.1.4.1.1.77.1.6", "1.2.840.10008.5.1.4.1.1.104.")
"""Slides, whose dates no option keeps, and encapsulated documents, which the presets quarantine."""
NAME, CODE = b"Zorblat Kwimbly", b"51185008"
UID, INSTANCE = b"1.2.826.0.1.3680043.10.987654.321", b"1.2.826.0.1.3680043.10.111.1"
LONG = frozenset(["OB", "OD", "OF", "OL", "OV", "OW", "SQ", "SV", "UC", "UN", "UR", "UT", "UV"])
CLINICAL: Mapping[str, bytes] = {
    **dict.fromkeys(("LO", "SH", "ST", "LT", "UT", "UC"), b"CHEST LATERAL"),
    "CS": b"LATERAL",
    "AE": b"CHEST_LATERAL",
    "DA": b"19870623",
    "DT": b"19870623101113.271828",
    "TM": b"101113.271828",
    "AS": b"063Y",
    "DS": b"271.82818",
    "IS": b"27182818",
    "UI": UID,
    "FL": pack("<f", 2.7182818),
    "FD": pack("<d", 2.718281828459),
    "SL": pack("<i", 271828182),
    "UL": pack("<I", 271828182),
    "SS": pack("<h", -27182),
    "US": pack("<H", 47182),
    "AT": pack("<HH", 0x0018, 0x1114),
}
"""A value by VR that names nobody; its words are in the vocabulary."""
IDENTIFYING: Mapping[str, bytes] = {
    **dict.fromkeys(("LO", "SH", "ST", "LT", "UT", "UC"), NAME),
    "CS": b"ZORBLAT_KWIMBLY",
    "AE": b"ZORBLAT_KWIMBLY",
    "PN": b"Zorblat^Kwimbly",
    "UR": b"https://zorblat.example/kwimbly",
    "OB": NAME * 4,
    "OW": NAME * 4,
    "UN": NAME * 4,
}
"""A value by VR that names a person."""
DATES = ("retain_longitudinal_full_dates", "retain_longitudinal_modified_dates")
DATED = ("DA", "DT", "TM")
FREE = frozenset(["LO", "SH", "ST", "LT", "UT", "UC"])


@dataclass(frozen=True, slots=True)
class Plant:
    """A value in an object: bytes that must not be left, and bytes that must be kept.

    ``place`` says row, depth, syntax and kind of value, for the list of failures.
    """

    place: str
    data: bytes
    row: ConfidentialityRow | SafePrivate
    tag: int
    vr: str
    value: bytes
    needle: bytes


def policies() -> dict[str, Policy]:
    """Return the presets, and the Basic Profile with each option."""
    options = {f"basic + {name}": ("ps3.15-basic", {name: True}) for name in Options.model_fields}
    return {
        name: _policy(preset, on)
        for name, (preset, on) in {**{p: (p, {}) for p in PRESETS}, **options}.items()
    }


def _policy(preset: str, options: Mapping[str, bool]) -> Policy:
    content = {
        "version": 1,
        "preset": preset,
        "dicom": {"options": options},
        **({"pixels": {"faces": "deface"}} if "clean_recognizable_visual_features" in options else {}),
        "release": {"name": "standard", "version": "1.0", "mode": "pseudonymous"},
        **{"inputs": ["./export"], "output": "./release", "state": "./state", "keys": {"file": "./key"}},
    }
    return loads(json.dumps(content), base=Path("/nowhere"))


def action(row: ConfidentialityRow, policy: Policy) -> str:
    """Return what the policy says of a row: an override, an option, or the Basic Profile."""
    if row.mask < "0008":  # commands, meta information and directories are no part of an object
        return "X"
    override = policy.dicom.attributes.get(row.mask)
    if override is not None:
        return override
    on = {name for name, used in policy.dicom.options if used}
    codes = {code for name, code in row.options.items() if name in on}
    # Dates of a device are kept with full dates only: they would tell the day of the study, or the shift.
    if "retain_device_identity" in row.options and set(DATES) & set(row.options):
        return "K" if "retain_longitudinal_full_dates" in on else row.basic
    return "K" if "K" in codes else "C" if codes else row.basic


# Objects ----------------------------------------------------------------------------------------------------


def element(tag: int, vr: str, value: bytes, syntax: str) -> bytes:
    """Encode an element, padded to even length."""
    value += (b"\0" if vr in ("UI", "OB", "OW", "UN") else b" ") * (len(value) % 2)
    head = pack("<HH", tag >> 16, tag & 0xFFFF)
    if syntax == IMPLICIT:
        return head + pack("<I", len(value)) + value
    if vr in LONG:
        return head + vr.encode() + b"\0\0" + pack("<I", len(value)) + value
    return head + vr.encode() + pack("<H", len(value)) + value


def item(elements: Mapping[int, tuple[str, bytes]], syntax: str) -> bytes:
    """Encode an item of a sequence."""
    body = data_set(elements, syntax)
    return pack("<HHI", 0xFFFE, 0xE000, len(body)) + body


def data_set(elements: Mapping[int, tuple[str, bytes]], syntax: str) -> bytes:
    """Encode elements in the order of their tags."""
    return b"".join(element(tag, *elements[tag], syntax) for tag in sorted(elements))


def file_of(elements: Mapping[int, tuple[str, bytes]], sop_class: str, syntax: str) -> bytes:
    """Encode a file; elements of group 0002 are in the File Meta Information."""
    meta = {
        0x00020001: ("OB", b"\0\1"),
        0x00020002: ("UI", sop_class.encode()),
        0x00020003: ("UI", INSTANCE),
        0x00020010: ("UI", syntax.encode()),
    }
    whole = {
        0x00080016: ("UI", sop_class.encode()),
        0x00080018: ("UI", INSTANCE),
        0x00080060: ("CS", b"OT"),
        0x00100020: ("LO", b"4711-0815"),
        **elements,
    }
    meta |= {tag: whole.pop(tag) for tag in list(whole) if tag >> 16 == 2}
    head = data_set(meta, EXPLICIT)
    body = data_set(whole, syntax)
    if syntax == DEFLATED:
        squeeze = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        body = squeeze.compress(body) + squeeze.flush()
        body += b"\0" * (len(body) % 2)
    return bytes(128) + b"DICM" + element(0x00020000, "UL", pack("<I", len(head)), EXPLICIT) + head + body


def nested(path: Sequence[int], tag: int, vr: str, value: bytes, syntax: str) -> tuple[int, str, bytes]:
    """Wrap an element into the sequences of a path: tag, VR and value of the outermost element."""
    for above in reversed(path):
        tag, vr, value = above, "SQ", item({tag: (vr, value)}, syntax)
    return tag, vr, value


def content(vr: str, value: bytes, syntax: str) -> bytes:
    """Return the value of an element; a sequence gets an item with a code, a name, a text and a reference."""
    if vr != "SQ":
        return value
    clinical = value == CODE
    return item(
        {
            0x00080100: ("SH", value),
            0x00080102: ("SH", b"SCT" if clinical else b"99KWIMBLY"),
            0x00080104: ("LO", b"Thorax" if clinical else NAME),
            **({} if clinical else {0x0008103E: ("LO", NAME), 0x00081155: ("UI", UID)}),
        },
        syntax,
    )


@cache
def carriers() -> dict[int, tuple[str, tuple[int, ...]]]:
    """Return tag -> SOP class and enclosing sequences, the shortest path through sequences without a row."""
    named = {row.mask for row in confidentiality_rows()}
    found: dict[int, tuple[str, tuple[int, ...]]] = {}
    for sop_class in sorted(sop_class_names(), key=lambda uid: (uid != SECONDARY_CAPTURE, uid)):
        types = None if sop_class.startswith(EXCEPT) else attribute_types(sop_class)
        for path in types or ():
            free = not any(f"{tag:08x}" in named for tag in path[:-1])
            best = found.get(path[-1])
            if free and (best is None or len(path) - 1 < len(best[1])):
                found[path[-1]] = sop_class, path[:-1]
    return found


def plants(every: int = 1) -> Iterator[Plant]:
    """Yield the objects of Table E.1-1; of ``every`` rows one."""
    rows = [row for row in confidentiality_rows() if row.mask != "private"]
    for row in rows[::every]:
        tag = int(row.mask.replace("xxxxxx", "001000").replace("x", "0"), 16)
        vr = row.vr or "LO"
        sop_class, path = carriers().get(tag, (SECONDARY_CAPTURE, ()))
        for depth in DEPTHS:
            above = (*AROUND[:depth], *path) if depth else path
            for syntax in SYNTAXES:
                for kind, value in _values(vr):
                    outer, outer_vr, inner = nested(above, tag, vr, content(vr, value, syntax), syntax)
                    data = file_of({outer: (outer_vr, inner)}, sop_class, syntax)
                    place = f"{row.mask} {row.keyword} depth {depth} {syntax} {kind}"
                    yield Plant(place, data, row, tag, vr, value, _needle(tag, vr, value, syntax))


def private_plants(every: int = 1) -> Iterator[Plant]:
    """Yield the objects of Table E.3.10-1, and each attribute under another creator."""
    for (group, creator, number), row in list(safe_private().items())[::every]:
        vr = row.vr
        for depth in DEPTHS:
            for syntax in SYNTAXES:
                for kind, value in _values(vr):
                    for name in (creator, "Kwimbly Systems"):
                        tag = group << 16 | 0x1000 | number
                        block = {
                            group << 16 | 0x10: ("LO", name.encode()),
                            tag: (vr, content(vr, value, syntax)),
                        }
                        elements = block
                        for above in reversed(AROUND[:depth]):
                            elements = {above: ("SQ", item(elements, syntax))}
                        known = row if name == creator else SafePrivate(vr, row.vm, "opaque", row.source)
                        place = f"{group:04x},xx{number:02x} {name} depth {depth} {syntax} {kind}"
                        data = file_of(elements, SECONDARY_CAPTURE, syntax)
                        yield Plant(place, data, known, tag, vr, value, _needle(tag, vr, value, syntax))


def _values(vr: str) -> Iterator[tuple[str, bytes]]:
    if vr == "SQ":
        yield from (("clinical", CODE), ("identifying", b"ZORBLAT99"))
    if vr in CLINICAL:
        yield "clinical", CLINICAL[vr]
    if vr in IDENTIFYING:
        yield "identifying", IDENTIFYING[vr]


def _needle(tag: int, vr: str, value: bytes, syntax: str) -> bytes:
    # Few bytes occur by chance: they are searched with the header of their element.
    return element(tag, vr, value, syntax) if len(value) < 6 else value


# Expectations -----------------------------------------------------------------------------------------------


def verdict(plant: Plant, policy: Policy, released: bytes) -> str:
    """Return ``left`` or ``lost`` if the released object is not as its row says, otherwise an empty text."""
    row = plant.row
    keep = _kept_private(row, policy) if isinstance(row, SafePrivate) else action(row, policy)
    there = plant.needle in released or (plant.vr == "SQ" and _left(released, policy))
    if isinstance(row, ConfidentialityRow) and "clean_graphics" in row.options and keep == "C":
        return "left" if NAME in released else ""
    if plant.value == IDENTIFYING.get(plant.vr) or plant.value == b"ZORBLAT99":
        return "left" if there and keep != "K" else ""
    if keep == "K":
        return "" if there else "lost"
    if keep == "C":
        return _cleaned(plant, policy, there, released)
    # A sequence that an IOD requires, or of references, keeps items, whose codes name nobody.
    return "left" if there and not (plant.vr == "SQ" and {"D", "U", "U*"} & set(keep.split("/"))) else ""


def _left(released: bytes, policy: Policy) -> bool:
    return NAME in released or (UID in released and not policy.dicom.options.retain_uids)


def _cleaned(plant: Plant, policy: Policy, there: bool, released: bytes) -> str:
    """Whether a cleaned value is as it should be: dates moved, clinical words and codes kept."""
    if plant.vr in ("DA", "DT"):
        if there:
            return "left"
        return "" if pack("<HH", plant.tag >> 16, plant.tag & 0xFFFF) in released else "lost"
    if plant.vr == "TM":
        return "" if there == (policy.dicom.dates.times == "keep") else "lost"
    kept = plant.vr in FREE or plant.vr == "SQ"
    return "lost" if kept and not there else ""


def _kept_private(row: SafePrivate, policy: Policy) -> str:
    """Return ``K``, ``C`` or ``X`` for a safe private attribute."""
    if not policy.dicom.options.retain_safe_private or row.care == "opaque":
        return "X"
    if row.care == "uid":
        return "U"
    # An identifying value is cleaned from every text; numbers and clinical words stay.
    return "C" if row.care in ("text", "items", "date") else "K"


def inflated(data: bytes) -> bytes:
    """Return a file and, if it is deflated, the inflated data set."""
    if DEFLATED.encode() not in data[:400]:
        return data
    start = 132 + 12 + int.from_bytes(data[140:144], "little")
    return data + zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(data[start:])


def sanitizer_of(policy: Policy) -> DicomSanitizer:
    """Return the sanitizer of a policy, with fixed keys."""
    return DicomSanitizer(policy, derive_sub_keys(bytes(range(32)), scope="release:standard"))


def release(sanitizer: DicomSanitizer, plant: Plant, kept: frozenset[int]) -> bytes | None:
    """Return the bytes of a released object, inflated as well; ``None`` if it is quarantined."""
    seen = inspect_dicom(plant.data, None, kept)
    done = sanitizer(plant.data, Context("id:1", "1", seen.known))
    if done.record.outcome is not Outcome.RELEASED:
        return None
    return inflated(b"".join(part for part in done.files[0].pieces if isinstance(part, bytes)))


def measure(name: str, policy: Policy, every: int) -> tuple[Counter[str], list[str]]:
    """Sanitize all objects under one policy: counts, and the places of failures."""
    sanitizer, kept = sanitizer_of(policy), kept_attributes(policy.dicom)
    private = name in PRESETS or policy.dicom.options.retain_safe_private
    counts: Counter[str] = Counter()
    failed = []
    for source in (plants(every), private_plants(every) if private else ()):
        for plant in source:
            data = release(sanitizer, plant, kept)
            said = "quarantined" if data is None else verdict(plant, policy, data)
            counts["objects"] += 1
            counts[said or "as the row says"] += 1
            if said:
                failed.append(f"{name}: {said}: {plant.place}")
    return counts, failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="measure one of this many rows")
    parser.add_argument("--only", help="measure one policy, for example research")
    given = parser.parse_args(arguments)
    print(f"PS3.15 {edition()}\n\n| policy | objects | left | lost | quarantined |\n|---|---|---|---|---|")
    bad = False
    for name, policy in policies().items():
        if given.only in (None, name):
            counts, failed = measure(name, policy, given.every)
            figures = [counts[one] for one in ("objects", "left", "lost", "quarantined")]
            print(f"| {name} | " + " | ".join(f"{figure:,}" for figure in figures) + " |", flush=True)
            for line in failed[:200]:
                print(line, file=sys.stderr)
            bad = bad or bool(failed)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
