"""What goes wrong with a store, in a few kinds, and how long to try again.

Libraries quote names of objects in what they raise, and such names identify patients: nothing of it is kept.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeVar

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.runtime.resume_hint import GOES_ON

Result = TypeVar("Result")
Kind = Literal["absent", "refused", "passing", "odd", "there", "cut", "lost"]

PATIENCE: Final = 60.0
"""Seconds for which a store that fails is tried again."""
SILENCE: Final = 30
"""Seconds after which a store that says nothing is taken to have failed."""
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 8.0
TRIES: Final = 5
"""How often a body that is shorter or longer than was stated is asked for."""

_REFUSED: Final = frozenset([401, 403, 407])
_REFUSED_CODES: Final = frozenset(
    ["ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "RequestExpired"]
)
_REFUSED_TYPES: Final = frozenset(
    [
        "ClientAuthenticationError",
        "CredentialRetrievalError",
        "DefaultCredentialsError",
        "NoCredentialsError",
        "NoAuthTokenError",
        "PartialCredentialsError",
        "RefreshError",
        "SSOError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    ]
)
_ARCHIVED_CODES: Final = frozenset(["BlobArchived", "InvalidObjectState"])
"""The object lies in an archive of S3 or Azure, and is not to be had at once."""
_SPOILT_CODES: Final = frozenset(
    ["BadDigest", "IncompleteBody", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"]
)
"""Of what was sent, something else arrived: to be sent again."""
_LOST_CODES: Final = frozenset(["NoSuchUpload"])
_UNKNOWN_CODES: Final = frozenset(["InvalidArgument", "InvalidRequest", "NotImplemented"])
_NO_BUCKET: Final = frozenset(["NoSuchBucket", "ContainerNotFound"])
_CUT_TYPES: Final = frozenset(
    [
        "ChecksumError",
        "ClientPayloadError",
        "ContentLengthError",
        "Cut",
        "FlexibleChecksumError",
        "IncompleteReadError",
        "ResponseStreamingError",
    ]
)
_ODD: Final = frozenset([errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.ENAMETOOLONG])


class ObjectNotFound(Exception):
    """The store has no such object; ``bucket``: not even the bucket."""

    def __init__(self, *, bucket: bool = False) -> None:
        self.bucket = bucket
        super().__init__()


class ObjectExists(Exception):
    """The store has an object of this name already."""


class UnexpectedResponse(Exception):
    """The store answers, but not what this can be read from: a fault of the object, not of the store.

    ``unknown``: it says that it does not know what was asked of it.
    """

    def __init__(self, *, unknown: bool = False) -> None:
        self.unknown = unknown
        super().__init__()


class UploadExpired(Exception):
    """The store knows nothing of an upload in progress: to be begun anew."""


class TruncatedBody(Exception):
    """The store gives fewer or more bytes than it states, each time."""


def with_retries(call: Callable[[], Result], failures: tuple[type[BaseException], ...]) -> Result:
    """Call until it succeeds, with longer and longer pauses between.

    Time counts from the first failure. Of a try that takes longer than a store can keep silent the rest does
    not count: the store was taking or giving something then.

    Parameters
    ----------
    call : callable
        Must be fit to be called again after it has failed.
    failures : tuple of exception types
        What the store's library raises.

    Raises
    ------
    ObjectNotFound, ObjectExists, UnexpectedResponse, UploadExpired
        At once.
    TruncatedBody
        After `TRIES` answers that were cut off.
    EnvironmentFailure
        Access is refused; or the store failed for `PATIENCE` seconds.
    """
    until, pause, cuts = 0.0, FIRST_PAUSE, 0
    caught: tuple[type[BaseException], ...] = (TruncatedBody, *failures)
    while True:
        asked = time.monotonic()
        try:
            return call()
        except caught as failure:
            kind, codes = kind_of(failure), codes_of(failure)
            unknown = bool(codes & _UNKNOWN_CODES) or any(status_of(one) == 501 for one in chain_of(failure))
        if kind == "absent":
            raise ObjectNotFound(bucket=bool(codes & _NO_BUCKET)) from None
        if kind == "there":
            raise ObjectExists from None
        if kind == "odd":
            raise UnexpectedResponse(unknown=unknown) from None
        if kind == "lost":
            raise UploadExpired from None
        if kind == "refused":
            raise access_denied() from None
        cuts += kind == "cut"
        if cuts == TRIES:
            raise TruncatedBody from None
        now = time.monotonic()
        until = until + max(0.0, now - asked - SILENCE) if until else now + PATIENCE
        if kind != "cut" and now + pause > until:
            raise store_unreachable() from None
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def with_retries_small(call: Callable[[], Result], failures: tuple[type[BaseException], ...]) -> Result:
    """`with_retries`, for all but bodies of objects: where small answers are cut off, the store is to blame.

    Raises
    ------
    ObjectNotFound, ObjectExists, UnexpectedResponse, UploadExpired
        At once.
    EnvironmentFailure
        Access is refused; or the store failed for too long, or cut every answer off.
    """
    try:
        return with_retries(call, failures)
    except TruncatedBody:
        raise store_unreachable() from None


def access_denied() -> EnvironmentFailure:
    """What is said when a store lets nobody in."""
    return EnvironmentFailure(
        "A store refuses access: its credentials are missing, have expired or do not suffice",
        "Renew them in the environment (docs/stores.md), then run the same command again",
    )


def store_unreachable() -> EnvironmentFailure:
    """What is said when a store has failed for too long."""
    return EnvironmentFailure(
        f"A store could not be reached, or kept failing, for {PATIENCE:.0f} seconds",
        f"Check the network and the store, then run the same command again: {GOES_ON}",
    )


def kind_of(failure: BaseException) -> Kind:
    """Which of the kinds a failure is; ``passing`` where nothing tells."""
    chain = tuple(chain_of(failure))
    if any(type(one).__name__ in _CUT_TYPES for one in chain):
        return "cut"
    codes = codes_of(failure)
    if codes & _LOST_CODES:
        return "lost"
    if codes & _ARCHIVED_CODES:
        return "odd"
    if codes & _REFUSED_CODES:
        return "refused"
    if codes & _SPOILT_CODES:
        return "passing"
    return next((kind for one in chain if (kind := _kind_of_one(one)) is not None), "passing")


def codes_of(failure: BaseException) -> frozenset[str]:
    """The codes of the answers that a failure, or what led to it, is made of."""
    return frozenset(map(_code, chain_of(failure)))


def _kind_of_one(one: BaseException) -> Kind | None:
    if isinstance(one, FileExistsError):
        return "there"
    if type(one).__name__ in _REFUSED_TYPES or str(one).startswith("Forbidden:"):
        return "refused"
    status = status_of(one)
    if status is not None:
        return _of_status(status)
    if isinstance(one, (TimeoutError, ConnectionError)):
        return "passing"
    if isinstance(one, FileNotFoundError):
        # Of a web server fsspec calls everything absent that keeps it from asking: then the cause tells.
        return "absent" if one.__cause__ is None or isinstance(one.__cause__, ValueError) else None
    if isinstance(one, PermissionError):
        return "refused"
    if isinstance(one, OSError) and one.errno in _ODD and one.__cause__ is None:
        return "odd"
    return None


def chain_of(failure: BaseException) -> Iterator[BaseException]:
    """A failure, and what led to it."""
    one: BaseException | None = failure
    for _ in range(8):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__


def _of_status(status: int) -> Kind:
    if status in (404, 410):
        return "absent"
    if status in _REFUSED:
        return "refused"
    if status == 412:
        return "there"
    if status == 501:
        return "odd"
    return "passing" if status >= 500 or status in (408, 409, 425, 429) else "odd"


def _code(failure: BaseException) -> str:
    """The code of an answer, as botocore keeps it, or azure's client."""
    response = getattr(failure, "response", None)
    error = response.get("Error") if isinstance(response, dict) else None
    if isinstance(error, dict):
        return str(error.get("Code", ""))
    code = getattr(failure, "error_code", None)
    return str(getattr(code, "value", code or ""))


def status_of(failure: BaseException) -> int | None:
    """The HTTP status of an answer, wherever the library keeps it."""
    response = getattr(failure, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(failure, "status", None) or getattr(failure, "status_code", None)
        status = status or getattr(failure, "code", None)
    if isinstance(status, str) and status.isdigit():
        status = int(status)
    return status if isinstance(status, int) and 300 <= status < 600 else None
