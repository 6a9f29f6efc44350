"""How the verdict is reached; what cannot be said is never said in favour of the images."""

from __future__ import annotations

from dataclasses import replace

from medsanitize.generators.privacy_gate.confidence_bounds import bound
from medsanitize.generators.privacy_gate.parameters import GateParameters, images_needed
from medsanitize.generators.privacy_gate.statement import clauses_of
from medsanitize.generators.privacy_gate.verdict import Attacks, GateState, GateSubject, GateVerdict, Scores
from medsanitize.verifiers.reid.calibration import Rate, clopper_pearson


def decide_verdict(
    scores: Scores, linked: Rate, attacks: Attacks, subject: GateSubject, terms: GateParameters
) -> GateVerdict:
    """Put everything together. What cannot be said is never said in the images' favour."""
    limit = scores.threshold(terms)
    images = len(scores.training)
    found = bound(images, int((scores.training >= limit.value).sum()), limit.missed)
    enough = images >= images_needed(terms.most)
    lacks = [limit.needed, attacks.membership.needed or attacks.extraction.needed]
    lacks += [] if enough else [f"{images_needed(terms.most):,} images, and there are {images:,}"]
    needed = tuple(one for one in lacks if one)
    vetoed = attacks.membership.veto or attacks.extraction.veto
    state: GateState = "passed"
    if limit.needed:
        state = "insufficient_data"
    elif vetoed or found.lower > terms.most or (enough and found.upper > terms.most):
        state = "failed"
    elif needed:
        state = "insufficient_data"
    verdict = GateVerdict(
        state=state,
        clauses=(),
        threshold=limit,
        bound=found,
        terms=terms,
        subject=subject,
        false_match=rate(int((scores.holdout >= limit.value).sum()), images),
        equal_match=rate(int((scores.equal >= limit.value).sum()), images),
        controls={name: float((each >= limit.value).mean()) if len(each) else 0.0
                  for name, each in sorted(scores.controls.items())},
        linked=linked,
        attacks=attacks,
        needed=needed,
    )  # fmt: skip
    return replace(verdict, clauses=clauses_of(verdict))


def rate(errors: int, of: int) -> Rate:
    """A share with its exact one-sided bounds; of nothing, all that is possible."""
    if not of:
        return Rate(0.0, 0, 0, 0.0, 1.0)
    return Rate(errors / of, errors, of, *clopper_pearson(errors, of))
