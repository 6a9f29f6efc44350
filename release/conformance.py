"""The conformance statement of a release (PS3.2; PS3.15 E.1.3): what was removed, replaced, kept, and how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.policies.model import BASIC_PROFILE_CODE, OPTION_CODES, Options, Policy
from medsanitize.policies.tables.requirements import requirements
from medsanitize.policies.tables.safe_private import safe_private
from medsanitize.policies.tables.standard import confidentiality_rows, sop_class_names
from medsanitize.release import layout
from medsanitize.release.checksums import digest_file, read_checksums
from medsanitize.release.summary import Summary, Treatment
from medsanitize.sanitize.dicom.rules import AttributeRules
from medsanitize.sanitize.formats.dicom.transfer_syntax import TRANSFER_SYNTAXES

_ACTIONS = (
    ("X", "removed, with all items of a sequence"),
    ("Z", "emptied"),
    ("D", "replaced by a dummy value"),
    ("U", "UID replaced; in sequences, the UIDs of the items"),
    ("C", "cleaned"),
    ("K", "kept; items of sequences are cleaned"),
    ("X/Z", "removed, or emptied where the IOD requires the attribute"),
    ("X/D", "removed, or replaced by a dummy value where the IOD requires a value"),
    ("Z/D", "emptied, or replaced by a dummy value where the IOD requires a value"),
    ("X/Z/D", "removed, emptied or replaced by a dummy value, as the IOD requires"),
    ("X/Z/U*", "kept, with replaced UIDs"),
)
"""Action codes of Table E.1-1a and what they do."""

_DATES = {
    "shift": "Every date of a patient moves by the same number of whole days, 30 to 1825 in either "
    "direction, which is derived from the key. Intervals do not change.",
    "year": "Every date becomes 1 January of its year.",
}
_TIMES = {
    "keep": "Times of day are kept.",
    "shift": "Times of day are moved with their dates, by seconds that differ between patients.",
    "remove": "Times of day are removed.",
}
_TEXTS = {
    "clean": "Identifiers of the patient and study, and names, places, dates and numbers that rules and a "
    "language model find, are removed; clinical words are kept.",
    "keep-vocabulary": "Only words of a controlled vocabulary are kept, without those that are names of the "
    "patient.",
    "remove": "Texts are removed.",
}
_PDF = {
    "quarantine": "Objects with an Encapsulated Document are not released.",
    "rebuild": "An encapsulated PDF is replaced by one of page images in which identifying text is blanked. "
    "Objects with other documents are not released.",
}
_INSERTED = (
    ("Patient's Name (0010,0010), Patient ID (0010,0020)", "the pseudonym, where the IOD has a patient"),
    ("Patient Identity Removed (0012,0062)", "`YES`; `NO` if the policy keeps a name or number"),
    (
        "De-identification Method (0012,0063)",
        "profile, edition, and the number of rows that the policy weakens",
    ),
    ("De-identification Method Code Sequence (0012,0064)", "codes of CID 7050 that are true of the object"),
    ("Longitudinal Temporal Information Modified (0028,0303)", "`REMOVED`, `MODIFIED` or `UNMODIFIED`"),
    ("Burned In Annotation (0028,0301)", "`NO` if the pixels were read; `YES` or absent if they were not"),
    ("Recognizable Visual Features (0028,0302)", "`NO` or `YES` if the object was checked for a face"),
    (
        "Study, Series and SOP Instance UID (0020,000D), (0020,000E), (0008,0018)",
        "derived from the key, if absent",
    ),
)


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    lines: tuple[str, ...]


def treatment_of(policy: Policy) -> Treatment:
    """Return what a policy decides about DICOM attributes, for the conformance statement."""
    book = AttributeRules(policy.dicom)
    actions: dict[str, list[str]] = {}
    for row in confidentiality_rows():
        if row.mask != "private":
            tag = f"({row.mask[:4]},{row.mask[4:]})".upper().replace("X", "x")
            name = f"{row.keyword} {tag}"
            actions.setdefault(book.action_of(row), []).append(name)
    return Treatment(
        enabled=tuple(name for name, on in policy.dicom.options if on),
        actions=tuple((code, tuple(names)) for code, names in sorted(actions.items())),
        overrides=len(policy.dicom.attributes),
        dates=policy.dicom.dates.method,
        times=policy.dicom.dates.times,
        texts=policy.text.action,
        pdf=policy.documents.pdf,
        own_private=len(policy.dicom.safe_private),
    )


def conformance_statement(summary: Summary) -> str:
    """Return the conformance statement of a release, as Markdown."""
    release = summary.release
    head = [
        "# DICOM Conformance Statement",
        "",
        f"Release {release.name} {release.version}, {release.mode}. Product: medsanitize "
        f"{summary.tool_version}. Standard: DICOM PS3.15 {summary.edition}, Annex E. Preset "
        f"`{summary.preset}`, policy digest `{summary.policy_digest}`.",
    ]
    applied = frozenset(code for code, _ in summary.options)
    parts = [_objects(summary), *attribute_sections(summary.treatment, applied)]
    numbered = [
        line
        for number, part in enumerate(parts, 1)
        for line in ("", f"## {number} {part.title}", "", *part.lines)
    ]
    return "\n".join([*head, *numbered]) + "\n"


def read_statement(release: Path) -> str:
    """Return the conformance statement in a release.

    Raises
    ------
    UsageError
        The folder is no release, or one of an older version.
    IntegrityError
        The statement was changed.
    """
    path = release / layout.CONFORMANCE
    if not path.is_file() or not (release / layout.SUMS).is_file():
        raise UsageError(
            "The folder contains no conformance statement", "Give the folder of a release of this version"
        )
    stated = {one.path: one.sha256 for one in read_checksums(release / layout.SUMS)}
    if stated.get(layout.CONFORMANCE) != digest_file(path):
        raise IntegrityError("The conformance statement was changed", "Verify the release")
    return path.read_text(encoding="utf-8")


def attribute_sections(treatment: Treatment, applied: frozenset[str]) -> tuple[_Section, ...]:
    """Return the sections that PS3.15 E.1.3 asks for.

    Parameters
    ----------
    treatment : Treatment
    applied : frozenset of str
        Codes of the profile and options that were applied.
    """
    return (
        _Section(
            "Role",
            (
                "medsanitize is a de-identifier by the Basic Application Level Confidentiality Profile and "
                "its options. It is no re-identifier.",
            ),
        ),
        _Section("Options", (*_options(treatment, applied),)),
        _Section("Attributes removed, replaced, cleaned and kept", (*_rows(treatment),)),
        _Section("Dummy values", _DUMMIES),
        _Section("Encrypted Attributes Data Sets", _ENCRYPTED),
        _Section("Referential integrity", _INTEGRITY),
        _Section("Attributes inserted", _table(("attribute", "value"), _INSERTED)),
        _Section("Transfer syntaxes", _syntaxes()),
        _Section("Manner of cleaning", _cleaning(treatment)),
        _Section("Safe private attributes", (*_private(treatment),)),
        _Section("Restrictions", _RESTRICTIONS),
        _Section("Requirements of Annex E", requirement_table()),
    )


_DUMMIES = (
    "Texts, names and codes: `ANON-` and letters derived from the key, the attribute and the value. Numbers: "
    "zero. Dates: moved like all dates of the patient; a malformed one becomes a day between 1970 and 2019. "
    "Times and ages (20 to 79 years): derived from the key. UIDs: see referential integrity. Equal values of "
    "one attribute and patient get equal dummy values.",
)
_ENCRYPTED = (
    "None are made, so that no transfer syntax and no key size applies. The link between identifiers and "
    "pseudonyms, if it is kept, is in a ledger outside the release.",
)
_INTEGRITY = (
    "UIDs and patient pseudonyms are derived from the original value with a key: equal values get equal "
    "replacements in all objects, studies and releases with the same key and scope, whenever they are "
    "processed. UIDs that the standard registers are kept.",
)
_RESTRICTIONS = (
    "Private SOP classes, and objects that cannot be read to the last byte or proved clean, are not "
    "released. "
    "Elements that neither PS3.6 nor Table E.1-1 lists are removed. Digital signatures and icon images are "
    "removed. No DICOMDIR is released.",
)


def _objects(summary: Summary) -> _Section:
    names = sop_class_names()
    rows = [(names.get(uid, uid), uid, f"{count:,}") for uid, count in sorted(summary.sop_classes.items())]
    return _Section("Objects", _table(("SOP class", "UID", "objects"), rows) if rows else ("None.",))


def _options(treatment: Treatment, applied: frozenset[str]) -> Iterable[str]:
    rows = [(*BASIC_PROFILE_CODE, "yes", "yes" if BASIC_PROFILE_CODE[0] in applied else "no")]
    for name in Options.model_fields:
        code, meaning = OPTION_CODES[name]
        rows.append((code, meaning, "yes" if name in treatment.enabled else "no", _yes(code in applied)))
    yield from _table(("code", "profile or option", "in the policy", "applied"), rows)
    yield ""
    yield (
        "An object states an option only if it is true of that object: options of the pixels after they were "
        "read or a face was removed, others unless the policy overrides them in its IOD."
    )


def _rows(treatment: Treatment) -> Iterable[str]:
    meanings = dict(_ACTIONS)
    yield (
        "By the rows of Table E.1-1, at every depth. Attributes in no table follow the rule of their value "
        f"representation. The policy overrides {treatment.overrides} attributes."
    )
    for code, names in treatment.actions:
        yield ""
        yield f"**{code}** ({len(names)}): {meanings[code]}. {', '.join(names)}."


def _syntaxes() -> tuple[str, ...]:
    shown = ", ".join(f"`{uid}`" for uid in sorted(TRANSFER_SYNTAXES))
    return (f"Objects are read in {shown}, and written in the same, or uncompressed if frames were changed.",)


def _cleaning(treatment: Treatment) -> tuple[str, ...]:
    enabled = set(treatment.enabled)
    dates = f"Dates: {_DATES[treatment.dates]} {_TIMES[treatment.times]}"
    if "retain_longitudinal_full_dates" in enabled:
        dates = "Dates: full dates and times are kept, except in slides."
    elif "retain_longitudinal_modified_dates" in enabled:
        dates += " Dates of devices, which would tell the shift, are removed."
    else:
        dates = "Dates: removed, emptied or replaced as the table says; those in no table are modified."
    return (
        f"Texts: {_TEXTS[treatment.texts]}",
        "",
        dates,
        "",
        "Device identity: dates of devices, which may tell that of the study, are kept with full dates only.",
        "",
        "Patient characteristics: ages over 89 years become `090Y`; texts are cleaned.",
        "",
        f"Encapsulated documents: {_PDF[treatment.pdf]}",
    )


def _private(treatment: Treatment) -> Iterable[str]:
    if "retain_safe_private" not in treatment.enabled:
        yield "All private attributes are removed."
        return
    yield (
        "Kept by group, Private Creator and element: numbers, unless written with more than five digits "
        "before the point, texts and items of sequences cleaned, UIDs replaced. Attributes without a "
        "readable layout are removed. The policy adds "
        f"{treatment.own_private}."
    )
    by_creator: dict[str, list[str]] = {}
    for (group, creator, number), row in sorted(safe_private().items(), key=lambda one: one[0]):
        if row.care != "opaque":
            by_creator.setdefault(creator, []).append(f"({group:04X},xx{number:02X})")
    for creator, tags in sorted(by_creator.items()):
        yield ""
        yield f"{creator}: {', '.join(tags)}."


def requirement_table(*, tests: bool = False) -> tuple[str, ...]:
    """Return the register of requirements as a table, with the tests that hold the answers on request."""
    head = ("id", "requirement", "answer", "how, or why not", *(["tests"] if tests else []))
    rows = []
    for one in requirements():
        named = ["<br>".join(f"`{node.removeprefix('tests/')}`" for node in one.tests)] if tests else []
        rows.append((one.id, one.text, one.answer, one.why, *named))
    return _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[str, ...]:
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (head, *rows)]
    return (lines[0], "|" + "---|" * len(head), *lines[1:])


def _yes(true: bool) -> str:
    return "yes" if true else "no"
