"""Decide the verdict of the privacy gate; missing data never counts in favor of the images."""

from __future__ import annotations

from dataclasses import replace

from medsanitize.generators.privacy_gate.confidence_bounds import bound, exceeds, keeps, share_of
from medsanitize.generators.privacy_gate.draw_plan import DrawPlan, plan_draw
from medsanitize.generators.privacy_gate.next_steps import (
    next_steps,
    too_few_for_attack,
    too_few_patients,
    too_small,
)
from medsanitize.generators.privacy_gate.parameters import GateParameters
from medsanitize.generators.privacy_gate.reidentification import GATED, Exposure
from medsanitize.generators.privacy_gate.statement import clauses_of
from medsanitize.generators.privacy_gate.verdict import Attacks, GateState, GateSubject, GateVerdict, Scores
from medsanitize.verifiers.reid.calibration import Rate


def decide_verdict(
    scores: Scores,
    linked: Rate,
    attacks: Attacks,
    exposures: tuple[Exposure, ...],
    subject: GateSubject,
    terms: GateParameters,
) -> GateVerdict:
    """Combine threshold, bound, attacks and exposure to a verdict.

    Parameters
    ----------
    scores
        Scores of all splits and of the positive controls.
    linked
        Share of training patients to whom an image links.
    attacks
        Results of the alarm and of the vetoes.
    exposures
        Exposure to re-identification.
    subject, terms
        What is judged, and by which parameters.

    Returns
    -------
    GateVerdict
        ``failed`` needs evidence, ``passed`` needs all data; anything else is ``insufficient_data``.
    """
    limit = scores.threshold(terms)
    found = bound(
        len(scores.training), int((scores.training >= limit.value).sum()), limit.missed, terms.confidence
    )
    strangers = share_of(scores.strangers >= limit.value)
    plan = plan_draw(limit.patients, strangers, terms)
    needed = data_needed(limit.patients, plan, attacks, exposures, subject, terms)
    state: GateState = "passed"
    # Without a threshold there are no matches, so neither a pass nor a failure has a basis.
    if not limit.patients or too_small(subject.size):
        state = "insufficient_data"
    # The lower bound fails a generator even with few images: more images could not make it pass.
    elif _vetoed(attacks) or exceeds(found, terms) or _exposed(exposures, terms):
        state = "failed"
    elif needed or not keeps(found, terms) or not _held(exposures, terms):
        state = "insufficient_data"
    verdict = GateVerdict(
        state=state,
        clauses=(),
        threshold=limit,
        bound=found,
        terms=terms,
        subject=subject,
        plan=plan,
        false_match=share_of(scores.holdout >= limit.value),
        equal_match=share_of(scores.equal >= limit.value),
        strangers=strangers,
        controls={name: float((each >= limit.value).mean()) if len(each) else 0.0
                  for name, each in sorted(scores.controls.items())},
        linked=linked,
        attacks=attacks,
        exposures=exposures,
        needed=needed,
        next_steps=next_steps(limit.patients, found, subject.sizes, subject.size, terms),
    )  # fmt: skip
    return replace(verdict, clauses=clauses_of(verdict))


def data_needed(
    patients: int,
    plan: DrawPlan,
    attacks: Attacks,
    exposures: tuple[Exposure, ...],
    subject: GateSubject,
    terms: GateParameters,
) -> tuple[str, ...]:
    """Data missing for a pass; nothing of it depends on the synthetic images."""
    sizes, membership, restoration = subject.sizes, attacks.membership, attacks.extraction
    lacks = [too_small(subject.size), too_few_patients(patients, plan, sizes, terms)]
    if membership.inconclusive:
        lacks.append(too_few_for_attack("membership attack", membership.patients, membership.noticed, terms))
    if restoration.inconclusive:
        lacks.append(too_few_for_attack("restoration", restoration.hints, restoration.noticed, terms))
    if terms.reidentification is not None and not _gated(exposures):
        lacks.append(
            f"more patients in holdout and calibration for a false match rate of {GATED:.1%}, at which"
            " re-identification is limited"
        )
    return tuple(one for one in lacks if one)


def _vetoed(attacks: Attacks) -> bool:
    return attacks.excess.veto or attacks.membership.veto or attacks.extraction.veto


def _gated(exposures: tuple[Exposure, ...]) -> Exposure | None:
    return next((one for one in exposures if one.false_match == GATED), None)


def _exposed(exposures: tuple[Exposure, ...], terms: GateParameters) -> bool:
    """Whether the limit of re-identification is certainly exceeded."""
    one = _gated(exposures)
    return terms.reidentification is not None and one is not None and one.lower > terms.reidentification


def _held(exposures: tuple[Exposure, ...], terms: GateParameters) -> bool:
    """Whether the limit of re-identification, if there is one, is certainly kept."""
    one = _gated(exposures)
    return terms.reidentification is None or (one is not None and one.upper <= terms.reidentification)
