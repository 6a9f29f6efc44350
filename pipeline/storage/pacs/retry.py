"""How long a PACS is tried again, and what is said when it is not tried any more.

What libraries raise may quote UIDs and URLs, so nothing of it is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.runtime.resume_hint import GOES_ON

Result = TypeVar("Result")

PAUSES: Final = (0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0)
"""Seconds to wait before each further try of a PACS that fails: 40 in all. The first is for a connection
that the peer closed while nobody used it."""
FEW: Final = PAUSES[1:4]
"""The same for one object that a peer which is well does not give."""


class ServiceNotOffered(EnvironmentFailure):
    """{what}. {remedy}."""


class PacsUnreachable(EnvironmentFailure):
    """{what}. {remedy}."""


class TransientFailure(Exception):
    """The peer failed in a way that may pass; says how, without names or values."""


class ObjectRefused(Exception):
    """The peer is well, and says that it cannot give this object or does not take it."""


class ObjectNotFound(ObjectRefused):
    """The peer is well, and says that there is no such thing."""


def with_retries(
    who: object, call: Callable[[], Result], pauses: Sequence[float] = PAUSES, few: Sequence[float] = FEW
) -> Result:
    """Call until it succeeds, with longer and longer pauses between.

    Parameters
    ----------
    who : object
        The service, as messages name it.
    call : callable
        Must be fit to be called again after it has failed.
    pauses, few : sequences of float
        Seconds to wait after a failure of the service, and after an object was not given.

    Raises
    ------
    ObjectRefused
        After the few tries.
    PacsUnreachable
        The service kept failing.
    EnvironmentFailure
        It refuses, which is not tried again.
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
    """What is said of a service that keeps failing."""
    return PacsUnreachable(
        f"{who} cannot be used: {how}",
        f"Check the network and the PACS, then run the same command again: {GOES_ON}",
    )
