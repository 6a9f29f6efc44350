"""The command ask: the class of single images by a partner's classifier, or a search for their patients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import UnreadablePicture, UsageError
from medsanitize.federation.ask.session import ClassLearned, ask_classes
from medsanitize.federation.ask.statement import UNSURE, class_statement, search_statement
from medsanitize.federation.near.client import ask_near_over_https, converse, over_https
from medsanitize.federation.near.session import NearLearned
from medsanitize.federation.near.terms import MOST_IMAGES
from medsanitize.federation.parties.identity import LocalParty, open_party
from medsanitize.federation.parties.trust import trusted_partner
from medsanitize.pipeline.jobs.near_overlap import class_side
from medsanitize.pipeline.jobs.private_overlap import agreement_with, partners_of
from medsanitize.pipeline.stages.near_comparison import check_near, searching_side
from medsanitize.policies.model import Policy
from medsanitize.policies.partners import Agreement, Near
from medsanitize.progress import Progress

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.images.image import ImageArray, Modality


@dataclass(frozen=True, slots=True)
class Classified:
    """Classes of images by a partner's classifier.

    Attributes
    ----------
    answers
        Name of the class of each image, in their order; ``unsure`` where none is sure enough.
    learned
        Classes, digest of the classifier, session.
    statement
        What each party learned, and what is assumed.
    """

    answers: tuple[str, ...]
    learned: ClassLearned
    statement: str


@dataclass(frozen=True, slots=True)
class Searched:
    """Whether the patients of images are among those of a partner.

    Attributes
    ----------
    matches
        Whether each image matches a patient, in their order.
    learned
        The partner's number of patients, distance and bounds, and the session.
    statement
        What each party learned, and what is assumed.
    """

    matches: tuple[bool, ...]
    learned: NearLearned
    statement: str

    @property
    def by_chance(self) -> float:
        """Expected share of strangers who match: as many as pairs of strangers at the partner would give."""
        bound = self.learned.bounds[1]
        share = bound.matches / bound.strangers if bound.strangers else 1.0
        return min(1.0, share * self.learned.sizes[1])


def ask_classifier(
    policy: Policy, images: Sequence[Path], partner: str, model: str, progress: Progress
) -> Classified:
    """Ask a partner's classifier for the classes of images that the partner does not see.

    Parameters
    ----------
    policy : Policy
        The policy with the agreement.
    images : sequence of Path
        The images.
    partner : str
        Name or address of the partner.
    model : str
        Name of the classifier in the agreement.
    progress : Progress
        Receives the steps.

    Raises
    ------
    UsageError
        There is no such agreement or address, an image cannot be read, a library is missing, or a budget is
        used up; the partner refuses.
    IntegrityError
        A message is not by the partner, malformed or out of order.
    EnvironmentFailure
        The partner cannot be reached.
    """
    from medsanitize.verifiers.reid.models.pretrained import packaged_digest, packaged_retrieval

    party, agreement, address = _opened(policy, partner, images)
    if agreement.ask is None:
        raise _no_questions()
    kind, _ = check_near(party, Near(kind=agreement.ask.kind))
    identity = trusted_partner(party, agreement.partner)
    side = class_side(party, identity, agreement, model, packaged_digest(kind))
    progress.stage("looking", None)
    vectors = packaged_retrieval(kind).embed(_read(images, kind))
    progress.stage(f"ask {agreement.partner}", None)
    learned = over_https(converse(party, identity, address, partial(ask_classes, side, vectors)))
    answers = tuple(UNSURE if one is None else learned.classes[one] for one in learned.answers)
    statement = class_statement(agreement.partner, [model], agreement.ask.confidence)
    return Classified(answers, learned, statement)


def ask_search(policy: Policy, images: Sequence[Path], partner: str, progress: Progress) -> Searched:
    """Ask a partner whether images match a patient of its release; parameters and errors as above."""
    party, agreement, address = _opened(policy, partner, images)
    if agreement.ask is None:
        raise _no_questions()
    progress.stage("looking", None)
    identity = trusted_partner(party, agreement.partner)
    side = searching_side(party, identity, agreement, partial(_read, images))
    progress.stage(f"ask {agreement.partner}", None)
    learned = ask_near_over_https(side, address)
    return Searched(learned.opened.patients, learned, search_statement(agreement.partner))


def _opened(policy: Policy, partner: str, images: Sequence[Path]) -> tuple[LocalParty, Agreement, str]:
    section = partners_of(policy)
    agreement = agreement_with(section, partner)
    if not 1 <= len(images) <= MOST_IMAGES:
        raise UsageError(f"A question is about 1 to {MOST_IMAGES} images", "Ask in several questions")
    if agreement.address is None:
        raise UsageError("The agreement names no address of the partner", "Write partners.agreements.address")
    return open_party(section.party), agreement, agreement.address


def _read(images: Sequence[Path], kind: Modality) -> list[ImageArray]:
    """Read the images; a file is named by its place."""
    from medsanitize.verifiers.reid.images.read import read_image

    found = []
    for place, path in enumerate(images, 1):
        try:
            picture = read_image(path, kind=kind)
        except UnreadablePicture as refused:
            raise UsageError(
                f"Image {place} cannot be read: {refused.rule}", "Name an image of the agreed kind"
            ) from None
        if picture.modality is not kind:
            raise UsageError(f"Image {place} is of another kind than the agreed one", "Leave it out")
        found.append(picture)
    return found


def _no_questions() -> UsageError:
    return UsageError(
        "The agreement with the partner allows no questions about single images",
        "Write partners.agreements.ask in both policies",
    )
