"""Why a party does not go on, and what the other one says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.federation.messages.sealed import Message
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

_LATER: Final = "Run the same command again later"


class Refused(BaseModel):
    """The payload of a refusal."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    reason: Annotated[str, StringConstraints(max_length=40)]


class Refusal(Exception):
    """The answering party goes no further, for a reason of `REASONS`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def refused_by_partner(message: Message) -> UsageError | EnvironmentFailure:
    """Return the error for a partner's refusal; unknown reasons count as malformed."""
    try:
        reason = Refused.model_validate(message.payload).reason
    except ValidationError:
        reason = "malformed"
    if reason == "busy":
        return EnvironmentFailure("The partner's server is busy with another comparison", _LATER)
    what, remedy = REASONS.get(reason, REASONS["malformed"])
    return UsageError(f"The partner refuses the comparison. {what}", remedy)


def unusable_answer() -> IntegrityError:
    """Return the error for an answer that is no valid next message of the partner."""
    return IntegrityError(
        "The partner's answer is malformed, out of order or not by the partner; nothing was concluded",
        "Check that both parties have the same version of the program, and start a new session",
    )


REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "other-terms": (
        "Both policies must name the same comparisons, reveal the same and name the same contract",
        "Compare the agreements of both policies",
    ),
    "too-few-items": (
        "A set is smaller than the limit: its result would single out patients",
        "Compare a larger release, or agree on another limit in both policies",
    ),
    "too-many-items": (
        "A set is larger than the limit",
        "Agree on a larger limit in both policies",
    ),
    "no-budget": (
        "The comparisons that are agreed for this period are used up",
        "Wait, or agree on more in both policies",
    ),
    "no-answers": (
        "The answers about single images that are agreed for this period do not suffice",
        "Ask about fewer images, wait, or agree on more in both policies",
    ),
    "too-many-sessions": (
        "Too many comparisons were begun and not finished",
        "Finish them, or wait until they expire after two weeks",
    ),
    "no-session": (
        "The partner does not know this session: it was restarted, the session expired, or it is over",
        "Run the same command again, which starts a new session",
    ),
    "out-of-order": (
        "A message was repeated with other content, or is out of order",
        "Run the same command again, which starts a new session",
    ),
    "malformed": (
        "A message could not be used",
        "Check that both parties have the same version of the program, and run the same command again",
    ),
    "other-version": (
        "The parties speak other versions of the protocol",
        "Install the same version of the program at both parties",
    ),
}
"""Every reason for which a party refuses, with its sentence and remedy."""
