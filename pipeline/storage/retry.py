"""Retries, and a few kinds of failure to which all errors of the store libraries are reduced.

The libraries quote object names in their errors, and such names can identify patients: nothing of the
original error is kept.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeVar

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.runtime.resume_hint import RESUMES

Result = TypeVar("Result")
Kind = Literal["absent", "refused", "passing", "odd", "there", "cut", "lost"]

# Seconds for which a failing store is retried.
PATIENCE: Final = 60.0
# Seconds without data after which a store is considered unresponsive.
SILENCE: Final = 30
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 8.0
# How often a body of the wrong length is requested.
TRIES: Final = 5

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
# The object is archived (S3, Azure) and must be restored before it can be read.
_ARCHIVED_CODES: Final = frozenset(["BlobArchived", "InvalidObjectState"])
# The transmitted data was corrupted; it is sent again.
_UNUSABLE_CODES: Final = frozenset(
    ["BadDigest", "IncompleteBody", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"]
)
_LOST_CODES: Final = frozenset(["NoSuchUpload"])
_UNKNOWN_CODES: Final = frozenset(["InvalidArgument", "InvalidRequest", "NotImplemented"])
_NO_BUCKET: Final = frozenset(["NoSuchBucket", "ContainerNotFound"])
_TRUNCATED_TYPES: Final = frozenset(
    [
        "ChecksumError",
        "ClientPayloadError",
        "ContentLengthError",
        "TruncatedBody",
        "FlexibleChecksumError",
        "IncompleteReadError",
        "ResponseStreamingError",
    ]
)
_UNEXPECTED: Final = frozenset([errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.ENAMETOOLONG])


class ObjectNotFound(Exception):
    """The object does not exist; ``bucket``: the bucket does not exist either."""

    def __init__(self, *, bucket: bool = False) -> None:
        self.bucket = bucket
        super().__init__()


class ObjectExists(Exception):
    """An object of this name already exists."""


class UnexpectedResponse(Exception):
    """The store answers, but not usably: the object is at fault, not the store.

    ``unknown``: the store does not know the request.
    """

    def __init__(self, *, unknown: bool = False) -> None:
        self.unknown = unknown
        super().__init__()


class UploadExpired(Exception):
    """The store no longer knows an upload in progress; it must start again."""


class TruncatedBody(Exception):
    """The store repeatedly sends fewer or more bytes than it states."""


def with_retries(call: Callable[[], Result], failures: tuple[type[BaseException], ...]) -> Result:
    """Call until it succeeds, with increasing pauses.

    The time limit starts at the first failure. The part of an attempt beyond ``SILENCE`` seconds does not
    count, because data was transferred during it.

    Parameters
    ----------
    call : callable
        Must be safe to repeat after a failure.
    failures : tuple of exception types
        The exceptions of the store's library.

    Raises
    ------
    ObjectNotFound, ObjectExists, UnexpectedResponse, UploadExpired
        Immediately.
    TruncatedBody
        After ``TRIES`` truncated responses.
    EnvironmentFailure
        Access is denied, or the store failed for ``PATIENCE`` seconds.
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
        # Truncated bodies have a count instead of a time limit: each attempt transfers data.
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
    """Call with retries, for everything but object bodies: truncated small responses are the store's fault.

    Raises
    ------
    ObjectNotFound, ObjectExists, UnexpectedResponse, UploadExpired
        Immediately.
    EnvironmentFailure
        Access is denied, the store failed for too long, or every response was truncated.
    """
    try:
        return with_retries(call, failures)
    except TruncatedBody:
        raise store_unreachable() from None


def access_denied() -> EnvironmentFailure:
    """Return the error for denied access."""
    return EnvironmentFailure(
        "A store denies access: credentials are missing, expired or insufficient",
        "Renew them in the environment (docs/stores.md), then run the same command again",
    )


def store_unreachable() -> EnvironmentFailure:
    """Return the error for a store that failed for too long."""
    return EnvironmentFailure(
        f"A store was unreachable or failing for {PATIENCE:.0f} seconds",
        f"Check the network and the store, then run the same command again: {RESUMES}",
    )


def kind_of(failure: BaseException) -> Kind:
    """Classify a failure; ``passing`` (retried) if nothing else is known."""
    chain = tuple(chain_of(failure))
    if any(type(one).__name__ in _TRUNCATED_TYPES for one in chain):
        return "cut"
    codes = codes_of(failure)
    # Codes are checked before statuses: S3 and Azure use one status for several of these conditions.
    if codes & _LOST_CODES:
        return "lost"
    if codes & _ARCHIVED_CODES:
        return "odd"
    if codes & _REFUSED_CODES:
        return "refused"
    if codes & _UNUSABLE_CODES:
        return "passing"
    return next((kind for one in chain if (kind := _kind_of_one(one)) is not None), "passing")


def codes_of(failure: BaseException) -> frozenset[str]:
    """Return the error codes of a failure and its causes."""
    return frozenset(map(_code, chain_of(failure)))


def _kind_of_one(one: BaseException) -> Kind | None:
    if isinstance(one, FileExistsError):
        return "there"
    # gcsfs raises OSError("Forbidden: ...") without a status.
    if type(one).__name__ in _REFUSED_TYPES or str(one).startswith("Forbidden:"):
        return "refused"
    status = status_of(one)
    if status is not None:
        return _of_status(status)
    if isinstance(one, (TimeoutError, ConnectionError)):
        return "passing"
    if isinstance(one, FileNotFoundError):
        # fsspec reports every failed HTTP request as FileNotFoundError; the cause tells a real 404.
        return "absent" if one.__cause__ is None or isinstance(one.__cause__, ValueError) else None
    if isinstance(one, PermissionError):
        return "refused"
    if isinstance(one, OSError) and one.errno in _UNEXPECTED and one.__cause__ is None:
        return "odd"
    return None


def chain_of(failure: BaseException) -> Iterator[BaseException]:
    """Yield a failure and its causes."""
    one: BaseException | None = failure
    for _ in range(8):  # bounded, because a chain of causes can be circular
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__


def _of_status(status: int) -> Kind:
    if status in (404, 410):
        return "absent"
    if status in _REFUSED:
        return "refused"
    # 412 Precondition Failed: the condition is always that no object exists.
    if status == 412:
        return "there"
    # 501: stores that lack conditional writes answer so.
    if status == 501:
        return "odd"
    # 409 is included: S3 answers it to concurrent conditional writes, which may be repeated.
    return "passing" if status >= 500 or status in (408, 409, 425, 429) else "odd"


def _code(failure: BaseException) -> str:
    """Return the error code of a response, as botocore or the Azure client stores it."""
    response = getattr(failure, "response", None)
    error = response.get("Error") if isinstance(response, dict) else None
    if isinstance(error, dict):
        return str(error.get("Code", ""))
    code = getattr(failure, "error_code", None)
    return str(getattr(code, "value", code or ""))


def status_of(failure: BaseException) -> int | None:
    """Return the HTTP status of a response, wherever the library stores it."""
    response = getattr(failure, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(failure, "status", None) or getattr(failure, "status_code", None)
        status = status or getattr(failure, "code", None)
    if isinstance(status, str) and status.isdigit():
        status = int(status)
    # Some libraries store the status as text; others reuse `code` for their own numbers.
    return status if isinstance(status, int) and 300 <= status < 600 else None
