"""The statement: every number behind a verdict, as sentences. It contains no PHI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medsanitize.generators.privacy_gate.parameters import (
    CLAIM_CONFIDENCE,
    LABEL,
    TEST_CONFIDENCE,
    images_needed,
)
from medsanitize.generators.privacy_gate.verdict import Clause, ClauseState

if TYPE_CHECKING:
    from medsanitize.generators.privacy_gate.verdict import GateSubject, GateVerdict

_LIMITS = (
    "The models are assumed to be trained on no patient of the three splits. It was checked that none was"
    " trained on the holdout or calibration split.",
    "Copies are assumed to be found as often as the positive controls. A copy altered in another way, such"
    " as mirrored, may be missed.",
    "These tests do not prove that nothing about a patient can be learned from the images, and the label is"
    " no legal statement.",
)


def statement(verdict: GateVerdict) -> tuple[str, ...]:
    """Lines of the verdict, its clauses, the models, the sizes and the limits of the tests."""
    verdicts = {
        "passed": f"Passed: {LABEL}.",
        "failed": "Failed: the images must not be released under the label.",
        "insufficient_data": _not_calibratable(verdict.needed),
    }
    models, sizes = _subject(verdict.subject)
    return (
        verdicts[verdict.state],
        *(
            f"{number}. {one.name} ({one.state.replace('_', ' ')}): {one.sentence}"
            for number, one in enumerate(verdict.clauses, 1)
        ),
        f"{models}.",
        f"{sizes}; every image was compared with {verdict.subject.candidates:,} training images.",
        *_LIMITS,
    )


def undrawn(subject: GateSubject, needed: Sequence[str]) -> tuple[str, ...]:
    """Lines for a generator that was not sampled because no threshold could be calibrated."""
    return (
        _not_calibratable(needed),
        "No image was sampled, because none could have passed.",
        *(f"{line}." for line in _subject(subject)),
    )


def _not_calibratable(needed: Sequence[str]) -> str:
    return f"Insufficient data: nothing can be claimed. Required: {'; '.join(needed)}."


def _subject(subject: GateSubject) -> tuple[str, str]:
    models = ", ".join(f"{name} {digest}" for name, digest in sorted(subject.digests.items()))
    sizes = ", ".join(f"{name} {size:,}" for name, size in sorted(subject.sizes.items()))
    return f"Models: {models}", f"Sizes: {sizes}"


def clauses_of(verdict: GateVerdict) -> tuple[Clause, ...]:
    """Return the seven clauses in the order of the manual."""
    return (
        _threshold(verdict),
        _controls(verdict),
        _matches(verdict),
        _decision(verdict),
        _holdout(verdict),
        _membership(verdict),
        _extraction(verdict),
    )


def _threshold(verdict: GateVerdict) -> Clause:
    limit = verdict.threshold
    if limit.needed:
        return Clause("Threshold", "not_run", f"required: {limit.needed}")
    return Clause(
        "Threshold",
        "met",
        f"scores of {limit.value:.7f} and more match; of {limit.patients:,} patients, each by the worst pair,"
        f" {limit.overlooked:,} may score below it, so that at most {verdict.terms.missed:.2%} are missed at"
        f" 95 % ({limit.missed:.2%} at {CLAIM_CONFIDENCE:.1%})",
    )


def _controls(verdict: GateVerdict) -> Clause:
    found = ", ".join(f"{name} {share:.2%}" for name, share in verdict.controls.items())
    state: ClauseState = "not_run" if verdict.threshold.needed or not verdict.controls else "met"
    return Clause("Positive controls", state, f"patients with all copies found: {found or 'no controls'}")


def _matches(verdict: GateVerdict) -> Clause:
    found = verdict.bound
    return Clause(
        "Matches",
        "not_run" if verdict.threshold.needed else "met",
        f"{found.matches:,} of {found.images:,} images match a training patient, at most {found.upper:.3%} at"
        f" 95 %; copies are at most {found.copy_rate:.3%} of all samples, and at most"
        f" {found.residual:.2e} of those left when matches are removed, both bounds jointly at 95 %;"
        f" Rs: images link to {verdict.linked.errors:,} of {verdict.linked.of:,} training patients, at most"
        f" {verdict.linked.upper:.2%} at 95 %",
    )


def _decision(verdict: GateVerdict) -> Clause:
    most, needed = verdict.terms.most, images_needed(verdict.terms.most)
    state: ClauseState
    if verdict.upper <= most:
        state, said = "met", f"the bound {verdict.upper:.3%} is at most {most:.3%}"
    # Too few images cannot meet the bound even without a match: not run, instead of not met.
    elif verdict.images < needed:
        state, said = "not_run", f"{most:.3%} takes {needed:,} images without a match"
    else:
        state, said = "not_met", f"the bound {verdict.upper:.3%} is more than {most:.3%}"
    # Last: without a threshold the number of matches means nothing, whatever the bound.
    if verdict.threshold.needed:
        state = "not_run"
    return Clause("Bound", state, said)


def _holdout(verdict: GateVerdict) -> Clause:
    near, wrong, equal = verdict.attacks.closeness, verdict.false_match, verdict.equal_match
    if not near.patients:
        return Clause("Holdout", "not_run", "there is no patient to compare with")
    return Clause(
        "Holdout",
        "alarm" if near.alarm else "met",
        f"{wrong.share:.3%} of the images match a holdout patient ({wrong.lower:.3%} to"
        f" {wrong.upper:.3%}), {equal.share:.3%} one of as many training patients; {near.share:.1%} are"
        f" nearer to training than to holdout, at least {near.lower:.1%} at {TEST_CONFIDENCE:.1%},"
        f" {near.patients:,} patients each",
    )


def _membership(verdict: GateVerdict) -> Clause:
    attack = verdict.attacks.membership
    if attack.needed:
        return Clause("Membership attack", "not_run", f"required: {attack.needed}")
    return Clause(
        "Membership attack",
        "not_met" if attack.veto else "met",
        f"at 1 % false positives it recognizes {attack.recognized:,} of {attack.patients:,} training"
        f" patients: {attack.rate:.2%} ({attack.lower:.2%} to {attack.upper:.2%}, each at"
        f" {TEST_CONFIDENCE:.1%}); p = {attack.chance:.2g}",
    )


def _extraction(verdict: GateVerdict) -> Clause:
    attempt = verdict.attacks.extraction
    if verdict.threshold.needed:
        return Clause("Extraction", "not_run", "without a threshold, extracted images cannot be recognized")
    blind = f"{attempt.extracted:,} training patients were found twice in blind samples"
    if attempt.needed:
        state: ClauseState = "not_met" if attempt.veto else "not_run"
        # Blind extraction is evidence by itself, even if the test with hints could not run.
        return Clause("Extraction", state, f"{blind}; restoration was not run, required: {attempt.needed}")
    return Clause(
        "Extraction",
        "not_met" if attempt.veto else "met",
        f"{blind}; of {attempt.hints:,} noised images each, {attempt.restored:,} of training and"
        f" {attempt.restored_others:,} of holdout were restored as the same patient; p ="
        f" {attempt.chance:.2g}",
    )
