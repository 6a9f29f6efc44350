"""The guidelines A1 to A7 of Holub et al. 2023 as a checklist, from policy, manifest and attack.

The paper states them for slides released as de facto anonymous data; here they apply to every image. Points
that no program can decide are marked for review.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from medsanitize.policies.model import Policy
from medsanitize.release.manifest import read_objects
from medsanitize.release.summary import Guideline, Standing
from medsanitize.verifiers.reid.calibration import Rate

_NEEDS_REVIEW: Final = "needs_review"
# With fewer patients nearly all are linked (Holub et al. 2023, Fig. 6a).
_MIN_PATIENTS: Final = 5
# Above this upper bound of Rs, an attack that linked no patient proves nothing.
MOST_LINKED: Final = 0.05
_RETAIN_OPTIONS: Final = {
    "retain_institution_identity": "the institution",
    "retain_device_identity": "the identity of devices",
    "retain_uids": "UIDs",
    "retain_longitudinal_full_dates": "true dates",
}
_CHECKS: Final = ("check_identifiers", "check_pixels", "check_registry", "check_overlap")


@dataclass(frozen=True, slots=True)
class ChecklistFacts:
    """Facts that the checklist uses.

    Attributes
    ----------
    anonymous
        Whether the release mode is ``anonymous``.
    kept
        Identifying metadata that the policy keeps, in words.
    license
        Whether the policy names a license.
    patients, objects, slides
        Numbers in the release.
    unsearched
        Number of objects without an identifier search.
    unread
        Number of objects with possible burned-in text that was not read.
    uncompared
        Number of objects not compared with earlier releases.
    found_before
        Number of objects whose pixels are in an earlier release.
    matched
        Number of objects of patients who match, at least possibly, a patient of an earlier release.
    undecided
        Number of objects for which that comparison, required by the policy, is inconclusive.
    blocks, shared_blocks, without_block
        Number of known tissue blocks, of those with several slides in the release, and of slides of unknown
        block.
    """

    anonymous: bool
    kept: tuple[str, ...]
    license: bool
    patients: int
    objects: int
    slides: int
    unsearched: int
    unread: int
    uncompared: int
    found_before: int
    matched: int
    undecided: int
    blocks: int
    shared_blocks: int
    without_block: int


def guidelines_of(
    policy: Policy, release: Path, others: Rate | None = None, slides: Rate | None = None, *, left: int = 0
) -> tuple[Guideline, ...]:
    """Check the guidelines for a release, published or staged.

    Parameters
    ----------
    policy : Policy
        Policy of the release.
    release : Path
        Folder with the manifest.
    others : Rate, optional
        Rs of a linkage attack with another dataset, with its bounds.
    slides : Rate, optional
        Rs of a linkage attack on the slides, with another dataset or with themselves.
    left : int
        Number of images left out of the attack with another dataset.

    Returns
    -------
    tuple of Guideline
        A1 to A7 in order.
    """
    return checklist(facts_of(policy, release), others, slides, left=left)


def facts_of(policy: Policy, release: Path) -> ChecklistFacts:
    """Collect the facts from the policy and the manifest."""
    counts: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    patients = set()
    for batch in read_objects(release, ["patient", "kind", "slide_block", *_CHECKS]):
        for row in batch.to_pylist():
            patients.add(row["patient"])
            counts["objects"] += 1
            counts["unsearched"] += row["check_identifiers"] == "not_run"
            counts["unread"] += row["check_pixels"] == "not_run"
            counts["uncompared"] += row["check_registry"] == "not_run"
            counts["found before"] += row["check_registry"] == "flagged"
            counts["matched"] += row["check_overlap"] == "flagged"
            counts["undecided"] += row["check_overlap"] == "not_run"
            if row["kind"] == "slide":
                counts["slides"] += 1
                blocks[row["slide_block"] or ""] += 1
    options = policy.dicom.options
    # The empty name collects slides of unknown block.
    without = blocks.pop("", 0)
    return ChecklistFacts(
        anonymous=policy.release.mode == "anonymous",
        kept=tuple(phrase for name, phrase in _RETAIN_OPTIONS.items() if getattr(options, name)),
        license=policy.release.license is not None,
        patients=len(patients),
        objects=counts["objects"],
        slides=counts["slides"],
        unsearched=counts["unsearched"],
        unread=counts["unread"],
        uncompared=counts["uncompared"],
        found_before=counts["found before"],
        matched=counts["matched"],
        # Without an overlap policy the check runs for no object, and not_run says nothing.
        undecided=counts["undecided"] if policy.overlap is not None else 0,
        blocks=len(blocks),
        shared_blocks=sum(count > 1 for count in blocks.values()),
        without_block=without,
    )


def checklist(
    facts: ChecklistFacts, others: Rate | None = None, slides: Rate | None = None, *, left: int = 0
) -> tuple[Guideline, ...]:
    """Check each guideline.

    Parameters
    ----------
    facts : ChecklistFacts
        Facts of the release.
    others, slides, left
        See `guidelines_of`.
    """
    names = {
        "A1": ("Minimize metadata", _metadata(facts)),
        "A2": ("Dissociate from patient records", _records(facts)),
        "A3": ("Consider other data sets", _other_data(facts, others, left)),
        "A4": ("Slides from the same block", _blocks(facts, slides)),
        "A5": ("Consider what can be inferred", _inference()),
        "A6": ("Consider small populations", _population(facts)),
        "A7": ("Contract", _contract(facts)),
    }
    return tuple(Guideline(code, name, result, why) for code, (name, (result, why)) in names.items())


def _metadata(facts: ChecklistFacts) -> tuple[Standing, str]:
    if facts.kept:
        return "not_met", f"The policy keeps {', '.join(facts.kept)}."
    if facts.unsearched or facts.unread:
        open_ = {
            "were not searched for known identifiers": facts.unsearched,
            "may show text that was not read": facts.unread,
        }
        problems = (
            f"{count:,} {'object' if count == 1 else 'objects'} {what}"
            for what, count in open_.items()
            if count
        )
        return _NEEDS_REVIEW, " ".join(f"{problem}." for problem in problems)
    return (
        "met",
        "Identifying metadata was removed by rule, and a search of every file found no known identifier.",
    )


def _records(facts: ChecklistFacts) -> tuple[Standing, str]:
    if not facts.anonymous:
        return "not_met", "The data controller keeps the link to the patients: the release is personal data."
    return _NEEDS_REVIEW, (
        "The key is destroyed, and with it the link. The originals must also be dissociated from the"
        " patients' records, or a contract must deny recipients access to them."
    )


def _other_data(facts: ChecklistFacts, linked: Rate | None, left: int) -> tuple[Standing, str]:
    sentence = _attack_sentence(linked)
    if facts.found_before:
        return "not_met", (
            f"{facts.found_before:,} objects have the same pixels as objects of earlier releases: their"
            f" records count as linked. {sentence}"
        )
    if facts.matched:
        return "not_met", (
            f"{facts.matched:,} objects are of patients who match patients of earlier releases, strictly or"
            f" possibly. {sentence}"
        )
    if linked is not None and linked.errors:
        return "not_met", f"{sentence} Records of patients in both count as linked."
    # Fail closed: met only if every object was compared and an attack bounds Rs.
    if facts.uncompared or linked is None:
        compared = (
            f"{facts.uncompared:,} objects were not compared with earlier releases."
            if facts.uncompared
            else "No object has the pixels of one in the registry."
        )
        return _NEEDS_REVIEW, f"{compared} {sentence}"
    if facts.undecided:
        return _NEEDS_REVIEW, (
            f"For {facts.undecided:,} objects the comparison of their patients with earlier releases is"
            f" inconclusive. {sentence}"
        )
    if left:
        return _NEEDS_REVIEW, f"{sentence} {left:,} images were not part of it."
    if linked.upper > MOST_LINKED:
        return _NEEDS_REVIEW, f"{sentence} These are too few patients to bound the success of an attack."
    return "met", f"No object has the pixels of one in the registry. {sentence}"


def _blocks(facts: ChecklistFacts, linked: Rate | None) -> tuple[Standing, str]:
    if not facts.slides:
        return "met", "There are no slides."
    if linked is not None and linked.errors:
        return "not_met", _attack_sentence(linked)
    if facts.without_block:
        return _NEEDS_REVIEW, f"Slides whose block is not known: {facts.without_block:,}."
    return _NEEDS_REVIEW, (
        f"{facts.shared_blocks:,} of {facts.blocks:,} blocks have several slides here. Other slides of the"
        " blocks must not be released elsewhere."
    )


def _inference() -> tuple[Standing, str]:
    # Never met: no measurement here can rule out inference.
    return _NEEDS_REVIEW, "What can be inferred from the images, such as rare diagnoses, was not measured."


def _population(facts: ChecklistFacts) -> tuple[Standing, str]:
    if facts.patients < _MIN_PATIENTS:
        return "not_met", (
            f"{facts.patients:,} patients: in so small a group, a known member can be distinguished."
        )
    return _NEEDS_REVIEW, (
        f"{facts.patients:,} patients. Whether they come from a small population was not measured."
    )


def _contract(facts: ChecklistFacts) -> tuple[Standing, str]:
    if not facts.license:
        return "not_met", "The policy states no license."
    return _NEEDS_REVIEW, (
        "A license is stated. It must forbid re-identification, and recipients must actively agree to it."
    )


def _attack_sentence(linked: Rate | None) -> str:
    if linked is None:
        return "No linkage attack was run on the images."
    return (
        f"A linkage attack on the images linked {linked.errors:,} of {linked.of:,} patients to other"
        f" images of theirs (at most {100 * linked.upper:.1f} % at 95 % confidence)."
    )
