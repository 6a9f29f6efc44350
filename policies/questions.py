"""Six questions whose answers make a policy: what most data stewards decide, each with its consequence.

Everything else is left to the preset, and can be changed in the policy that `draft_policy` writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from medsanitize.errors import UsageError
from medsanitize.policies.model import PresetName
from medsanitize.policies.template import policy_template


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer: its value, its words, what follows from it, and the standard behind it."""

    value: str
    label: str
    consequence: str
    standard: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question; the first choice is the answer unless another one is given."""

    name: str
    title: str
    choices: tuple[Choice, ...] = ()


EXPORT: Final = Question("export", "Which export?")
AUDIENCE: Final = Question(
    "audience",
    "What is published, and to whom?",
    (
        Choice(
            "public",
            "Images for research, for everyone",
            "Headers are cleaned as public image archives do; nothing is published before you approve it.",
            "PS3.15 Basic Profile with nine options; GDPR recital 26",
        ),
        Choice(
            "partners",
            "Images for research, for partners under a contract",
            "Headers are cleaned in the same way; a release that passes every gate is published at once.",
            "PS3.15 Basic Profile with nine options; GDPR Art. 4(5)",
        ),
        Choice(
            "safe-harbor",
            "Recipients in the USA",
            "The 18 identifiers of the Privacy Rule are removed; nothing is published before you approve it.",
            "HIPAA Safe Harbor, 45 CFR 164.514(b)(2)",
        ),
        Choice(
            "basic",
            "As little as possible besides the images",
            "Dates, descriptions and characteristics of patients are removed; images with a risk of burned-in"
            " text are quarantined.",
            "PS3.15 Basic Profile without options",
        ),
    ),
)
DATES: Final = Question(
    "dates",
    "What happens to dates?",
    (
        Choice(
            "shift",
            "Shift them by patient",
            "Intervals between examinations stay true; times of day stay as they are.",
            "PS3.15 E.3.6, option 113107",
        ),
        Choice(
            "shift-times",
            "Shift dates and times by patient",
            "Intervals stay true to the second, and no time of day is published.",
            "PS3.15 E.3.6, option 113107",
        ),
        Choice(
            "year",
            "Keep the year alone",
            "Every date becomes 1 January of its year; times are removed.",
            "HIPAA 45 CFR 164.514(b)(2)(i)(C)",
        ),
        Choice(
            "remove",
            "Remove them",
            "No date is published; the order of examinations is lost.",
            "PS3.15 Table E.1-1 without the options for dates",
        ),
    ),
)
BURNED_IN_TEXT: Final = Question(
    "burned_in_text",
    "What happens to text in the pixels?",
    (
        Choice(
            "identifying",
            "Blank what identifies",
            "Names, numbers and dates are blanked; L, PORTABLE and kVp stay. Uncertain lines come to review.",
            "PS3.15 E.3.1, option 113101",
        ),
        Choice(
            "all",
            "Blank all text",
            "Every line that is found is blanked, measurements too; less is left to review.",
            "PS3.15 E.3.1, option 113101",
        ),
        Choice(
            "quarantine",
            "Quarantine images at risk",
            "Pixels are not read: ultrasound, secondary captures and the like are not released.",
            "PS3.3 C.7.6.1.1.1, Burned In Annotation",
        ),
    ),
)
FACES: Final = Question(
    "faces",
    "What happens to heads whose face could be rendered?",
    (
        Choice(
            "flag",
            "Release and flag them",
            "CT, MR and PET of heads are released as they are; the report counts them.",
            "PS3.15 E.3.2 without option 113102",
        ),
        Choice(
            "deface",
            "Remove the face",
            "The face is cut out where that can be proved; otherwise the series is quarantined.",
            "PS3.15 E.3.2, option 113102",
        ),
        Choice(
            "quarantine",
            "Quarantine them",
            "No series from which a face could be rendered is released.",
            "PS3.15 E.3.2; HIPAA 45 CFR 164.514(b)(2)(i)(Q)",
        ),
    ),
)
EARLIER: Final = Question(
    "earlier",
    "Were images of these patients released before?",
    (
        Choice(
            "none",
            "No, or it does not matter",
            "The release is compared with itself only.",
            "Holub 2023, guideline A6",
        ),
        Choice(
            "flag",
            "Compare with earlier releases and flag",
            "Images that were published before are reported to you and released again.",
            "Holub 2023, guideline A6",
        ),
        Choice(
            "drop",
            "Leave out what was published before",
            "Images of earlier releases are dropped, so that both can be used together.",
            "Holub 2023, guideline A6",
        ),
    ),
)
POLICY_QUESTIONS: Final = (EXPORT, AUDIENCE, DATES, BURNED_IN_TEXT, FACES, EARLIER)
"""The six questions, in order; the first one is answered with a folder."""
_PRESETS: Final[Mapping[str, PresetName]] = {
    "public": "research",
    "partners": "research",
    "safe-harbor": "hipaa-safe-harbor",
    "basic": "ps3.15-basic",
}

# Safe Harbor leaves no choice between the answers that keep more.
_ALLOWED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "safe-harbor": {"dates": ("year", "remove"), "faces": ("quarantine", "deface")}
}


def draft_policy(answers: Mapping[str, str], *, name: str = "my-release", version: str = "1.0") -> str:
    """Write a commented policy from answers to the six questions.

    Parameters
    ----------
    answers : mapping of str to str
        Values of choices by the name of their question, and the folder of the ``export``; what is missing is
        answered with the first choice.
    name, version : str
        Of the release.

    Returns
    -------
    str
        YAML; the comment behind an answer names its question.

    Raises
    ------
    UsageError
        An answer is none of the choices or not allowed for the audience, or the name is invalid.
    """
    allowed = _ALLOWED.get(answers.get("audience", ""), {})
    chosen = {
        one.name: _checked(one, answers, allowed.get(one.name)) for one in POLICY_QUESTIONS if one.choices
    }
    unknown = set(answers) - {one.name for one in POLICY_QUESTIONS}
    if unknown:
        raise UsageError("There is no such question", "Answer the six questions only")
    text = policy_template(_PRESETS[chosen["audience"]], name)
    text = _replaced(text, '  version: "1.0"', f"  version: {json.dumps(version)}")
    text = _replaced(text, "  - ./export", f"  - {json.dumps(answers.get('export') or './export')}")
    if chosen["audience"] in ("public", "safe-harbor"):
        text = _replaced(text, "#  approve: required", "  approve: required  # question 2")
    for change in (_with_dates, _with_burned_in_text, _with_faces, _with_earlier):
        text = change(text, chosen)
    return text


def _checked(question: Question, answers: Mapping[str, str], allowed: tuple[str, ...] | None) -> str:
    values = [choice.value for choice in question.choices]
    value = answers.get(question.name) or (allowed or values)[0]
    if value not in values:
        raise UsageError(f"{question.name}: no such answer", f"Choose one of {', '.join(values)}")
    if allowed is not None and value not in allowed:
        raise UsageError(
            f"{question.name}: HIPAA Safe Harbor does not allow {value}",
            f"Choose one of {', '.join(allowed)}",
        )
    return value


def _with_dates(text: str, chosen: Mapping[str, str]) -> str:
    """Set options and dates; the lines stand in this order in the template."""
    answer, pixels = chosen["dates"], chosen["burned_in_text"]
    method = "year" if answer == "year" else "shift"
    times: Literal["keep", "shift", "remove"] = "keep"
    if answer == "shift-times":
        times = "shift"
    elif answer in ("year", "remove"):
        times = "remove"
    kept, cleaned = str(answer != "remove").lower(), str(pixels != "quarantine").lower()
    text = _replaced(text, "\n#dicom:\n", "\ndicom:\n")
    text = _replaced(
        text,
        "#  options:\n",
        "  options:\n"
        f"    retain_longitudinal_modified_dates: {kept}  # question 3\n"
        f"    clean_pixel_data: {cleaned}  # question 4\n",
    )
    text = _replaced(
        text, "#  dates:\n#    method: shift\n", f"  dates:\n    method: {method}  # question 3\n"
    )
    return _replaced(text, "#    times: keep\n", f"    times: {times}  # question 3\n")


def _with_burned_in_text(text: str, chosen: Mapping[str, str]) -> str:
    mask = "all-text" if chosen["burned_in_text"] == "all" else "identifying"
    text = _replaced(text, "\n#pixels:\n#  at_risk: quarantine\n", "\npixels:\n  at_risk: quarantine\n")
    text = _replaced(text, "#  search: at-risk\n", "  search: every-image  # question 4\n")
    return _replaced(text, "#  mask: all-text\n", f"  mask: {mask}  # question 4\n")


def _with_faces(text: str, chosen: Mapping[str, str]) -> str:
    return _replaced(text, "#  faces: quarantine\n", f"  faces: {chosen['faces']}  # question 5\n")


def _with_earlier(text: str, chosen: Mapping[str, str]) -> str:
    if chosen["earlier"] == "none":
        return text
    text = _replaced(
        text, "#registry:\n#  path: ./registry\n", "registry:\n  path: ../registry  # question 6\n"
    )
    text = _replaced(text, "\n#deduplicate:\n", "\ndeduplicate:\n")
    return _replaced(text, "#  registry: flag\n", f"  registry: {chosen['earlier']}  # question 6\n")


def _replaced(text: str, old: str, new: str) -> str:
    before, found, after = text.partition(old)
    if not found:
        raise ValueError("the template has changed")
    return before + new + after
