"""Decide the verdict of the privacy gate; missing data never counts in favor of the images."""

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
    """Combine threshold, bound and attacks to a verdict.

    Parameters
    ----------
    scores
        Scores of all splits and of the positive controls.
    linked
        Share of training patients to whom an image links.
    attacks
        Results of the alarm and of the two vetoes.
    subject, terms
        What is judged, and by which parameters.

    Returns
    -------
    GateVerdict
        ``failed`` needs evidence, ``passed`` needs all data; anything else is ``insufficient_data``.
    """
    limit = scores.threshold(terms)
    images = len(scores.training)
    found = bound(images, int((scores.training >= limit.value).sum()), limit.missed)
    enough = images >= images_needed(terms.most)
    lacks = [limit.needed, attacks.membership.needed or attacks.extraction.needed]
    lacks += [] if enough else [f"{images_needed(terms.most):,} images (available: {images:,})"]
    needed = tuple(one for one in lacks if one)
    vetoed = attacks.membership.veto or attacks.extraction.veto
    state: GateState = "passed"
    # Without a threshold there are no matches, so neither a pass nor a failure has a basis.
    if limit.needed:
        state = "insufficient_data"
    # The lower bound fails a generator even with few images: more images could not make it pass.
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
    """A share with exact one-sided bounds; with ``of`` 0 the bounds are 0 and 1."""
    if not of:
        return Rate(0.0, 0, 0, 0.0, 1.0)
    return Rate(errors / of, errors, of, *clopper_pearson(errors, of))
