"""The statement: every number behind a verdict, as sentences. It contains no PHI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medsanitize.generators.privacy_gate.confidence_bounds import exceeds, keeps
from medsanitize.generators.privacy_gate.parameters import (
    LABEL,
    LARGEST_MATCH_RATE,
    MOST_JUDGED,
    TEST_CONFIDENCE,
)
from medsanitize.generators.privacy_gate.reidentification import GATED
from medsanitize.generators.privacy_gate.verdict import Clause, ClauseState

if TYPE_CHECKING:
    from medsanitize.generators.privacy_gate.reidentification import Exposure
    from medsanitize.generators.privacy_gate.verdict import GateSubject, GateVerdict

_LIMITS = (
    "The models are assumed to be trained on no patient of the three splits. It was checked that none was"
    " trained on the holdout or calibration split.",
    "Copied patients are assumed to be like the calibration patients, and copies to be found as often as the"
    " positive controls: a copy altered in another way may be missed. More calibration patients do not"
    " correct a generator that copies the patients who are hardest to find.",
    "These tests do not prove that nothing about a patient can be learned from the images, and the label is"
    " no legal statement.",
)


def statement(verdict: GateVerdict) -> tuple[str, ...]:
    """Lines of the verdict, its claim, its clauses, the models, the sizes and the limits of the tests."""
    models, sizes = _subject(verdict.subject)
    return (
        _headline(verdict),
        claim(verdict),
        *(
            f"{number}. {one.name} ({one.state.replace('_', ' ')}): {one.sentence}"
            for number, one in enumerate(verdict.clauses, 1)
        ),
        *verdict.next_steps,
        *_federation(verdict.subject),
        f"{models}.",
        f"{sizes}; every image was compared with {verdict.subject.candidates:,} training images.",
        *_LIMITS,
    )


def _headline(verdict: GateVerdict) -> str:
    if verdict.state == "passed":
        return f"Passed: {LABEL}."
    if verdict.state == "failed":
        return "Failed: the images must not be released under the label."
    if verdict.needed:
        return insufficient(verdict.needed)
    return "Insufficient data: the bound is not established, and nothing shows that it cannot be."


def claim(verdict: GateVerdict) -> str:
    """The bounds, their basis and their assumption in one sentence."""
    found, limit, terms = verdict.bound, verdict.threshold, verdict.terms
    if not limit.patients:
        return "Nothing is claimed: there is no calibration patient."
    return (
        f"Of N = {found.images:,} images, k = {found.matches:,} match a training patient, so that at most"
        f" U = {found.upper:.3%} of the generator's images do; the threshold missed no copy of n ="
        f" {limit.patients:,} calibration patients{_where(verdict)}, so that it misses at most"
        f" beta = {limit.missed:.2%}; hence at most {found.copy_rate:.3%} of the generator's images are"
        f" copies, and at most {found.residual:.4%} of those left after matches are removed (try"
        f" {terms.attempt:,} on these patients, alpha {terms.alpha:.3g} of 0.05 over all tries), provided"
        " that copied patients are like the calibration patients."
    )


def _where(verdict: GateVerdict) -> str:
    pooled = verdict.subject.pooled
    return f" of {pooled.sites:,} hospitals" if pooled else ""


def _federation(subject: GateSubject) -> tuple[str, ...]:
    """Whose patients calibrated the threshold, and what that assumes."""
    if subject.unquoted:
        return (
            f"The federated calibration is not used, since {subject.unquoted}: the own calibration split sets"
            " the threshold.",
        )
    if subject.pooled is None:
        return ()
    return (
        f"The threshold is that of {subject.pooled.patients:,} calibration patients of"
        f" {subject.pooled.sites:,} hospitals, from counts that were added under a federation and signed by"
        f" {subject.pooled.signer}. It assumes that the training patients are like these; strangers, and"
        " copies of own calibration patients where there are five, did not score otherwise here than there"
        " (tests at 5 %, which overlook small differences). That no patient of another hospital is also a"
        " training patient, or was counted at two hospitals, is only known as far as they compared their"
        " patients.",
    )


def undrawn(subject: GateSubject, needed: Sequence[str]) -> tuple[str, ...]:
    """Lines for a generator that was not sampled because no image could have passed."""
    return (
        insufficient(needed),
        "No image was sampled, because none could have passed.",
        *_federation(subject),
        *(f"{line}." for line in _subject(subject)),
    )


def insufficient(needed: Sequence[str]) -> str:
    """Sentence on missing data."""
    return f"Insufficient data: nothing can be claimed. Required: {'; '.join(needed)}."


def _subject(subject: GateSubject) -> tuple[str, str]:
    models = ", ".join(f"{name} {digest}" for name, digest in sorted(subject.digests.items()))
    sizes = ", ".join(f"{name} {size:,}" for name, size in sorted(subject.sizes.items()))
    return f"Models: {models}", f"Sizes: {sizes}, {subject.size} x {subject.size} pixels"


def clauses_of(verdict: GateVerdict) -> tuple[Clause, ...]:
    """Return the eight clauses in the order of the manual."""
    return (
        _threshold(verdict),
        _controls(verdict),
        _matches(verdict),
        _decision(verdict),
        _holdout(verdict),
        _membership(verdict),
        _extraction(verdict),
        _reidentification(verdict),
    )


def _threshold(verdict: GateVerdict) -> Clause:
    limit = verdict.threshold
    if not limit.patients:
        return Clause("Threshold", "not_run", "there is no calibration patient")
    return Clause(
        "Threshold",
        "met",
        f"scores of {limit.value:.7f} and more match: the lowest score of any copy of {limit.patients:,}"
        f" patients; copies of at most {limit.missed:.2%} of patients score lower, at"
        f" {verdict.terms.confidence:.2%}",
    )


def _controls(verdict: GateVerdict) -> Clause:
    found = ", ".join(f"{name} {share:.2%}" for name, share in verdict.controls.items())
    state: ClauseState = "met" if verdict.threshold.patients and verdict.controls else "not_run"
    return Clause("Positive controls", state, f"patients with all copies found: {found or 'no controls'}")


def _matches(verdict: GateVerdict) -> Clause:
    found = verdict.bound
    return Clause(
        "Matches",
        "met" if verdict.threshold.patients else "not_run",
        f"{found.matches:,} of {found.images:,} images match a training patient, at most {found.upper:.3%} at"
        f" {verdict.terms.confidence:.2%}; {verdict.strangers.errors:,} of {verdict.strangers.of:,} images"
        f" of real"
        f" strangers do ({verdict.strangers.lower:.2%} to {verdict.strangers.upper:.2%});"
        f" Rs: images link to {verdict.linked.errors:,} of {verdict.linked.of:,} training patients, at most"
        f" {verdict.linked.upper:.2%} at 95 %",
    )


def _decision(verdict: GateVerdict) -> Clause:
    limit, found, plan = verdict.terms.residual, verdict.bound, verdict.plan
    name = "Residual"
    # First: without a threshold the number of matches means nothing, whatever the bound.
    if not verdict.threshold.patients:
        return Clause(name, "not_run", "without a threshold there is no bound")
    planned = f"{plan.images:,} images were planned from {verdict.threshold.patients:,} calibration patients"
    planned += " and the matches of strangers"
    if plan.capped and plan.images >= MOST_JUDGED:
        planned += f", as many as are judged at most ({MOST_JUDGED:,})"
    elif plan.capped:
        planned += ", as few as possible, since real strangers match more often than images may"
    # Bounds that more images could tighten are not run, instead of not met.
    state: ClauseState = "not_met" if exceeds(found, verdict.terms) else "not_run"
    return Clause(
        name,
        "met" if keeps(found, verdict.terms) else state,
        f"the bound {found.residual:.4%} of copies left, where {limit:.3%} is permitted, and the bound"
        f" {found.upper:.3%} of matches, where {LARGEST_MATCH_RATE:.2%} is; {planned}",
    )


def _holdout(verdict: GateVerdict) -> Clause:
    near, wrong, equal = verdict.attacks.closeness, verdict.false_match, verdict.equal_match
    excess = verdict.attacks.excess
    if not near.patients:
        return Clause("Holdout", "not_run", "there is no patient to compare with")
    state: ClauseState = "not_met" if excess.veto else "alarm" if near.alarm else "met"
    return Clause(
        "Holdout",
        state,
        f"{wrong.share:.3%} of the images match a holdout patient ({wrong.lower:.3%} to"
        f" {wrong.upper:.3%}), {equal.share:.3%} one of as many training patients; of {excess.patients:,}"
        f" pairs"
        f" of patients, only the training patient is matched in {excess.training:,} and only the holdout"
        f" patient"
        f" in {excess.holdout:,}, p = {excess.chance:.2g}; {near.share:.1%} are"
        f" nearer to training than to holdout, at least {near.lower:.1%} at {TEST_CONFIDENCE:.2%}",
    )


def _membership(verdict: GateVerdict) -> Clause:
    attack = verdict.attacks.membership
    if not attack.patients:
        return Clause("Membership attack", "inconclusive", "there is no holdout patient")
    return Clause(
        "Membership attack",
        "not_met" if attack.veto else "inconclusive" if attack.inconclusive else "met",
        f"with {attack.false_positives:,} false positives among as many holdout patients it recognizes"
        f" {attack.recognized:,} of {attack.patients:,} training patients: {attack.rate:.2%}"
        f" ({attack.lower:.2%} to"
        f" {attack.upper:.2%}, each at {TEST_CONFIDENCE:.2%}); p = {attack.chance:.2g}; it notices"
        f" {attack.noticed:,} and more",
    )


def _extraction(verdict: GateVerdict) -> Clause:
    attempt = verdict.attacks.extraction
    if not verdict.threshold.patients:
        return Clause("Extraction", "not_run", "without a threshold, extracted images cannot be recognized")
    blind = (
        f"{attempt.extracted:,} training patients and {attempt.extracted_others:,} holdout patients were"
        f" found"
        " twice in blind samples"
    )
    return Clause(
        "Extraction",
        "not_met" if attempt.veto else "inconclusive" if attempt.inconclusive else "met",
        f"{blind}; of {attempt.hints:,} noised images each, {attempt.restored:,} of training and"
        f" {attempt.restored_others:,} of holdout were restored as the same patient; p ="
        f" {attempt.chance:.2g}; {attempt.noticed:,} and more are noticed",
    )


def _reidentification(verdict: GateVerdict) -> Clause:
    limit, name = verdict.terms.reidentification, "Re-identification"
    if not verdict.exposures:
        return Clause(name, "not_run", "there are too few pairs of strangers for a false match rate")
    said = "; ".join(map(_exposure, verdict.exposures))
    if limit is None:
        return Clause(name, "reported", f"{said}; the policy sets no limit")
    gated = next((one for one in verdict.exposures if one.false_match == GATED), None)
    if gated is None:
        return Clause(name, "not_run", f"{said}; a limit needs a false match rate of {GATED:.1%}")
    state: ClauseState = "met" if gated.upper <= limit else "not_met" if gated.lower > limit else "not_run"
    return Clause(name, state, f"{said}; at {GATED:.1%}, the difference must be at most {limit:.2%}")


def _exposure(one: Exposure) -> str:
    ours, theirs = one.synthetic, one.strangers
    return (
        f"at a false match rate of {one.false_match:.1%} {ours.share:.2%} of the images ({ours.lower:.2%} to"
        f" {ours.upper:.2%}) and {theirs.share:.2%} of real strangers ({theirs.lower:.2%} to"
        f" {theirs.upper:.2%}) could"
        f" be taken for a training patient, a difference of {one.lower:+.2%} to {one.upper:+.2%};"
        f" {_recognized(one)}"
    )


def _recognized(one: Exposure) -> str:
    if not one.genuine.of:
        return "no calibration patient has two images to be recognized by"
    return f"{one.genuine.share:.0%} of {one.genuine.of:,} patients are recognized on another day"
