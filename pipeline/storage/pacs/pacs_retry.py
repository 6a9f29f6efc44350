"""Retries of PACS requests, and the errors that end them.

Library errors may quote UIDs and URLs, so nothing of them is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.runtime.resume_hint import RESUMES

Result = TypeVar("Result")

# Seconds before each retry of a failing PACS, 40 in total. The first retry is immediate: the peer may have
# closed a connection that was idle.
PAUSE_SECONDS: Final = (0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0)
# The same for one object that a working peer does not provide.
OBJECT_PAUSE_SECONDS: Final = PAUSE_SECONDS[1:4]


class ServiceNotOffered(EnvironmentFailure):
    """{what}. {remedy}."""


class PacsUnreachable(EnvironmentFailure):
    """{what}. {remedy}."""


class TransientFailure(Exception):
    """The peer failed in a way that may pass; the text contains no names or values."""


class ObjectRefused(Exception):
    """The peer works, but does not provide or accept this object."""


class ObjectNotFound(ObjectRefused):
    """The peer works, and has no such object."""


def with_retries(
    who: object,
    call: Callable[[], Result],
    pauses: Sequence[float] = PAUSE_SECONDS,
    few: Sequence[float] = OBJECT_PAUSE_SECONDS,
) -> Result:
    """Call until it succeeds, with increasing pauses.

    Parameters
    ----------
    who : object
        The service, as messages name it.
    call : callable
        Must be safe to repeat after a failure.
    pauses, few : sequence of float
        Seconds to wait after a failure of the service, and after a refusal of an object.

    Raises
    ------
    ObjectRefused
        After the retries in ``few``.
    PacsUnreachable
        After the retries in ``pauses``.
    EnvironmentFailure
        The service denies access; not retried.
    """
    failures, refusals = iter(pauses), iter(few)
    while True:
        try:
            return call()
        except TransientFailure as failure:
            pause = next(failures, None)
            if pause is None:
                raise pacs_unreachable(who, str(failure)) from None
        except ObjectRefused:
            pause = next(refusals, None)
            if pause is None:
                raise
        time.sleep(pause)


def pacs_unreachable(who: object, how: str) -> PacsUnreachable:
    """Return the error for a service that keeps failing."""
    return PacsUnreachable(
        f"{who} cannot be used: {how}",
        f"Check the network and the PACS, then run the same command again: {RESUMES}",
    )
