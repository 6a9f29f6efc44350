"""The guidelines A1 to A7 of Holub et al. 2023 as a checklist, from policy, manifest and attack.

They are asked of slides that are released as de facto anonymous data; here they are asked of every image.
What no program can know is left to a human and said so.
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

_NEEDS: Final = "needs_review"
_FEW: Final = 5
"""Below so many patients nearly all are linked (their Fig. 6a)."""
MOST_LINKED: Final = 0.05
"""Largest upper bound of Rs at which nobody linked says something."""
_KEPT: Final = {
    "retain_institution_identity": "the institution",
    "retain_device_identity": "the identity of devices",
    "retain_uids": "UIDs",
    "retain_longitudinal_full_dates": "true dates",
}
_CHECKS: Final = ("check_identifiers", "check_pixels", "check_registry", "check_overlap")


@dataclass(frozen=True, slots=True)
class ChecklistFacts:
    """What the checklist looks at.

    Attributes
    ----------
    anonymous
        Whether the mode is ``anonymous``.
    kept
        Identifying metadata that the policy keeps, in words.
    licence
        Whether the policy states one.
    patients, objects, slides
        In the release.
    unsearched, unread
        Objects not searched for known identifiers; objects that may show text that nobody read.
    uncompared, found_before
        Objects not compared with earlier releases; objects whose pixels one of them holds.
    matched, undecided
        Objects of patients whom a model finds in one, if only possibly; objects of which the policy asks it
        and it cannot be told.
    blocks, shared_blocks, without_block
        Known blocks of tissue, those of them with several slides here, slides of which none is known.
    """

    anonymous: bool
    kept: tuple[str, ...]
    licence: bool
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
    """Go through the checklist for a release, published or staged.

    Parameters
    ----------
    policy : Policy
        What the release was made by.
    release : Path
        Folder with its manifest.
    others : Rate, optional
        Rs of a linking attack with another dataset, with its bounds.
    slides : Rate, optional
        Rs of one on its slides, with another dataset or with itself.
    left : int
        Images that took no part in the attack with another dataset.
    """
    return checklist(facts_of(policy, release), others, slides, left=left)


def facts_of(policy: Policy, release: Path) -> ChecklistFacts:
    """Gather what the checklist looks at from the policy and the manifest."""
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
    without = blocks.pop("", 0)
    return ChecklistFacts(
        anonymous=policy.release.mode == "anonymous",
        kept=tuple(told for name, told in _KEPT.items() if getattr(options, name)),
        licence=policy.release.license is not None,
        patients=len(patients),
        objects=counts["objects"],
        slides=counts["slides"],
        unsearched=counts["unsearched"],
        unread=counts["unread"],
        uncompared=counts["uncompared"],
        found_before=counts["found before"],
        matched=counts["matched"],
        undecided=counts["undecided"] if policy.overlap is not None else 0,
        blocks=len(blocks),
        shared_blocks=sum(count > 1 for count in blocks.values()),
        without_block=without,
    )


def checklist(
    facts: ChecklistFacts, others: Rate | None = None, slides: Rate | None = None, *, left: int = 0
) -> tuple[Guideline, ...]:
    """Judge each guideline; see `guidelines_of`."""
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
        told = (
            f"{count:,} {'object' if count == 1 else 'objects'} {what}"
            for what, count in open_.items()
            if count
        )
        return _NEEDS, " ".join(f"{one}." for one in told)
    return (
        "met",
        "Identifying metadata went by rule, and a search of every file for what is known found none.",
    )


def _records(facts: ChecklistFacts) -> tuple[Standing, str]:
    if not facts.anonymous:
        return "not_met", "The link to the patients stays with the holder: the release is personal data."
    return _NEEDS, (
        "The key is gone, and with it the link. The originals must be dissociated from the patients' records"
        " as well, or a contract must keep recipients from them."
    )


def _other_data(facts: ChecklistFacts, linked: Rate | None, left: int) -> tuple[Standing, str]:
    told = _told(linked)
    if facts.found_before:
        return "not_met", (
            f"{facts.found_before:,} objects have pixels that earlier releases hold: their records count as"
            f" linked. {told}"
        )
    if facts.matched:
        return "not_met", (
            f"{facts.matched:,} objects are of patients whom a model finds in earlier releases, if only"
            f" possibly. {told}"
        )
    if linked is not None and linked.errors:
        return "not_met", f"{told} Records of patients who are in both count as linked."
    if facts.uncompared or linked is None:
        compared = (
            f"{facts.uncompared:,} objects were not compared with earlier releases."
            if facts.uncompared
            else "No object has the pixels of one in the registry."
        )
        return _NEEDS, f"{compared} {told}"
    if facts.undecided:
        return _NEEDS, (
            f"Of {facts.undecided:,} objects it cannot be told whether their patients are in earlier"
            f" releases. {told}"
        )
    if left:
        return _NEEDS, f"{told} {left:,} images took no part in it."
    if linked.upper > MOST_LINKED:
        return _NEEDS, f"{told} That is too few patients to bound what an attack would link."
    return "met", f"No object has the pixels of one in the registry. {told}"


def _blocks(facts: ChecklistFacts, linked: Rate | None) -> tuple[Standing, str]:
    if not facts.slides:
        return "met", "There are no slides."
    if linked is not None and linked.errors:
        return "not_met", _told(linked)
    if facts.without_block:
        return _NEEDS, f"Of {facts.without_block:,} slides the block is not known."
    return _NEEDS, (
        f"{facts.shared_blocks:,} of {facts.blocks:,} blocks have several slides here. What is left of the"
        " blocks must not be released elsewhere."
    )


def _inference() -> tuple[Standing, str]:
    return _NEEDS, "What can be inferred from the images, such as rare diagnoses, was not measured."


def _population(facts: ChecklistFacts) -> tuple[Standing, str]:
    if facts.patients < _FEW:
        return "not_met", (
            f"{facts.patients:,} patients: of so few, whoever is known to be among them can be told apart."
        )
    return _NEEDS, (
        f"{facts.patients:,} patients. Whether they come from a population that is small was not measured."
    )


def _contract(facts: ChecklistFacts) -> tuple[Standing, str]:
    if not facts.licence:
        return "not_met", "The policy states no licence."
    return _NEEDS, (
        "A licence is stated. It must forbid identifying anyone, and recipients must actively agree to it."
    )


def _told(linked: Rate | None) -> str:
    if linked is None:
        return "Whether the look of images links patients to other data was not attacked."
    return (
        f"An attack by the look of the images linked {linked.errors:,} of {linked.of:,} patients to other"
        f" images of theirs (at most {100 * linked.upper:.1f} % at 95 % confidence)."
    )
